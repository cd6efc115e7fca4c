"""predict: a model and inputs -> one JSON line of answer for each."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from bertworks.core.artifact import refuse_existing
from bertworks.core.errors import ArtifactError, DataError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.data.examples import Example
from bertworks.data.rows import parse_columns, stream_examples
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.settings import PredictSettings
from bertworks.stages.zero_shot import zero_shot_task
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.task import Answer, Task
from bertworks.tasks.zero_shot import ByVectors

MOST_WARNINGS = 20


def run(settings: PredictSettings) -> dict[str, Any]:
    """Answer every input in order; rows without an answer are counted and named."""
    if settings.out != "-":
        refuse_existing(Path(settings.out))
    predictor = load(settings.model, **vars(settings.machine))
    zero_shot = zero_shot_task(predictor, settings.without_training)
    task = zero_shot or predictor.task_named(settings.task)
    quarantine = Quarantine()
    answers = _answers(settings, predictor, task, quarantine)
    answered = 0
    with _output(settings.out) as file, progress("answering", total=None, unit="texts") as meter:
        for example, answer in answers:
            file.write(json.dumps({"line": example.line, **answer}, ensure_ascii=False) + "\n")
            answered += 1
            meter.advance()
        if not answered:
            quarantine.check()
            raise DataError(f"{settings.data} holds no rows; give a file with inputs in it")
    for row in quarantine.rows[:MOST_WARNINGS]:
        say(f"warning: no answer for {row}")
    if quarantine.num_bad > MOST_WARNINGS:
        say(f"warning: {quarantine.num_bad} rows in all have no answer")
    if settings.out == "-":
        return {}  # standard output belongs to the answers
    return {"out": settings.out, "answered": answered, "bad_rows": quarantine.num_bad}


def _answers(
    settings: PredictSettings, predictor: Predictor, task: Task | ByVectors, quarantine: Quarantine
) -> Iterator[tuple[Example, Answer]]:
    file = Path(settings.data)

    def set_aside(example: Example, error: DataError) -> None:
        quarantine.recall(file, example.line, str(error))

    # A label that comes along is not looked at; the model may not know it.
    inputs = stream_examples(
        file,
        quarantine,
        form=KINDS[task.kind].form,
        columns=parse_columns(settings.columns),
        labelled=False,
    )
    return predictor.answer_stream(inputs, task, refuse=set_aside)


@contextmanager
def _output(out: str) -> Iterator[IO[str]]:
    """Lend standard output, or a file that appears only when it is whole."""
    if out == "-":
        yield sys.stdout
        return
    target = Path(out)
    temporary = target.with_name(f".{target.name}.tmp-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise ArtifactError(
            f"cannot write {target}: {error.strerror or error}; free some space "
            "or choose another --out"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
