"""embed: a model and texts -> one vector for each."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bertworks.core.progress import progress, say
from bertworks.serving.predictor import Predictor, load
from bertworks.serving.vector_files import NAMES_NO_LINES, VectorFile, vector_file
from bertworks.stages.answer_settings import EmbedSettings
from bertworks.stages.outputs import STREAM, Inputs, Output, Tally, check_places, open_output
from bertworks.tasks.answering import CHUNK


def run(settings: EmbedSettings) -> dict[str, Any]:
    """Make a vector of every text in order; rows without one are counted and named."""
    check_places(settings)
    form = vector_file(settings.out)
    predictor = load(settings.model, **vars(settings.machine), **vars(settings.runtime))
    inputs = Inputs(settings, form="texts")
    with open_output(settings) as (output, tally, file):
        work = _Work(predictor, inputs, {**vars(settings.vectors), "prompt": settings.prompt})
        work.embed(form, output, tally)
        inputs.require_some(tally)
        if file is not None:
            form.publish(file, *tally.vectors)
    num_bad = inputs.tell_bad("vector")
    if work.num_pairs:
        say(f"warning: {work.num_pairs} rows have a second text, of which no vector is made")
    if settings.out == STREAM:
        return {}  # standard output belongs to the vectors
    return {
        "out": settings.out,
        "vectors": tally.num_answered,
        "size": tally.vectors[1],
        "bad_rows": num_bad,
        **_quarantine(Path(settings.out), inputs),
    }


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
        while chunk := list(islice(examples, CHUNK)):
            self.lines.append([example.line for example in chunk])
            self.num_pairs += sum(example.text_b is not None for example in chunk)
            yield [example.text for example in chunk]


def _quarantine(out: Path, inputs: Inputs) -> dict[str, Any]:
    """Write down which rows are left out of a file that cannot tell it itself."""
    if out.suffix.lower() != NAMES_NO_LINES or not inputs.quarantine.num_bad:
        return {}
    name = f"{out.name}.quarantine.jsonl"
    inputs.quarantine.write(out.parent, name)
    return {"left_out": str(out.parent / name)}
