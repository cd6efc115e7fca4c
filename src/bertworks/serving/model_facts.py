"""What a model folder is, told without opening its network."""

import re
from pathlib import Path
from typing import Any

from bertworks.interop.hugging_face import open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.serving.model_folder import tasks_of

CARD = "README.md"
LANGUAGE = re.compile(r"^language: *(.+)$", re.MULTILINE)


def facts_of(path: Path) -> dict[str, Any]:
    """Check the files of a model folder and return its size, its shape and what it can be asked."""
    tasks = tasks_of(path)  # which checks the files
    folder = open_folder(encoder_folder(path))
    config = folder.config
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {
        "name": path.resolve().name,
        "language": _language(path),
        "family": config.family,
        "parameters": folder.num_weights,
        "megabytes": round(size / 1e6, 1),
        "layers": config.num_layers,
        "width": config.hidden_size,
        "longest": config.max_positions,
        "tasks": ", ".join(tasks) or "embed",
    }


def _language(path: Path) -> str | None:
    """Return the language that the head of a model's card names."""
    card = path / CARD
    if not card.is_file():
        return None
    _, *head, _ = [*card.read_text(encoding="utf-8").split("---\n", maxsplit=2), ""][:3]
    found = LANGUAGE.search(head[0]) if head else None
    return found[1].strip(" []\"'") if found else None
