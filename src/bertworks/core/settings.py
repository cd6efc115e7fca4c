"""Settings as plain data: for manifests, and as the command that would run them again."""

import shlex
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any


def as_json(settings: Any) -> dict[str, Any]:
    """Return a settings object as JSON data."""
    flat: dict[str, Any] = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        flat |= as_json(value) if is_dataclass(value) else {field.name: _plain(value)}
    return flat


def as_command(name: str, settings: Any) -> str:
    """Return the exact command that runs these settings again."""
    return shlex.join(["bertworks", name, *_words(settings)])


def _words(settings: Any) -> list[str]:
    words: list[str] = []
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            words += _words(value)
        elif not field.kw_only:
            words += map(str, value if isinstance(value, tuple) else (value,))
        elif field.default is MISSING or value != field.default:
            words += _flag(field.name.replace("_", "-"), value)
    return words


def _flag(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    values = value if isinstance(value, tuple) else (value,)
    return [word for item in values for word in (f"--{name}", str(item))]


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
