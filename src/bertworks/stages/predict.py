"""predict: a model and inputs -> one JSON line of answer for each."""

import json
from typing import Any

from bertworks.core.progress import progress
from bertworks.data.examples import Example
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.answer_settings import PredictSettings
from bertworks.stages.outputs import STREAM, Inputs, Output, Tally, check_places, open_output
from bertworks.stages.zero_shot import zero_shot_task
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.task import Answer, Task
from bertworks.tasks.zero_shot import ByVectors


def run(settings: PredictSettings) -> dict[str, Any]:
    """Answer every input in order; rows without an answer are counted and named."""
    check_places(settings)
    predictor = load(settings.model, **vars(settings.machine), **vars(settings.runtime))
    zero_shot = zero_shot_task(predictor, settings.without_training)
    task = zero_shot or predictor.task_named(settings.task)
    inputs = Inputs(settings, form=KINDS[task.kind].form)
    with open_output(settings) as (output, tally, file):
        _answer(predictor, task, inputs, output, tally)
        inputs.require_some(tally)
        if file is not None:
            file.publish()
    num_bad = inputs.tell_bad("answer")
    if settings.out == STREAM:
        return {}  # standard output belongs to the answers
    return {"out": settings.out, "answered": tally.num_answered, "bad_rows": num_bad}


def _answer(
    predictor: Predictor, task: Task | ByVectors, inputs: Inputs, output: Output, tally: Tally
) -> None:
    """Write the answers chunk by chunk; after each, what is written is sure."""
    seen = tally.num_seen
    with progress("answering", total=inputs.estimate(), unit="texts", already=seen) as meter:
        for chunk in predictor.answer_chunks(inputs.after(tally), task):
            output.write("".join(_line(*pair) for pair in chunk.pairs).encode())
            tally.count(len(chunk.pairs), chunk.refused)
            output.commit(tally.as_json())
            meter.advance(len(chunk.pairs))


def _line(example: Example, answer: Answer) -> str:
    return json.dumps({"line": example.line, **answer}, ensure_ascii=False) + "\n"
