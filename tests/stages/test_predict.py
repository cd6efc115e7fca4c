"""predict: one JSON line for each input, in order, or a name for the row that has none."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bertworks
from bertworks.serving import predictor
from bertworks.serving.predictor import Predictor, load
from bertworks.stages import outputs

SOURCES = Path(bertworks.__file__).parents[1]
Run = Callable[..., Any]
Write = Callable[[Path, list[Any]], Path]
Contents = Callable[[Path], dict[str, bytes]]
TEXTS = ["River boat.", "Engine wheel motor!", "Fish", "Road " * 300, "未知 words", "Drive."]

IN_THREES = (
    "from bertworks.cli.main import main; from bertworks.serving import predictor;"
    "from bertworks.stages import embed; predictor.CHUNK = embed.CHUNK = 3; main()"
)


def in_threes(
    words: list[str], out: Path, *, largest_file: int = 1 << 20
) -> subprocess.CompletedProcess[str]:
    """Run a command with small chunks and limited files, standard output added to a file."""
    limit = f"from resource import *; setrlimit(RLIMIT_FSIZE, ({largest_file}, {largest_file}));"
    append = os.open(out, os.O_WRONLY | os.O_APPEND)  # as a shell opens it, standing at 0
    try:
        return subprocess.run(
            [sys.executable, "-c", limit + IN_THREES, *words],
            stdout=append,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"},
        )
    finally:
        os.close(append)


def answers_in(text: str) -> list[dict[str, Any]]:
    """Read answers."""
    return [json.loads(line) for line in text.splitlines()]


@cache
def opened(path: Path) -> Predictor:
    """Open a model, once."""
    return load(path)


@pytest.fixture
def inputs(write_rows: Write, tmp_path: Path) -> Path:
    """Write inputs, long and short ones mixed."""
    return write_rows(tmp_path / "inputs.jsonl", [{"text": text} for text in TEXTS])


def test_every_input_is_answered_in_order(
    classifier: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "answers.jsonl"
    ended = command("predict", "--model", classifier, "--data", inputs, "--out", out, "--json")
    assert json.loads(ended.out) == {"out": str(out), "answered": 6, "bad_rows": 0}
    found = answers_in(out.read_text())
    assert [answer.pop("line") for answer in found] == [1, 2, 3, 4, 5, 6]
    for answer, text in zip(found, TEXTS, strict=True):
        (alone,) = opened(classifier).predict([text])
        assert answer["label"] == alone["label"]
        assert answer["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)
    assert len({answer["probability"] for answer in found}) == 6
    assert "answering: 6 texts" in ended.err


@given(st.lists(st.sampled_from([*TEXTS, None]), min_size=1, max_size=9), st.integers(1, 4))
@settings(max_examples=25)
def test_nothing_is_lost_or_swapped_whatever_the_chunks(
    classifier: Path, command: Run, texts: list[str | None], chunk: int
) -> None:
    rows = [{} if text is None else {"text": text} for text in texts]
    stdin = "".join(json.dumps(row) + "\n" for row in rows).encode()
    alone = {text: opened(classifier).predict([text])[0]["probability"] for text in TEXTS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictor, "CHUNK", chunk)
        ended = command("predict", "--model", classifier, "--data", "-", stdin=stdin)
    good = [(line, text) for line, text in enumerate(texts, start=1) if text is not None]
    if not good:
        assert f"{len(texts)} of {len(texts)} rows cannot be used" in ended.refusal(1)
        return
    found = answers_in(ended.out)
    assert [answer["line"] for answer in found] == [line for line, _ in good]
    for answer, (_, text) in zip(found, good, strict=True):
        assert answer["probability"] == pytest.approx(alone[text], abs=1e-5)
    assert ended.err.count("warning: no answer for - line") == len(texts) - len(good)


def test_bad_rows_are_named_and_counted_and_the_others_answered(
    classifier: Path, tmp_path: Path, command: Run
) -> None:
    lines = [
        b'{"text": "River."}',
        b"not JSON",
        b"",
        b'["a list"]',
        b'{"sentence": "no text"}',
        b'{"text": "  "}',
        b'{"text": "half \\ud83d"}',
        b'{"text": "caf\xe9"}',
        json.dumps({"text": "x" * 10_000_000}).encode(),
        b'{"text": "Road.", "label": "never heard of"}',
        b"[" * 100_000,
    ]
    reasons = {
        2: "not a JSON object",
        4: "not a JSON object",
        5: "no 'text' (found sentence)",
        6: "'text' is empty or not a string",
        7: "a value holds half of a surrogate pair",
        8: "not UTF-8 at byte 13",
        9: "longer than 1,000,000 bytes; split it into lines",
        11: "not a JSON object",
    }
    data, out = tmp_path / "inputs.jsonl", tmp_path / "answers.jsonl"
    data.write_bytes(b"\n".join(lines))
    words = ["predict", "--model", classifier, "--data"]
    ended = command(*words, data, "--out", out, "--json")
    assert json.loads(ended.out) == {"out": str(out), "answered": 2, "bad_rows": 8}
    assert [answer["line"] for answer in answers_in(out.read_text())] == [1, 10]
    said = [line for line in ended.err.splitlines() if line.startswith("warning: ")]
    assert said == [f"warning: no answer for {data} line {n}: {why}" for n, why in reasons.items()]
    piped = command(*words, "-", stdin=data.read_bytes())
    assert answers_in(piped.out) == answers_in(out.read_text())
    assert [line for line in piped.err.splitlines() if line.startswith("warning: ")] == [
        line.replace(str(data), "-") for line in said
    ]


def test_many_bad_rows_are_counted_rather_than_all_named(classifier: Path, command: Run) -> None:
    most = outputs.MOST_WARNINGS
    stdin = b"torn\n" * (most + 3) + b'{"text": "River."}\n'
    ended = command("predict", "--model", classifier, "--data", "-", stdin=stdin)
    assert [answer["line"] for answer in answers_in(ended.out)] == [most + 4]
    assert ended.err.count("warning: no answer for - line") == most
    assert f"warning: {most + 3} rows in all have no answer" in ended.err


def test_a_stream_goes_in_and_answers_come_out(classifier: Path, process: Run) -> None:
    stdin = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in TEXTS)
    ended = process("predict", "--model", classifier, "--data", "-", stdin=stdin)
    assert ended.code == 0, ended.err
    found = answers_in(ended.out)
    assert [answer["line"] for answer in found] == [1, 2, 3, 4, 5, 6]
    expected = load(classifier).predict(TEXTS)
    assert [answer["label"] for answer in found] == [answer["label"] for answer in expected]


def test_standard_output_belongs_to_the_answers(
    classifier: Path, inputs: Path, command: Run
) -> None:
    plain = command("predict", "--model", classifier, "--data", inputs)
    as_json = command("predict", "--model", classifier, "--data", inputs, "--json")
    assert plain.out == as_json.out
    assert len(answers_in(plain.out)) == 6


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_tables_are_read_by_the_names_of_their_columns(
    suffix: str, classifier: Path, tmp_path: Path, command: Run
) -> None:
    separator = {"csv": ",", "tsv": "\t"}[suffix]
    data = tmp_path / f"inputs.{suffix}"
    data.write_text(f"id{separator}said\n7{separator}River boat.\n8{separator}Drive.\n")
    words = ["predict", "--model", classifier, "--data", data]
    found = answers_in(command(*words, "--columns", "text=said").out)
    assert [answer["line"] for answer in found] == [2, 3]
    expected = load(classifier).predict(["River boat.", "Drive."])
    assert [answer["label"] for answer in found] == [answer["label"] for answer in expected]
    refused = command(*words).refusal(1)
    assert "1 ('id'), 2 ('said')" in refused
    assert refused.endswith("--columns text=COLUMN")


# Tasks


def test_a_pretrained_model_fills_masks(pretrained: Path, command: Run) -> None:
    rows = [{"text": "river [MASK]."}, {"text": "no mask"}, {"text": "[MASK] road [MASK]"}]
    stdin = "".join(json.dumps(row) + "\n" for row in rows).encode()
    ended = command("predict", "--model", pretrained, "--data", "-", stdin=stdin)
    first, third = answers_in(ended.out)
    assert (first["line"], len(first["masks"])) == (1, 1)
    assert (third["line"], len(third["masks"])) == (3, 2)
    expected = load(pretrained).fill_mask("river [MASK].")
    assert [c["token"] for c in first["masks"][0]] == [c.token for c in expected]
    assert "no answer for - line 2: the text has no [MASK]; put one where" in ended.err


@pytest.mark.parametrize("name", ["next_sentence", "next-sentence"])
def test_another_task_of_the_model_can_be_asked_for(
    name: str, pretrained: Path, command: Run
) -> None:
    stdin = b'{"text": "River boat.", "text_b": "Fish swim."}\n{"text": "alone"}\n'
    words = ["predict", "--model", pretrained, "--data", "-", "--task", name]
    ended = command(*words, stdin=stdin)
    (answer,) = answers_in(ended.out)
    assert answer["label"] in ("next", "random")
    assert "no answer for - line 2: the task next_sentence needs a second text" in ended.err


def test_a_task_that_the_model_has_not_is_one_sentence(
    classifier: Path, inputs: Path, command: Run
) -> None:
    words = ["predict", "--model", classifier, "--data", inputs, "--task", "fill-mask"]
    said = command(*words).refusal(2)
    assert said == "this model has no task 'fill-mask'; its tasks are: classify"


# Bad input and bad places


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "{} is empty; give a file with text in it"),
        (["", " "], "{} holds no rows; give a file with inputs in it"),
        (["torn", "torn"], "2 of 2 rows cannot be used, the first at {} line 1: not a JSON object"),
    ],
)
def test_a_file_without_a_single_input_is_one_sentence(
    lines: list[str],
    said: str,
    classifier: Path,
    write_rows: Write,
    tmp_path: Path,
    command: Run,
) -> None:
    data = write_rows(tmp_path / "inputs.jsonl", lines)
    words = ["predict", "--model", classifier, "--data", data]
    for out in ([], ["--out", tmp_path / "answers.jsonl"]):
        assert said.format(data) in command(*words, *out).refusal(1)
    assert list(tmp_path.iterdir()) == [data]


def test_an_empty_stream_and_a_missing_file_are_one_sentence(
    classifier: Path, tmp_path: Path, command: Run
) -> None:
    words = ["predict", "--model", classifier, "--data"]
    assert "- holds no rows" in command(*words, "-").refusal(1)
    gone = tmp_path / "gone.jsonl"
    assert f"there is no file {gone}" in command(*words, gone).refusal(1)


@pytest.mark.parametrize("kind", ["vocabulary", "shards"])
def test_a_folder_of_another_kind_is_one_sentence(
    kind: str, inputs: Path, command: Run, request: pytest.FixtureRequest
) -> None:
    given = request.getfixturevalue(kind)
    said = command("predict", "--model", given, "--data", inputs).refusal(1)
    assert said.startswith(f"{given} holds ")


def test_what_is_there_already_is_left_alone(
    classifier: Path, inputs: Path, tmp_path: Path, contents: Contents, command: Run
) -> None:
    (tmp_path / "answers.jsonl").write_text("dear to someone")
    before = contents(tmp_path)
    for out in (tmp_path / "answers.jsonl", inputs, tmp_path):
        said = command("predict", "--model", classifier, "--data", inputs, "--out", out).refusal(2)
        assert said == f"{out} exists already; choose another --out or remove it first"
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["a.csv", "a.TSV", "a.parquet", "a.xlsx", "a.jsonl.gz", "a.jsonl.xz"]
)
def test_answers_are_not_written_under_the_name_of_another_format(
    classifier: Path, inputs: Path, tmp_path: Path, command: Run, name: str
) -> None:
    out = tmp_path / name
    said = command("predict", "--model", classifier, "--data", inputs, "--out", out).refusal(2)
    assert said == f"--out is {out}, but answers are written as JSON lines; name it .jsonl"
    assert not out.exists()


class Interrupted(io.BytesIO):
    """A stream at whose end somebody presses Ctrl-C."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line:
            raise KeyboardInterrupt
        return line


