"""Settings: frozen dataclasses that are filled from flags and recipes, and written with results.

Every command has one settings class. Its fields are its flags and the keys of its recipe table; the
string below a field is its help; a field that holds settings of its own lends them its flags. Which
numbers a field takes stands in its annotation, as `Annotated[int, Limit(...)]`; a number that may
move over a run is a `Ramp`. A `ModelFolder` may be given by the name of a model that is shipped.
"""

import ast
import inspect
import math
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin, get_type_hints

from bertworks.core.errors import UsageError
from bertworks.core.shipped import find_model, is_shipped, shown

S = TypeVar("S")
_NAMED = "may be the name of a shipped model"  # a note in an annotation
ModelFolder = Annotated[Path, _NAMED]


@dataclass(frozen=True)
class Ramp:
    """A number that moves in a line from the beginning of a run to its end, or stays."""

    start: float
    end: float

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read a number, or two as `A..B`; anything else is a ValueError."""
        if isinstance(value, cls):
            return value
        parts = value.split("..") if isinstance(value, str) else [value]
        numbers = [float(part) for part in parts]
        if len(numbers) > 2 or not all(map(math.isfinite, numbers)) or isinstance(value, bool):
            raise ValueError(f"{value!r} is neither a number nor two as A..B")
        return cls(numbers[0], numbers[-1])

    @property
    def is_constant(self) -> bool:
        """Whether it stays."""
        return self.start == self.end

    def at(self, share: float) -> float:
        """Return the number after a share of the run."""
        return self.start if self.is_constant else self.start * (1 - share) + self.end * share

    def plain(self) -> float | str:
        """Return it as it is written in a recipe."""
        return _short(self.start) if self.is_constant else str(self)

    def __str__(self) -> str:
        ends = [str(_short(number)) for number in (self.start, self.end)]
        return ends[0] if self.is_constant else "..".join(ends)


def _short(number: float) -> float:
    return int(number) if number == int(number) else number


KIND_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "a word",
    Path: "a path",
    Ramp: "a number or a ramp A..B",
}


@dataclass(frozen=True)
class Limit:
    """Which numbers a setting takes."""

    words: str  # after "a number", as in "a number above 0"
    holds: Callable[[float], bool]


@dataclass(frozen=True)
class Setting:
    """One field of a settings class, as a flag and a recipe key."""

    name: str
    kind: Any  # its annotation
    default: Any  # MISSING where one must be given
    help: str
    is_positional: bool
    limit: Limit | None = None
    may_be_named: bool = False  # whether it is the folder of a model

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def word(self) -> str:
        """What stands for it on the command line."""
        return self.name.upper() if self.is_positional else self.flag

    @property
    def is_switch(self) -> bool:
        """Whether it is turned on and off, or perhaps left open."""
        return bool in (self.kind, *get_args(self.kind))

    @property
    def is_tuple(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self.kind) is tuple

    @property
    def shape(self) -> str:
        """What stands for its value in help texts."""
        path = "PATH|NAME" if self.may_be_named else "PATH"
        kinds = {int: "N", float: "X", Path: path, str: "WORD", Ramp: "X|A..B"}
        inner = [kinds[kind] for kind in (self.kind, *get_args(self.kind)) if kind in kinds]
        return "|".join(self.choices) or inner[0]

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it takes, where only some are allowed."""
        return tuple(c for k in (self.kind, *get_args(self.kind)) for c in _words(k))


def settings_of(kind: type) -> list[Setting]:
    """Return the settings of a class, those of nested classes among them, in order."""
    hints, texts, notes = get_type_hints(kind), _help_texts(kind), _notes(kind)
    found: list[Setting] = []
    for item in fields(kind):
        name = item.name
        if _holds_settings(hints[name]):
            found += settings_of(hints[name])
        else:
            found.append(_setting(item, hints[name], texts.get(name, ""), notes[name]))
    return found


def changed_settings(settings: Any) -> list[Setting]:
    """Return the settings that have another value than by default."""
    values = dict(_flat(settings))
    return [one for one in settings_of(type(settings)) if values[one.name] != one.default]


def read_values(
    kind: type, given: Mapping[str, Any], *, where: str, are_flags: bool = False
) -> dict[str, Any]:
    """Return values from flags or a recipe as a settings class wants them; others stop."""
    known = {setting.name: setting for setting in settings_of(kind)}
    for name in given:
        if name not in known:
            raise UsageError(f"{where} has no setting {name!r}{suggestion(name, known)}")
    said = {name: f"{where}: {known[name].word if are_flags else name}" for name in given}
    return {name: _convert(known[name], value, said[name]) for name, value in given.items()}


