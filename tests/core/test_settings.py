"""Settings become plain data and the command that runs them again."""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from bertworks.core.settings import as_command, as_json


@dataclass(frozen=True, kw_only=True)
class Where:
    device: str = "auto"
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    text: tuple[Path, ...] = field(kw_only=False)
    out: Path
    batch_size: int = 7
    rate: float = 0.1
    cased: bool = False
    next_sentence: bool = True
    columns: tuple[str, ...] = ()
    where: Where = Where()


def test_settings_become_flat_json_with_every_default() -> None:
    settings = Settings((Path("a.txt"), Path("b")), out=Path("o"), where=Where(threads=3))
    flat = as_json(settings)
    assert flat == {
        "text": ["a.txt", "b"],
        "out": "o",
        "batch_size": 7,
        "rate": 0.1,
        "cased": False,
        "next_sentence": True,
        "columns": [],
        "device": "auto",
        "threads": 3,
    }
    assert json.loads(json.dumps(flat)) == flat


def test_the_command_holds_what_is_no_default_and_nothing_else() -> None:
    settings = Settings(
        (Path("a.txt"), Path("b")),
        out=Path("o"),
        rate=0.25,
        cased=True,
        next_sentence=False,
        columns=("text=a", "label=b"),
        where=Where(device="cpu"),
    )
    assert as_command("make", settings) == (
        "bertworks make a.txt b --out o --rate 0.25 --cased --no-next-sentence "
        "--columns text=a --columns label=b --device cpu"
    )
    assert as_command("make", Settings((Path("a"),), out=Path("o"))) == "bertworks make a --out o"


def test_the_command_survives_a_shell() -> None:
    odd = Path("it's a $HOME; file")
    words = shlex.split(as_command("make", Settings((odd,), out=Path("my out"))))
    assert words == ["bertworks", "make", str(odd), "--out", "my out"]
