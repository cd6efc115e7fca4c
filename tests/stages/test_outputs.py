"""Outputs: where answers go, how far they have come, and what became of each row."""

from pathlib import Path

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.core.growing import note_of
from bertworks.data.examples import TextExample
from bertworks.stages.answer_settings import PredictSettings
from bertworks.stages.outputs import MOST_REFUSED, Inputs, Tally, finished_before, open_output


@pytest.fixture
def settings(tmp_path: Path) -> PredictSettings:
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "a"}\ntorn\n{"text": "b"}\n{"text": "c"}\n')
    (tmp_path / "model").mkdir()
    out = str(tmp_path / "out.jsonl")
    return PredictSettings(model=tmp_path / "model", data=str(data), out=out, resume="auto")


def test_a_tally_goes_through_a_note_unchanged() -> None:
    tally = Tally()
    tally.count(3, [(TextExample("a", line=4), DataError("no mask"))])
    assert (tally.num_seen, tally.num_answered, tally.num_refused) == (4, 3, 1)
    assert Tally(**tally.as_json()) == tally


def test_of_many_refused_rows_only_the_first_are_kept() -> None:
    tally = Tally()
    tally.count(0, [(TextExample("a", line=1), DataError("no"))] * (MOST_REFUSED + 3))
    assert (tally.num_refused, len(tally.refused)) == (MOST_REFUSED + 3, MOST_REFUSED)


def test_rows_seen_before_are_passed_over_but_counted(settings: PredictSettings) -> None:
    inputs = Inputs(settings, form="texts")
    tally = Tally(num_seen=2, num_answered=1, num_refused=1, refused=[[3, "no mask"]])
    assert [example.line for example in inputs.after(tally)] == [4]
    inputs.require_some(tally)
    assert (inputs.quarantine.num_good, inputs.tell_bad("answer")) == (2, 2)


@pytest.mark.parametrize("stream", ["data", "out"])
def test_a_stream_cannot_be_gone_on_with(settings: PredictSettings, stream: str) -> None:
    given = PredictSettings(**{**vars(settings), stream: "-"})
    with pytest.raises(UsageError, match="--resume auto needs files"):
        finished_before(given)


def test_the_model_that_is_asked_for_changes_does_not_take_the_output(
    settings: PredictSettings,
) -> None:
    given = PredictSettings(**{**vars(settings), "out": str(settings.model / "a" / "out.jsonl")})
    with pytest.raises(UsageError, match="so --out cannot lie in it; choose another"):
        finished_before(given)
    assert finished_before(PredictSettings(**{**vars(given), "resume": "never"})) is None


def test_what_was_noted_comes_back(settings: PredictSettings) -> None:
    def begin() -> None:
        with open_output(settings) as (output, tally, _):
            output.write(b"one\n")
            tally.count(1, [])
            output.commit(tally.as_json())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert note_of(Path(settings.out)).exists()
    with open_output(settings) as (_, tally, file):
        assert tally == Tally(num_seen=1, num_answered=1)
        assert file is not None
        file.publish()
    assert Path(settings.out).read_text() == "one\n"
