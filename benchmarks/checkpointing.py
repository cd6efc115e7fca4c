"""What checkpoints cost: the share of training time at the default interval, waited for or not.

    python benchmarks/checkpointing.py [--size base] [--tokens 65536] [--rounds 5]

A step is forward, backward, clipping and AdamW on texts of natural lengths. A save that is waited
for costs what it takes; one in the background costs the copy to the host, and what the steps beside
it lose. Both are divided by the time of the steps between two checkpoints.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from lengths import natural_lengths
from torch import nn

from bertworks.core.artifact import Origin
from bertworks.core.batch import Batch
from bertworks.core.device import Machine, prepare
from bertworks.data.packing import Features, Goal, flatten
from bertworks.model.config import EncoderConfig
from bertworks.stages.settings import PretrainSettings
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.descent import Descent
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Counters, Run
from bertworks.training.saver import Saver

VOCABULARY = 30_522
LONGEST = 128
INTERVAL = PretrainSettings.checkpoint_every


def main() -> None:
    """Measure steps and both kinds of saves, in turn; print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="mini", help="of the encoder [mini]")
    parser.add_argument("--tokens", type=int, default=8192, help="per step [8192]")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts [5]")
    options = parser.parse_args()
    machine = prepare()
    descent, step = make_step(options.size, options.tokens, machine)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run", origin=Origin(), resume=False)
        steps = median(lambda number: timed(step), 4 * options.rounds)
        waited = median(lambda number: save_and_wait(run, descent, number), options.rounds)
        behind = median(
            lambda number: save_behind(run, descent, step, steps, options.rounds + number),
            options.rounds,
        )
        checkpoint = next(run.checkpoints.glob("step-*"))
        megabytes = sum(file.stat().st_size for file in checkpoint.iterdir()) / 1e6
    where = f"{options.size} on {machine.device}, {options.tokens:,} tokens"
    print(f"{where}: a step takes {1e3 * steps:.0f} ms")
    print(f"a checkpoint has {megabytes:,.0f} MB; one every {INTERVAL} steps")
    for name, seconds in (("waited for", waited), ("in the background", behind)):
        share = seconds / (INTERVAL * steps)
        print(f"{name:18} {1e3 * seconds:7,.0f} ms   {100 * share:6.2f} % of the training time")


def make_step(size: str, num_tokens: int, machine: Machine) -> tuple[Descent, Callable[[], None]]:
    """Return a model on its way down, and a step of it."""
    config = EncoderConfig.named(size)
    model = TaskModel(config, [make_task("fill_mask")], seed=0).to(machine.device).train()
    plan = TrainingPlan(steps=1, lr=1e-4)
    descent = Descent(model, plan)
    batch = make_batch(num_tokens).to(machine.device)

    def step() -> None:
        with machine.autocast():
            loss = model(batch)["fill_mask"] / batch.targets["fill_mask"].count
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        descent.step(plan.lr)
        descent.forget_gradients()
        float(loss.detach())  # as the loop does, which waits for the device

    for _ in range(3):
        step()
    return descent, step


def make_batch(num_tokens: int) -> Batch:
    """Lay out texts of natural lengths, with every seventh piece to find."""
    random = np.random.default_rng(0)
    texts = []
    for number, length in enumerate(natural_lengths(num_tokens, LONGEST)):
        pieces = random.integers(5, VOCABULARY, size=length)
        places = np.arange(0, length, 7)
        texts.append(
            Features(pieces, pieces * 0, {"fill_mask": Goal(pieces[places], places)}, number)
        )
    return flatten(texts)


def median(measure: Callable[[int], float], count: int) -> float:
    """Return the median of several measurements."""
    return statistics.median(measure(number) for number in range(1, count + 1))


def timed(act: Callable[[], None]) -> float:
    """Return the seconds that something takes."""
    started = time.perf_counter()
    act()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def save_and_wait(run: Run, descent: Descent, number: int) -> float:
    """Return the seconds of a save that the steps wait for."""
    with Saver(run, in_background=False) as saver:
        return timed(lambda: saver.save(descent.state(), Counters(INTERVAL * number)))


def save_behind(
    run: Run, descent: Descent, step: Callable[[], None], usual: float, number: int
) -> float:
    """Return the seconds that a save in the background costs the steps beside it."""
    with Saver(run, in_background=True) as saver:
        lost = timed(lambda: saver.save(descent.state(), Counters(INTERVAL * number)))
        while saver.is_busy:
            lost += timed(step) - usual
    return lost


if __name__ == "__main__":
    main()