def test_an_interrupt_leaves_no_half_written_file(
    classifier: Path, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor, "CHUNK", 1)
    out = tmp_path / "new" / "answers.jsonl"
    words = ["predict", "--model", classifier, "--data", "-", "--out", out]
    stdin = b'{"text": "River."}\n{"text": "Road."}\n'
    ended = command(*words, stdin=Interrupted(stdin))
    assert (ended.code, ended.out) == (130, "")
    assert list(out.parent.iterdir()) == []
    assert command(*words, stdin=stdin).code == 0
    assert [path.name for path in out.parent.iterdir()] == ["answers.jsonl"]


def test_a_full_disk_leaves_nothing_half_written(
    classifier: Path, inputs: Path, tmp_path: Path, process: Run
) -> None:
    out = tmp_path / "answers.jsonl"
    words = ["predict", "--model", classifier, "--data", inputs, "--out", out]
    said = process(*words, largest_file=300).refusal(1)
    assert f"cannot write {out}: File too large; free some space" in said
    assert list(tmp_path.iterdir()) == [inputs]


@pytest.mark.parametrize("name", ["predict", "embed"])
def test_a_full_disk_behind_standard_output_leaves_whole_lines(
    name: str, classifier: Path, inputs: Path, tmp_path: Path
) -> None:
    words = [name, "--model", str(classifier), "--data", str(inputs)]
    out, before = tmp_path / "answers.jsonl", b'{"line": 0}\n'
    out.write_bytes(before)
    assert in_threes(words, out).returncode == 0
    lines = out.read_bytes().splitlines(keepends=True)
    for limit, kept in ((len(b"".join(lines[:6])), 4), (len(b"".join(lines[:3])), 1)):
        out.write_bytes(before)
        done = in_threes(words, out, largest_file=limit)
        assert done.returncode == 1
        assert "File too large: 'standard output'; check" in done.stderr.splitlines()[-1]
        assert out.read_bytes().splitlines(keepends=True) == lines[:kept]


