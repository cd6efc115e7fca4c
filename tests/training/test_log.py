"""The log of a run: lines of JSON whatever the numbers are, and no line that is torn."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.core.errors import ArtifactError
from bertworks.training.log import LOG, LOG_KEYS, add_line, cut_behind, read_log, sync


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write a log of three steps, the second of which was scored."""
    for entry in (
        {"step": 1, "fill_mask": 2.5, "lr": 0.1},
        {"step": 2, "fill_mask": 2.25, "lr": 0.1},
        {"step": 2, "evaluation": {"loss": 2.0}},
        {"step": 3, "fill_mask": 2.0, "lr": 0.1},
    ):
        add_line(tmp_path / LOG, entry)
    return tmp_path / LOG


def test_lines_are_read_in_their_order(log: Path) -> None:
    sync(log)
    assert [entry["step"] for entry in read_log(log.parent)] == [1, 2, 2, 3]
    losses = {name for entry in read_log(log.parent) for name in entry if name not in LOG_KEYS}
    assert losses == {"fill_mask"}


def test_a_run_without_a_log_has_an_empty_one(tmp_path: Path) -> None:
    assert read_log(tmp_path) == []
    cut_behind(tmp_path / LOG, 3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("step", "kept"), [(0, 0), (1, 1), (2, 3), (3, 4), (9, 4)])
def test_the_lines_of_later_steps_are_cut_off(log: Path, step: int, kept: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    cut_behind(log, step)
    assert log.read_bytes() == b"".join(lines[:kept])


@pytest.mark.parametrize(
    "tail", [b'{"step": 3, "los', b'{"step": 2', b"\0" * 50, b"\xff\xfe\n", b"\0\0\n", b"7\n"]
)
def test_a_torn_end_is_cut_off(log: Path, tail: bytes) -> None:
    whole = log.read_bytes()
    log.write_bytes(whole + tail)
    cut_behind(log, 3)
    assert log.read_bytes() == whole


@given(
    value=st.floats() | st.integers() | st.text(),
    nested=st.dictionaries(st.text(max_size=3), st.floats(), max_size=3),
)
@settings(max_examples=40)
def test_a_line_is_json_whatever_the_numbers_are(
    value: Any, nested: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("log") / LOG
    add_line(log, {"step": 1, "value": value, "metrics": nested})

    def refuse(word: str) -> None:
        raise ValueError(word)

    (line,) = log.read_bytes().splitlines()
    entry = json.loads(line, parse_constant=refuse)
    found = {"value": entry["value"], **entry["metrics"]}
    for key, number in {"value": value, **nested}.items():
        is_word = isinstance(number, float) and not math.isfinite(number)
        assert found[key] == (str(number) if is_word else number)


def test_what_the_disk_refuses_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"cannot write .*; free some space and continue with"):
        add_line(tmp_path / "gone" / LOG, {"step": 1})
