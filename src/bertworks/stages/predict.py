"""predict: a model and inputs -> one JSON line of answer for each."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import COMPRESSIONS
from bertworks.core.progress import progress, say
from bertworks.data.examples import Example
from bertworks.data.forms import inputs_of
from bertworks.serving.attributions import Attributor
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.answer_settings import PredictSettings
from bertworks.stages.outputs import Inputs, Output, Tally, finished_before, open_output
from bertworks.stages.zero_shot import chosen_task
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.task import Answer, Task
from bertworks.tasks.zero_shot import ByVectors

OTHER_FORMATS = (".csv", ".tsv", ".parquet", ".xlsx", *COMPRESSIONS)


def run(settings: PredictSettings) -> dict[str, Any]:
    """Answer every input in order; rows without an answer are counted and named."""
    _refuse_other_formats(settings.out)
    if (result := finished_before(settings)) is not None:
        return result
    predictor = load(settings.model, **vars(settings.machine), **vars(settings.runtime))
    task = chosen_task(predictor, settings)
    explain = _explanations(settings, predictor)
    form = KINDS[task.kind].form
    inputs = Inputs(settings, form=form)
    with open_output(settings) as (output, tally, file):
        shown = form if settings.with_inputs else None
        _Work(predictor, task, inputs, explain, shown).answer(output, tally)
        inputs.require_some(tally)
        num_bad = inputs.tell_bad("answer")
        if file is None:
            return {}  # standard output belongs to the answers
        file.result = {"out": settings.out, "answered": tally.num_answered, "bad_rows": num_bad}
        file.publish()
        return file.result


def _refuse_other_formats(out: str) -> None:
    """Stop at a name by which other programs would take the answers for what they are not."""
    if Path(out).suffix.lower() in OTHER_FORMATS:
        raise UsageError(f"--out is {out}, but answers are written as JSON lines; name it .jsonl")


@dataclass
class _Work:
    """Inputs on their way to being answered."""

    predictor: Predictor
    task: Task | ByVectors
    inputs: Inputs
    explain: Attributor | None
    shown: str | None  # the form whose inputs stand before their answers
    num_unexplained: int = 0

    def answer(self, output: Output, tally: Tally) -> None:
        """Write the answers chunk by chunk; after each, what is written is sure."""
        seen, estimate = tally.num_seen, self.inputs.estimate()
        with progress("answering", total=estimate, unit="texts", already=seen) as meter:
            for chunk in self.predictor.answer_chunks(self.inputs.after(tally), self.task):
                output.write("".join(self._line(*pair) for pair in chunk.pairs).encode())
                tally.count(len(chunk.pairs), chunk.refused)
                output.commit(tally.as_json())
                meter.advance(len(chunk.pairs))
        if self.num_unexplained:
            say(
                f"warning: {self.num_unexplained} answers are not explained, for their inputs are "
                f"longer than one window of {self.predictor.window} pieces"
            )

    def _line(self, example: Example, answer: Answer) -> str:
        told = example.where | (inputs_of(example, self.shown) if self.shown else {}) | answer
        if self.explain is not None:
            told["explanation"] = self._explanation(self.explain, example, answer)
        return json.dumps(told, ensure_ascii=False) + "\n"

    def _explanation(self, explain: Attributor, example: Example, answer: Answer) -> Any:
        try:
            return explain.attribute(example, answer.get("label")).as_json()
        except DataError:
            self.num_unexplained += 1
            return None


def _explanations(settings: PredictSettings, predictor: Predictor) -> Attributor | None:
    """Return what explains answers, if that is asked for."""
    if not settings.explain:
        return None
    if settings.without_training.zero_shot:
        raise UsageError("--explain is for tasks that were learned; leave it or --zero-shot out")
    return predictor.attributor(predictor.task_named(settings.task))