@pytest.mark.parametrize("name", ["predict", "embed"])
def test_a_full_device_behind_standard_output_is_one_sentence(
    name: str, classifier: Path, inputs: Path
) -> None:
    words = [name, "--model", str(classifier), "--data", str(inputs)]
    done = in_threes(words, Path("/dev/full"))
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith("bertworks: [Errno 28] No space left on device: 'standard output'")


@pytest.mark.parametrize("name", ["predict", "embed"])
def test_answers_come_while_the_input_goes_on_and_a_closed_pipe_ends_it_quietly(
    name: str, classifier: Path
) -> None:
    words = [name, "--model", str(classifier), "--data", "-"]
    asked = subprocess.Popen(
        [sys.executable, "-c", IN_THREES, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"},
    )
    assert asked.stdin is not None
    assert asked.stdout is not None
    assert asked.stderr is not None
    asked.stdin.write(b'{"text": "River."}\n' * 3)
    asked.stdin.flush()
    lines = [json.loads(asked.stdout.readline())["line"] for _ in range(3)]
    assert lines == [1, 2, 3]  # and standard input is still open
    asked.stdout.close()
    asked.stdin.write(b'{"text": "Road."}\n' * 3)
    asked.stdin.flush()
    assert asked.wait(60) == 1
    said = asked.stderr.read().decode()
    assert "bertworks:" not in said
    assert "Error" not in said
    asked.stdin.close()
    asked.stderr.close()


def test_what_is_new_in_an_output_does_not_depend_on_where_it_was_left(
    classifier: Path, inputs: Path, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor, "CHUNK", 2)
    words = ["predict", "--model", classifier, "--data", inputs, "--resume", "auto", "--out"]
    assert command(*words, tmp_path / "whole.jsonl").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "answer_chunks", broken_off(Predictor.answer_chunks))
        assert command(*words, tmp_path / "again.jsonl").code == 130
    ended = command(*words, tmp_path / "again.jsonl")
    assert "goes on behind 4 rows" in ended.err
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def broken_off(chunks: Callable[..., Any]) -> Callable[..., Any]:
    """Let somebody press Ctrl-C after two chunks."""

    def some(*args: Any, **kwargs: Any) -> Any:
        for number, chunk in enumerate(chunks(*args, **kwargs)):
            if number == 2:
                raise KeyboardInterrupt
            yield chunk

    return some


