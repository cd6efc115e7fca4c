"""Settings come from flags and recipes, and become plain data and the command to run again."""

import json
import shlex
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.core.settings import (
    Limit,
    ModelFolder,
    Ramp,
    as_command,
    as_json,
    make_settings,
    read_values,
    settings_of,
    suggestion,
)

Count = Annotated[int, Limit("of at least 1", lambda n: n >= 1)]


@dataclass(frozen=True, kw_only=True)
class Where:
    device: Literal["auto", "cpu"] = "auto"
    """Where to compute."""
    threads: Count | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    text: tuple[Path, ...] = field(kw_only=False)
    """Text files,
    or folders."""
    out: Path
    """Folder to write."""
    batch_size: Count = 7
    rate: float = 0.1
    cased: bool = False
    next_sentence: bool = True
    columns: tuple[str, ...] = ()
    where: Where = Where()


FULL = Settings(
    (Path("a.txt"), Path("b")),
    out=Path("o"),
    rate=0.25,
    cased=True,
    next_sentence=False,
    columns=("text=a", "label=b"),
    where=Where(device="cpu", threads=3),
)


def read(**given: Any) -> dict[str, Any]:
    return read_values(Settings, given, where="make")


def test_every_field_is_a_setting_with_its_flag_help_and_default() -> None:
    found = {setting.name: setting for setting in settings_of(Settings)}
    assert list(found) == [
        "text",
        "out",
        "batch_size",
        "rate",
        "cased",
        "next_sentence",
        "columns",
        "device",
        "threads",
    ]
    assert found["batch_size"].flag == "--batch-size"
    assert found["text"].help == "Text files, or folders."
    assert found["device"].help == "Where to compute."
    assert found["device"].choices == ("auto", "cpu")
    assert (found["text"].is_positional, found["out"].is_positional) == (True, False)
    assert (found["out"].default, found["batch_size"].default) == (MISSING, 7)
    shapes = [found[name].shape for name in ("batch_size", "rate", "out", "columns", "threads")]
    assert shapes == ["N", "X", "PATH", "WORD", "N"]


def test_settings_become_flat_json_with_every_default() -> None:
    flat = as_json(Settings((Path("a.txt"), Path("b")), out=Path("o"), where=Where(threads=3)))
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
    assert as_command("make", FULL) == (
        "bertworks make a.txt b --out o --rate 0.25 --cased --no-next-sentence "
        "--columns text=a label=b --device cpu --threads 3"
    )
    assert as_command("make", Settings((Path("a"),), out=Path("o"))) == "bertworks make a --out o"


def test_the_command_survives_a_shell() -> None:
    odd = Path("it's a $HOME; file")
    words = shlex.split(as_command("make", Settings((odd,), out=Path("my out"))))
    assert words == ["bertworks", "make", str(odd), "--out", "my out"]


def test_json_of_settings_fills_the_same_settings_again() -> None:
    for settings in (FULL, Settings((Path("a"),), out=Path("o"))):
        given = {name: value for name, value in as_json(settings).items() if value is not None}
        assert make_settings(Settings, read(**given), command="make") == settings


names = st.text(min_size=1)
settings_strategy = st.builds(
    Settings,
    st.lists(names.map(Path), min_size=1, max_size=3).map(tuple),
    out=names.map(Path),
    batch_size=st.integers(1),
    rate=st.floats(allow_nan=False),
    cased=st.booleans(),
    next_sentence=st.booleans(),
    columns=st.lists(names, max_size=3).map(tuple),
    where=st.builds(
        Where, device=st.sampled_from(["auto", "cpu"]), threads=st.none() | st.integers(1)
    ),
)


def from_json(flat: dict[str, Any]) -> Settings:
    """Fill settings from what a manifest says about them."""
    given = {name: value for name, value in flat.items() if value is not None}
    return make_settings(Settings, read(**given), command="make")


@given(settings_strategy)
def test_nothing_is_lost_between_settings_and_their_json(settings: Settings) -> None:
    assert from_json(json.loads(json.dumps(as_json(settings)))) == settings
    assert from_json({**as_json(settings), "batch_size": settings.batch_size + 1}) != settings


@given(st.integers())
def test_a_limit_lets_in_exactly_what_it_holds_for(number: int) -> None:
    for value in (number, str(number)):
        if number >= 1:
            assert read(batch_size=value, threads=value) == {
                "batch_size": number,
                "threads": number,
            }
        else:
            for name in ("batch_size", "threads"):
                with pytest.raises(UsageError, match="a whole number of at least 1"):
                    read(**{name: value})


def test_a_number_keeps_all_its_digits() -> None:
    assert read(batch_size=str(2**63 - 1), rate="1e-3") == {"batch_size": 2**63 - 1, "rate": 0.001}
    assert read(batch_size=7.0) == {"batch_size": 7}


def test_a_field_without_a_string_below_it_has_no_help() -> None:
    found = {setting.name: setting.help for setting in settings_of(Settings)}
    assert (found["rate"], found["threads"], found["out"]) == ("", "", "Folder to write.")