def make_settings(kind: type[S], values: Mapping[str, Any], *, command: str) -> S:
    """Fill a command's settings class; a value that must be given and is not stops."""
    missing = [
        s for s in settings_of(kind) if s.default is MISSING and values.get(s.name, ()) == ()
    ]
    if missing:
        names = " and ".join(setting.word for setting in missing)
        raise UsageError(f"{command} needs {names}; see bertworks {command} --help")
    for setting in (one for one in settings_of(kind) if one.may_be_named):
        _refuse_hiding(values.get(setting.name), values.get("out"))
    return _fill(kind, values)


def _refuse_hiding(model: Any, out: Path | None) -> None:
    """Stop where what is made would lie in the place of the name that a model was given by."""
    if isinstance(model, Path) and is_shipped(model) and out == Path(model.name):
        raise UsageError(
            f"--out {out} would hide the model of this name that comes with bertworks from the "
            "same command; choose another --out"
        )


def suggestion(word: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return a hint at the known word that was probably meant."""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def as_json(settings: Any) -> dict[str, Any]:
    """Return settings as flat JSON data."""
    return {name: _plain(value) for name, value in _flat(settings)}


def as_command(name: str, settings: Any) -> str:
    """Return the exact command that runs these settings again."""
    values = dict(_flat(settings))
    words = ["bertworks", *name.split()]
    for setting in settings_of(type(settings)):
        value = values[setting.name]
        several = value if isinstance(value, tuple) else (value,)
        if setting.is_positional:
            words += map(_word, several)
        elif value != setting.default and isinstance(value, bool):
            words.append(setting.flag if value else setting.flag.replace("--", "--no-", 1))
        elif value != setting.default:
            words += [setting.flag, *map(_word, several)]
    return shlex.join(words)


def _setting(item: Field[Any], kind: Any, text: str, notes: list[Any]) -> Setting:
    limit = next((note for note in notes if isinstance(note, Limit)), None)
    is_positional = not item.kw_only
    return Setting(item.name, kind, item.default, text, is_positional, limit, _NAMED in notes)


def _notes(kind: type) -> dict[str, list[Any]]:
    """Return what stands in the annotation of each field, also of an optional one."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: [note for part in (hint, *get_args(hint)) for note in get_args(part)]
        for name, hint in hints.items()
    }


@cache
def _help_texts(kind: type) -> dict[str, str]:
    """Return the string that stands below each field in the source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    return {
        before.target.id: " ".join(after.value.value.split())
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def _convert(setting: Setting, value: Any, said: str) -> Any:
    if setting.is_tuple:
        several = value if isinstance(value, list | tuple) else [value]
        return tuple(_convert_one(setting, get_args(setting.kind)[0], v, said) for v in several)
    kinds = [kind for kind in get_args(setting.kind) if kind is not NoneType]
    is_optional = NoneType in get_args(setting.kind)
    return _convert_one(setting, kinds[0] if is_optional else setting.kind, value, said)


def _convert_one(setting: Setting, kind: Any, value: Any, said: str) -> Any:
    """Take a recipe's typed value, or a flag's word, as the kind that the field has."""
    try:
        if get_origin(kind) is Literal and value in get_args(kind):
            return value
        if kind in (int, float) and not isinstance(value, bool):
            number = kind(value)
            is_exact = isinstance(value, str) or number == value
            if is_exact and _is_allowed(setting.limit, number):
                return number
        if kind is Ramp and _is_allowed(setting.limit, *vars(Ramp.parse(value)).values()):
            return Ramp.parse(value)
        if kind is bool and isinstance(value, bool):
            return value
        if kind in (str, Path) and isinstance(value, str) and value:
            return find_model(Path(value)) if setting.may_be_named else kind(value)
    except (TypeError, ValueError, OverflowError):
        pass
    wanted = " or ".join(_words(kind)) or KIND_NAMES.get(kind, "true or false")
    limit = f" {setting.limit.words}" if setting.limit else ""
    raise UsageError(f"{said} is {value!r}, but it must be {wanted}{limit}")


def _is_allowed(limit: Limit | None, *numbers: float) -> bool:
    return limit is None or all(map(limit.holds, numbers))


def _words(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _fill(kind: type[S], values: Mapping[str, Any]) -> S:
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    nested = {name: _fill(hints[name], values) for name in names if _holds_settings(hints[name])}
    return kind(**nested, **{name: values[name] for name in names if name in values})


def _flat(settings: Any) -> Iterator[tuple[str, Any]]:
    for item in fields(settings):
        value = getattr(settings, item.name)
        if _holds_settings(type(value)):
            yield from _flat(value)
        else:
            yield item.name, value


def _holds_settings(kind: Any) -> bool:
    return is_dataclass(kind) and kind is not Ramp


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return shown(value)
    if isinstance(value, Ramp):
        return value.plain()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _word(value: Any) -> str:
    return shown(value) if isinstance(value, Path) else str(value)