def test_inputs_stand_before_their_answers_on_request_and_are_labelled_data(
    classifier: Path, tmp_path: Path, command: Run
) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "out.jsonl"
    data.write_text("n,sentence\n1,River boat.\n2,\n3,Engine wheel motor!\n", encoding="utf-8")
    words = ["predict", "--model", classifier, "--data", data]
    plain = answers_in(command(*words).out)
    assert command(*words, "--with-inputs", "--out", out).code == 0
    rows = answers_in(out.read_text(encoding="utf-8"))
    assert [list(row)[:3] for row in rows] == [["line", "text", "label"]] * 2
    assert [row.pop("text") for row in rows] == ["River boat.", "Engine wheel motor!"]
    assert rows == plain
    report = tmp_path / "report"
    words = ["evaluate", "--model", classifier, "--data", out, "--out", report, "--json"]
    assert json.loads(command(*words).out)["accuracy"] == 1.0  # what it labelled itself


def test_answers_are_explained_on_request(
    classifier: Path, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    texts = ["River boat.", "Road " * 90, "Engine wheel motor!"]
    data = write_rows(tmp_path / "data.jsonl", [{"text": text} for text in texts])
    ended = command("predict", "--model", classifier, "--data", data, "--explain")
    assert ended.code == 0, ended.err
    found = answers_in(ended.out)
    assert [answer.pop("explanation") is None for answer in found] == [False, True, False]
    plain = command("predict", "--model", classifier, "--data", data)
    assert found == answers_in(plain.out)
    first = answers_in(ended.out)[0]
    expected = opened(classifier).attribute(texts[0], label=first["label"]).as_json()
    assert first["explanation"]["label"] == first["label"]
    told, words = first["explanation"]["words"], expected["words"]
    assert [word["piece"] for word in told] == ["River", "boat", "."]
    assert [word["score"] for word in told] == pytest.approx([word["score"] for word in words])
    assert "warning: 1 answers are not explained, for their inputs are longer" in ended.err


def test_answers_that_cannot_be_explained_are_one_sentence(
    pretrained: Path, classifier: Path, inputs: Path, command: Run
) -> None:
    words = ["predict", "--data", inputs, "--explain", "--model"]
    said = command(*words, pretrained).refusal(2)
    assert "the answers of fill_mask are not explained; those of classify, match" in said
    said = command(*words, classifier, "--zero-shot", "boat", "car").refusal(2)
    assert "--explain is for tasks that were learned" in said


def test_a_finished_file_is_not_answered_again(
    classifier: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "out.jsonl"
    words = ["predict", "--model", classifier, "--data", inputs, "--out", out, "--json"]
    first = command(*words, "--resume", "auto")
    written = out.read_bytes()
    again = command(*words, "--resume", "auto")
    assert (again.code, again.out, out.read_bytes()) == (0, first.out, written)
    assert f"{out} is finished already" in again.err
    said = command(*words, "--resume", "auto", "--explain").refusal(2)
    assert f"{out} was begun with explain = False, now True; choose another --out" in said