def test_words_of_flags_and_values_of_recipes_mean_the_same() -> None:
    assert read(batch_size="3", rate="0.5", threads="2", columns="a") == {
        "batch_size": 3,
        "rate": 0.5,
        "threads": 2,
        "columns": ("a",),
    }
    assert read(batch_size=3, rate=1, threads=2, columns=["a"]) == {
        "batch_size": 3,
        "rate": 1.0,
        "threads": 2,
        "columns": ("a",),
    }


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("batch_size", "many", "a whole number of at least 1"),
        ("batch_size", 0, "a whole number of at least 1"),
        ("batch_size", 2.5, "a whole number"),
        ("batch_size", True, "a whole number"),
        ("batch_size", float("inf"), "a whole number"),
        ("threads", "0", "a whole number of at least 1"),
        ("rate", "x", "a number"),
        ("rate", [0.1], "a number"),
        ("cased", "yes", "true or false"),
        ("cased", 1, "true or false"),
        ("device", "tpu", "auto or cpu"),
        ("out", "", "a path"),
        ("out", 7, "a path"),
        ("columns", ["a", 7], "a word"),
    ],
)
def test_a_value_that_cannot_be_meant_is_one_sentence(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(UsageError, match=rf"make: {name} is .*, but it must be {wanted}"):
        read(**{name: value})


def test_an_unknown_setting_is_named_with_the_likely_one() -> None:
    with pytest.raises(
        UsageError, match=r"has no setting 'batch_sise' \(did you mean batch_size\?\)"
    ):
        read(batch_sise=3)
    assert suggestion("zzz", ["batch_size"]) == ""


def test_what_must_be_given_is_asked_for() -> None:
    with pytest.raises(UsageError, match=r"make needs TEXT and --out; see bertworks make --help"):
        make_settings(Settings, {}, command="make")
    with pytest.raises(UsageError, match="make needs TEXT; see"):
        make_settings(Settings, {"text": (), "out": Path("o")}, command="make")


@dataclass(frozen=True, kw_only=True)
class Switches:
    plain: bool = False
    """Off by default."""
    open: bool | None = None
    """Neither on nor off by default."""
    count: Count | None = None
    """No switch."""


def test_a_switch_may_be_left_open() -> None:
    assert [setting.is_switch for setting in settings_of(Switches)] == [True, True, False]
    for value, words in [(None, ""), (True, " --open"), (False, " --no-open")]:
        given = {} if value is None else {"open": value}
        made = make_settings(Switches, read_values(Switches, given, where="test"), command="test")
        assert made == Switches(open=value)
        assert as_command("test", made) == f"bertworks test{words}"
    with pytest.raises(UsageError, match="open is 'maybe', but it must be true or false"):
        read_values(Switches, {"open": "maybe"}, where="test")


@dataclass(frozen=True, kw_only=True)
class Moving:
    rate: Annotated[Ramp, Limit("above 0 and below 1", lambda x: 0 < x < 1)] = Ramp(0.15, 0.15)
    """Moves or stays."""
    tokens: Ramp = Ramp(512, 512)
    other: Ramp | None = None


def moving(**given: Any) -> Moving:
    return make_settings(Moving, read_values(Moving, given, where="test"), command="test")


def test_a_ramp_is_a_number_or_two_wherever_it_comes_from() -> None:
    made = moving(rate="0.3..0.15", tokens=1024, other="2")
    assert made == Moving(rate=Ramp(0.3, 0.15), tokens=Ramp(1024, 1024), other=Ramp(2, 2))
    assert as_json(made) == {"rate": "0.3..0.15", "tokens": 1024, "other": 2}
    assert as_command("test", made) == ("bertworks test --rate 0.3..0.15 --tokens 1024 --other 2")
    assert as_command("test", Moving()) == "bertworks test"
    assert as_json(Moving()) == {"rate": 0.15, "tokens": 512, "other": None}
    assert [setting.shape for setting in settings_of(Moving)] == ["X|A..B"] * 3


@pytest.mark.parametrize("value", ["1.5", "0.1..1", "0..0.5", "", "a..b", "0.1..", "0.1..0.2..0.3"])
def test_a_ramp_keeps_both_ends_in_its_limit(value: str) -> None:
    with pytest.raises(
        UsageError, match=r"rate is .* a number or a ramp A\.\.B above 0 and below 1"
    ):
        moving(rate=value)


@pytest.mark.parametrize("value", [True, [0.1], float("nan"), "inf..1"])
def test_what_is_no_ramp_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"tokens is .*, but it must be a number or a ramp"):
        moving(tokens=value)


ENDS = st.floats(-1e9, 1e9)


@given(ENDS, ENDS, st.floats(0, 1))
def test_a_ramp_moves_in_a_line_and_is_written_without_loss(
    start: float, end: float, share: float
) -> None:
    ramp = Ramp(start, end)
    assert (ramp.at(0), ramp.at(1)) == (start, end)
    assert min(start, end) - 1e-6 <= ramp.at(share) <= max(start, end) + 1e-6
    assert ramp.at(0.5) == pytest.approx((start + end) / 2, abs=1e-6)
    assert Ramp.parse(str(ramp)) == Ramp.parse(ramp.plain()) == ramp
    assert Ramp(start, start).at(share) == start


@dataclass(frozen=True, kw_only=True)
class Opening:
    models: tuple[ModelFolder, ...] = field(kw_only=False)
    model: ModelFolder
    other: ModelFolder | None = None
    data: Path = Path("data")


def test_the_name_of_a_shipped_model_becomes_its_folder_and_a_name_again(
    ship, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "manifest.json").write_text("{}")
    folder = ship(made, "little-en")
    given = {"models": ["a", "little-en"], "model": "little-en", "other": "b", "data": "little-en"}
    values = read_values(Opening, given, where="open")
    assert values["models"] == (Path("a"), folder)
    assert (values["model"], values["other"]) == (folder, Path("b"))
    assert values["data"] == Path("little-en")  # data are not models
    settings = make_settings(Opening, values, command="open")
    assert as_json(settings) == given
    words = "bertworks open a little-en --model little-en --other b --data little-en"
    assert as_command("open", settings) == words
    shapes = {setting.name: setting.shape for setting in settings_of(Opening)}
    assert shapes == {
        "models": "PATH|NAME",
        "model": "PATH|NAME",
        "other": "PATH|NAME",
        "data": "PATH",
    }
