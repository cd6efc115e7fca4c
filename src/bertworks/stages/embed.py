"""embed: a model and texts -> one vector for each."""

import io
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.artifact import write_synced
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.data.rows import parse_columns, stream_examples
from bertworks.model.layer_mix import LAST
from bertworks.serving.predictor import Predictor, load
from bertworks.serving.vector_files import NAMES_NO_LINES, VectorFile, read_ranges, vector_file
from bertworks.stages.answer_settings import EmbedSettings
from bertworks.stages.outputs import Inputs, Output, Tally, finished_before, open_output
from bertworks.stages.setting_groups import ShapeSettings
from bertworks.tasks.answering import CHUNK, in_chunks

BY_RANGES = ("int8", "uint8")


def run(settings: EmbedSettings) -> dict[str, Any]:
    """Make a vector of every text in order; rows without one are counted and named."""
    form = vector_file(settings.out)
    _check_ranges(settings.shape)
    if (result := finished_before(settings)) is not None:
        return result
    predictor = load(settings.model, **vars(settings.machine), **vars(settings.runtime))
    how = _how(settings, predictor)
    inputs = Inputs(settings, form="texts")
    with open_output(settings) as (output, tally, file):
        work = _Work(predictor, inputs, how)
        work.embed(form, output, tally)
        inputs.require_some(tally)
        num_bad = inputs.tell_bad("vector")
        if work.num_pairs:
            say(f"warning: {work.num_pairs} rows have a second text, of which no vector is made")
        if file is None:
            return {}  # standard output belongs to the vectors
        file.result = {
            "out": settings.out,
            "vectors": tally.num_answered,
            "size": tally.vectors[1],
            "bad_rows": num_bad,
            **_quarantine(Path(settings.out), inputs),
            **_keep_ranges(settings, how["ranges"]),
        }
        form.publish(file, *tally.vectors)
        return file.result


class _Work:
    """Texts on their way to becoming vectors."""

    def __init__(self, predictor: Predictor, inputs: Inputs, how: dict[str, Any]) -> None:
        self.predictor, self.inputs, self.how = predictor, inputs, how
        self.lines: deque[list[int]] = deque()  # of the chunks that are on their way
        self.num_pairs = 0

    def embed(self, form: VectorFile, output: Output, tally: Tally) -> None:
        """Write the vectors chunk by chunk; after each, what is written is sure."""
        seen = tally.num_seen
        texts = self._texts(self.inputs.after(tally))
        estimate = self.inputs.estimate()
        with progress("embedding", total=estimate, unit="texts", already=seen) as meter:
            for vectors in self.predictor.embed_chunks(texts, **self.how):
                if not tally.num_seen:
                    output.write(form.opening(vectors))
                output.write(form.rows(self.lines.popleft(), vectors))
                tally.count(len(vectors), [])
                tally.vectors = [vectors.dtype.str, vectors.shape[1]]
                head = form.head(tally.num_answered, vectors)
                output.commit(tally.as_json(), head=head)
                meter.advance(len(vectors))

    def _texts(self, examples: Iterator[Any]) -> Iterator[list[str]]:
        for chunk in in_chunks(examples, most=CHUNK):
            self.lines.append([example.line for example in chunk])
            self.num_pairs += sum(example.text_b is not None for example in chunk)
            yield [example.text for example in chunk]


def _check_ranges(shape: ShapeSettings) -> None:
    """Stop where ranges are missing, of no use, or not in a file."""
    if shape.numbers in BY_RANGES and shape.ranges is None:
        raise UsageError(
            f"--numbers {shape.numbers} needs --ranges, or each vector would depend on the others; "
            "give a .npy of ranges, or some hundred texts like yours, which --data may be"
        )
    if shape.numbers not in BY_RANGES and shape.ranges is not None:
        raise UsageError(
            f"--ranges is for {' and '.join(BY_RANGES)}, not --numbers {shape.numbers}"
        )
    if shape.ranges is not None and not shape.ranges.is_file():
        raise UsageError(f"there is no file {shape.ranges} to take ranges from; check --ranges")


def _how(settings: EmbedSettings, predictor: Predictor) -> dict[str, Any]:
    """Return how vectors are asked for, by the names that `Predictor.embed` knows."""
    shape = settings.shape
    floats = {
        **vars(settings.vectors),
        "prompt": settings.prompt,
        "layers": shape.layers or LAST,
        "mix": shape.mix,
        "dims": shape.dims,
    }
    if shape.ranges is None:
        ranges = None
    elif _holds_ranges(shape.ranges):
        ranges = read_ranges(shape.ranges)
    else:
        ranges = predictor.vector_ranges(_sample(settings, shape.ranges), **floats)
    return {**floats, "precision": shape.numbers, "ranges": ranges}


def _holds_ranges(file: Path) -> bool:
    return file.suffix.lower() == ".npy"


def _sample(settings: EmbedSettings, file: Path) -> list[str]:
    """Return the first texts of a file."""
    columns = parse_columns(settings.columns)
    bad = Quarantine()
    examples = stream_examples(file, bad, form="texts", columns=columns, labelled=False)
    texts = [example.text for example in next(in_chunks(examples, most=CHUNK), [])]
    if len(texts) < 2:
        bad.check()
        raise DataError(
            f"{file} holds {len(texts)} texts, too few to take ranges from; give some hundred"
        )
    return texts


def _keep_ranges(settings: EmbedSettings, ranges: np.ndarray | None) -> dict[str, Any]:
    """Write ranges that were taken from texts beside the vectors; later ones need the same."""
    if ranges is None or settings.shape.ranges is None or _holds_ranges(settings.shape.ranges):
        return {}
    made = io.BytesIO()
    np.save(made, ranges)
    file = Path(settings.out + ".ranges.npy")
    write_synced(file, made.getvalue())
    return {"ranges": str(file)}


def _quarantine(out: Path, inputs: Inputs) -> dict[str, Any]:
    """Write down which rows are left out of a file that cannot tell it itself."""
    if out.suffix.lower() != NAMES_NO_LINES:
        return {}
    file = out.with_name(f"{out.name}.quarantine.jsonl")
    if not inputs.quarantine.num_bad:
        file.unlink(missing_ok=True)  # of vectors that were here before
        return {}
    inputs.quarantine.write(file.parent, file.name)
    return {"left_out": str(file)}
