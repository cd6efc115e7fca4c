"""embed: one vector for each text, in order, in files that others read."""

import gzip
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from bertworks.serving.predictor import load
from bertworks.stages import embed, outputs
from bertworks.tasks import answering

Run = Callable[..., Any]
Write = Callable[[Path, list[Any]], Path]
TEXTS = ["River boat.", "Engine wheel motor!", "Fish", "Road " * 90, "未知 words", "Drive.", "Bank"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embed three texts at once."""
    monkeypatch.setattr(embed, "CHUNK", 3)


@pytest.fixture
def inputs(write_rows: Write, tmp_path: Path) -> Path:
    return write_rows(tmp_path / "texts.jsonl", [{"text": text} for text in TEXTS])


@pytest.fixture
def expected(pretrained: Path) -> np.ndarray:
    return load(pretrained).embed(TEXTS)


def test_an_array_holds_one_vector_for_each_text_in_order(
    pretrained: Path, inputs: Path, expected: np.ndarray, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "new" / "vectors.npy"
    ended = command("embed", "--model", pretrained, "--data", inputs, "--out", out, "--json")
    told = {"out": str(out), "vectors": 7, "size": expected.shape[1], "bad_rows": 0}
    assert json.loads(ended.out) == told
    found = np.load(out, mmap_mode="r")
    assert (found.dtype, found.shape) == (np.float32, expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found[1:] - expected[:-1]).max() > 1e-3  # the check would see a shift
    assert "embedding: 7 texts" in ended.err
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "-"])
def test_other_files_name_the_line_of_each_vector(
    suffix: str, pretrained: Path, inputs: Path, expected: np.ndarray, tmp_path: Path, command: Run
) -> None:
    out = suffix if suffix == "-" else str(tmp_path / f"vectors.{suffix}")
    ended = command("embed", "--model", pretrained, "--data", inputs, "--out", out)
    assert ended.code == 0, ended.err
    if suffix == "parquet":
        rows = parquet.read_table(out).to_pylist()
    else:
        written = ended.out if suffix == "-" else Path(out).read_text()
        rows = [json.loads(line) for line in written.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-5)


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "jsonl.gz", "parquet", "stdin"])
def test_texts_are_read_from_every_kind_of_file(
    suffix: str, pretrained: Path, expected: np.ndarray, tmp_path: Path, command: Run
) -> None:
    import pyarrow

    data, stdin = tmp_path / f"texts.{suffix}", b""
    lines = [json.dumps({"said": text}) for text in TEXTS]
    if suffix == "parquet":
        parquet.write_table(pyarrow.table({"said": TEXTS}), data)
    elif suffix == "jsonl.gz":
        data.write_bytes(gzip.compress("\n".join(lines).encode()))
    elif suffix == "stdin":
        data, stdin = Path("-"), "\n".join(lines).encode()
    else:
        data.write_text("\n".join(TEXTS if suffix == "txt" else ["said", *TEXTS]) + "\n")
    columns = [] if suffix == "txt" else ["--columns", "text=said"]
    words = ["embed", "--model", pretrained, "--data", data, *columns]
    ended = command(*words, "--out", tmp_path / "out.npy", stdin=stdin)
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)


def test_settings_of_vectors_reach_the_model(
    pretrained: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    words = ["embed", "--model", pretrained, "--data", inputs, "--out", tmp_path / "out.npy"]
    how = ["--pooling", "max", "--no-normalize", "--max-length", "9", "--prompt", "boat: "]
    assert command(*words, *how).code == 0
    asked = {"pooling": "max", "normalize": False, "max_length": 9, "prompt": "boat: "}
    expected = load(pretrained).embed(TEXTS, **asked)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)


def test_rows_without_a_vector_are_left_out_named_and_written_down(
    pretrained: Path, tmp_path: Path, command: Run
) -> None:
    lines = [
        '{"text": "River."}',
        '{"text": ""}',
        "torn",
        '{"text": "half \\ud83d"}',
        json.dumps({"text": "x" * 1_000_000}),
        '{"text": "\\u2603\\u2603 \\u2604"}',
        json.dumps({"text": "y" * 999_000}),
        '{"text": "Road.", "text_b": "not read"}',
    ]
    data, out = tmp_path / "texts.jsonl", tmp_path / "out.npy"
    data.write_text("\n".join(lines))
    reasons = {
        2: "'text' is empty or not a string",
        3: "not a JSON object",
        4: "a value holds half of a surrogate pair",
        5: "longer than 1,000,000 bytes; split it into lines",
    }
    ended = command("embed", "--model", pretrained, "--data", data, "--out", out, "--json")
    told = json.loads(ended.out)
    assert (told["vectors"], told["bad_rows"]) == (4, 4)
    written = [json.loads(row) for row in Path(told["left_out"]).read_text().splitlines()]
    assert {row["line"]: row["reason"] for row in written} == reasons
    for line, reason in reasons.items():
        assert f"warning: no vector for {data} line {line}: {reason}" in ended.err
    assert "warning: 1 rows have a second text, of which no vector is made" in ended.err
    good = ["River.", "☃☃ ☄", "y" * 999_000, "Road."]
    np.testing.assert_allclose(np.load(out), load(pretrained).embed(good), atol=1e-5)


def test_a_model_folder_without_a_tokenizer_is_one_sentence(
    pretrained: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    model = tmp_path / "model"
    shutil.copytree(pretrained, model)
    for name in ("manifest.json", "tokenizer.json", "vocab.txt"):
        (model / name).unlink()
    said = command("embed", "--model", model, "--data", inputs).refusal(1)
    assert str(model) in said
    assert "tokenizer.json" in said


def test_a_file_without_a_text_is_one_sentence(
    pretrained: Path, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    data = write_rows(tmp_path / "texts.jsonl", ["torn", "torn"])
    words = ["embed", "--model", pretrained, "--data", data, "--out", tmp_path / "out.npy"]
    assert "2 of 2 rows cannot be used" in command(*words).refusal(1)
    assert list(tmp_path.iterdir()) == [data]


def test_an_unknown_ending_is_refused_before_the_model_is_opened(
    tmp_path: Path, command: Run
) -> None:
    words = ["embed", "--model", tmp_path / "gone", "--data", "-", "--out", tmp_path / "out.bin"]
    assert "its name should end with .npy, .parquet or .jsonl" in command(*words).refusal(2)


class BrokenOff(io.BytesIO):
    """A stream at whose end somebody presses Ctrl-C."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line:
            raise KeyboardInterrupt
        return line


def test_an_interrupted_stream_leaves_no_half_written_file(
    pretrained: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    words = ["embed", "--model", pretrained, "--data", "-", "--out", tmp_path / "new" / "out.npy"]
    assert command(*words, stdin=BrokenOff(inputs.read_bytes())).code == 130
    assert list((tmp_path / "new").iterdir()) == []


def test_layers_and_cuts_reach_the_model(
    pretrained: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    words = ["embed", "--model", pretrained, "--data", inputs, "--out", tmp_path / "out.npy"]
    ended = command(*words, "--layers", "-1", "-2", "0", "--mix", "concat", "--dims", "70")
    assert ended.code == 0, ended.err
    expected = load(pretrained).embed(TEXTS, layers=(-1, -2, 0), mix="concat", dims=70)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)
    assert expected.shape == (7, 70)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--layers", "3"], "there is no layer 3; the network has 2, from 1 (or -2) to 2 (or -1)"),
        (["--layers", "-1", "last"], "layers is 'last', but it must be a whole number"),
        (["--dims", "65"], "dims is 65; the vectors have 64 numbers"),
    ],
)
def test_layers_and_cuts_that_the_network_has_not_are_one_sentence(
    given: list[str], said: str, pretrained: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    words = ["embed", "--model", pretrained, "--data", inputs, "--out", tmp_path / "out.npy"]
    assert said in command(*words, *given).refusal(2)
    assert list(tmp_path.iterdir()) == [inputs]


@pytest.mark.parametrize("suffix", ["npy", "parquet", "jsonl"])
@pytest.mark.parametrize("numbers", ["int8", "uint8", "binary", "ubinary"])
def test_vectors_are_written_in_few_bits(
    numbers: str, suffix: str, pretrained: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    out, kind = tmp_path / f"out.{suffix}", np.int8 if numbers in ("int8", "binary") else np.uint8
    ranges = load(pretrained).vector_ranges(TEXTS, dims=33) if "int8" in numbers else None
    given = []
    if ranges is not None:
        np.save(tmp_path / "ranges.npy", ranges)
        given = ["--ranges", tmp_path / "ranges.npy"]
    words = ["embed", "--model", pretrained, "--data", inputs, "--out", out, "--dims", 33]
    ended = command(*words, "--numbers", numbers, *given)
    assert ended.code == 0, ended.err
    if suffix == "npy":
        found = np.load(out)
        assert found.dtype == kind
    elif suffix == "parquet":
        table = parquet.read_table(out)
        assert table.schema.field("vector").type.value_type == np.dtype(kind).name
        found = np.array(table["vector"].to_pylist())
    else:
        found = np.array([json.loads(line)["vector"] for line in out.read_text().splitlines()])
    expected = load(pretrained).embed(TEXTS, dims=33, precision=numbers, ranges=ranges)
    assert found.shape == expected.shape
    # A chunk of other texts may round a number over the edge of a step.
    assert np.abs(found.astype(int) - expected).max() <= (1 if ranges is not None else 0)


def test_ranges_are_taken_from_texts_and_kept_for_later_vectors(
    pretrained: Path, inputs: Path, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    out, again = tmp_path / "out.npy", tmp_path / "again.npy"
    sample = write_rows(tmp_path / "sample.jsonl", [{"text": text} for text in TEXTS[:3]])
    words = ["embed", "--model", pretrained, "--data", inputs, "--numbers", "int8", "--json"]
    ended = command(*words, "--ranges", sample, "--out", out)
    assert ended.code == 0, ended.err
    kept = Path(json.loads(ended.out)["ranges"])
    assert kept == tmp_path / "out.npy.ranges.npy"
    np.testing.assert_allclose(np.load(kept), load(pretrained).vector_ranges(TEXTS[:3]), atol=1e-5)
    ended = command(*words, "--ranges", kept, "--out", again)
    assert "ranges" not in json.loads(ended.out)
    assert again.read_bytes() == out.read_bytes()
    assert not (tmp_path / "again.npy.ranges.npy").exists()


def test_ranges_that_miss_or_do_not_fit_are_one_sentence(
    pretrained: Path, inputs: Path, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    words = ["embed", "--model", pretrained, "--data", inputs, "--out", tmp_path / "out.npy"]
    whole = [*words, "--numbers", "uint8"]
    assert "--numbers uint8 needs --ranges" in command(*whole).refusal(2)
    assert "--ranges is for int8 and uint8" in command(*words, "--ranges", inputs).refusal(2)
    gone = command(*whole, "--ranges", tmp_path / "gone.npy").refusal(2)
    assert "there is no file" in gone
    few = write_rows(tmp_path / "few.jsonl", [{"text": "River."}])
    assert "holds 1 texts, too few" in command(*whole, "--ranges", few).refusal(1)
    np.save(tmp_path / "ranges.npy", np.array([[0.0] * 5, [1.0] * 5]))
    said = command(*whole, "--ranges", tmp_path / "ranges.npy").refusal(2)
    assert "the ranges have the shape (2, 5), but vectors of 64 numbers need (2, 64)" in said
    assert not list(tmp_path.glob("out.npy*"))


def test_a_finished_file_is_not_made_again(
    pretrained: Path, inputs: Path, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "out.npy"
    words = ["embed", "--model", pretrained, "--data", inputs, "--out", out, "--json"]
    first = command(*words, "--resume", "auto")
    made = out.stat().st_mtime_ns
    again = command(*words, "--resume", "auto")
    assert (again.code, again.out) == (0, first.out)
    assert f"{out} is finished already" in again.err
    assert out.stat().st_mtime_ns == made
    changed = command(*words, "--resume", "auto", "--dims", 5).refusal(2)
    assert f"{out} was begun with dims = None, now 5; choose another --out" in changed
    assert "exists already" in command(*words).refusal(2)
    inputs.write_text('{"text": "Boat."}\n')
    changed = command(*words, "--resume", "auto").refusal(2)
    assert f"{out} was begun before the content of the data changed" in changed


def test_rows_that_an_earlier_file_left_out_are_forgotten(
    pretrained: Path, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    data, out = tmp_path / "texts.jsonl", tmp_path / "out.npy"
    words = ["embed", "--model", pretrained, "--data", data, "--out", out]
    write_rows(data, ["torn", {"text": "Boat."}, {"text": "Road."}])
    assert command(*words).code == 0
    out.unlink()
    write_rows(data, [{"text": "Boat."}, {"text": "Road."}])
    assert command(*words).code == 0
    assert sorted(tmp_path.iterdir()) == [out, data]


def test_long_texts_are_embedded_fewer_at_once(
    pretrained: Path, inputs: Path, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, count = [], outputs.Tally.count

    def noting(tally: outputs.Tally, answered: int, refused: list[Any]) -> None:
        sizes.append(answered)
        count(tally, answered, refused)

    monkeypatch.setattr(outputs.Tally, "count", noting)
    monkeypatch.setattr(answering, "CHUNK_CHARACTERS", 30)
    words = ["embed", "--model", pretrained, "--data", inputs, "--out", tmp_path / "out.npy"]
    assert command(*words).code == 0
    assert sizes == [2, 2, 3]  # "Road " * 90 ends the second
