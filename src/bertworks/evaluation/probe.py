"""A downstream probe: how well a copy of an encoder learns a small labelled task, on the side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np
import torch

from bertworks.core.artifact import Origin
from bertworks.core.device import Machine
from bertworks.core.errors import DataError, TrainingError
from bertworks.core.quarantine import Quarantine
from bertworks.core.seeds import derive
from bertworks.data.example_batches import ExampleBatches
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features
from bertworks.data.rows import read_examples
from bertworks.evaluation.bootstrap import mean_interval
from bertworks.model.weights import load_weights
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import guess_kind, learn_task
from bertworks.tasks.task import Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.loop import train
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Run
from bertworks.training.schedule import Schedule

# What a probe costs, whatever the size of the file.
STEPS, BATCH_SIZE, MOST_SCORED = 100, 32, 1000
SCORED_SHARE = 0.3
LEAST_EXAMPLES = 20
RATE_TIMES_WIDTH = 0.1  # wide networks want small steps


@dataclass(frozen=True)
class Probe:
    """A small labelled set: a part to learn from, the other to be scored on."""

    task: Task
    tokenizer: Tokenizer
    machine: Machine
    learned: Sequence[list[Features]]
    scored: Sequence[list[Features]]
    examples: Sequence[TextExample]  # that are scored

    @classmethod
    def open(cls, file: Path, tokenizer: Tokenizer, *, longest: int, machine: Machine) -> Self:
        """Read a file of labelled texts or pairs; which part one belongs to, its text decides."""
        examples = sorted(read_examples(file, Quarantine()), key=_place)
        num_labels = len({example.label for example in examples})
        learned = [example for example in examples if _place(example) >= SCORED_SHARE]
        scored = [example for example in examples if _place(example) < SCORED_SHARE][:MOST_SCORED]
        is_small = len(examples) < LEAST_EXAMPLES or min(len(learned), len(scored)) < 2
        if is_small or num_labels < 2:
            raise DataError(
                f"{file} has {len(examples)} examples of {num_labels} labels; a probe needs at "
                f"least {LEAST_EXAMPLES} of two, with different texts"
            )
        task = learn_task(guess_kind("label", examples), examples)
        first, second = (
            windows_of(task, part, tokenizer, longest=longest, where=f"{file} line")
            for part in (learned[: STEPS * BATCH_SIZE], scored)
        )
        return cls(task, tokenizer, machine, first, second, scored)

    def score(self, model: TaskModel) -> dict[str, float]:
        """Fine-tune a copy of the encoder and return its accuracy; the model stays as it is."""
        devices = [self.machine.device] if self.machine.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices):
                copied = self._fine_tuned(model)
            answerer = Answerer(copied, self.task, self.tokenizer, self.machine)
            answers = answerer.answer(self.examples, self.scored)
        except TrainingError:  # its weights came apart, which is no reason to end the run
            return {"probe_accuracy": float("nan")}
        pairs = zip(answers, self.examples, strict=True)
        found = mean_interval(np.array([own["label"] == e.label for own, e in pairs]))
        return {"probe_accuracy": found.mean, "probe_low": found.low, "probe_high": found.high}

    def _fine_tuned(self, model: TaskModel) -> TaskModel:
        copied = TaskModel(model.config, [self.task])
        load_weights(copied.encoder, dict(model.encoder.named_parameters()))
        plan = TrainingPlan(
            steps=STEPS,
            lr=RATE_TIMES_WIDTH / model.config.hidden_size,
            schedule=Schedule(warmup=STEPS // 10),
            is_nested=True,
        )
        batches = ExampleBatches(self.learned, batch_size=BATCH_SIZE)
        with TemporaryDirectory() as folder:
            run = Run(Path(folder) / "probe", origin=Origin(), resume=False, is_shared=False)
            train(copied, batches, plan, run=run, machine=self.machine)
        return copied


def _place(example: TextExample) -> float:
    """Return where an example stands between 0 and 1, by its text alone."""
    return derive(0, "probe", example.text, example.text_b or "") / 2**63
