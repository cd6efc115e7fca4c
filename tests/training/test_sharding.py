"""Weights that several processes share learn as whole ones do, and checkpoints fit any crew."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bertworks.core.artifact import Origin
from bertworks.core.batch import Batch
from bertworks.core.crew import Crew
from bertworks.core.device import Machine, Seat
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.seeds import random_at
from bertworks.data.own_parts import OwnParts
from bertworks.data.packing import Features, Goal, flatten_parts
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.learners import Wanted, draw_learner
from bertworks.training import loop
from bertworks.training.loop import train
from bertworks.training.plan import Evaluation, TrainingPlan
from bertworks.training.run import Run, whole_checkpoints
from bertworks.training.saver import Saver
from bertworks.training.schedule import Schedule
from bertworks.training.sharding import fitted, own_rows, part_name, read_parts, shard, whole

MACHINE = Machine(torch.device("cpu"), "fp32")
VOCAB_SIZE = 41
ACCUMULATE = 4
FILES = ("model", "optimizer", "average")
SEATS = [Seat(rank, 3) for rank in range(3)]
NETWORKS = {
    "bert": ("fill_mask", "next_sentence"),
    "modern": ("fill_mask", "next_piece"),
    "albert": ("fill_mask", "sentence_order"),
    "electra": ("fill_mask", "replaced_token"),
}
Curves = Callable[..., dict[str, Any]]


class Texts:
    """Three to nine texts a step, sometimes fewer than a step has parts."""

    def __init__(self, objectives: Sequence[str]) -> None:
        self.objectives = objectives

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        random = random_at(7, "text", step)
        texts = [self._text(random, number) for number in range(random.integers(3, 10))]
        return flatten_parts([[text] for text in texts], count=ACCUMULATE, wanted=parts)

    def _text(self, random: np.random.Generator, number: int) -> Features:
        length = int(random.integers(3, 10))
        tokens, places = random.integers(5, VOCAB_SIZE, size=length), np.array([0, length - 1])
        goals = {"fill_mask": Goal(random.integers(5, VOCAB_SIZE, size=2), places)}
        for name in self.objectives:
            if name in ("next_sentence", "sentence_order"):
                goals[name] = Goal((int(random.integers(2)),))
            elif name == "replaced_token":
                goals[name] = Goal(np.zeros(length, dtype=np.int64), np.arange(length))
        return Features(tokens, np.zeros(length, dtype=np.int64), goals, number)


def draw(family: str, dropout: float = 0.1) -> nn.Module:
    shape = {"hidden_size": 21, "num_layers": 2, "num_heads": 3, "feed_forward_size": 29}
    if family == "modern":
        shape |= {"hidden_size": 24}  # heads of an even size, which are turned
    if family == "albert":
        shape |= {"embedding_size": 11}
    places = {"vocab_size": VOCAB_SIZE, "max_positions": 11}
    config = EncoderConfig(**{**STYLES[family], **shape, **places}).with_dropout(dropout)
    return draw_learner(config, Wanted(objectives=NETWORKS[family], generator_size=0.5))


def learn(
    crew: Crew, folder: str, family: str, sharding: str, steps: int, average: float = 0.0
) -> dict[str, Any]:
    """Train to a step; return the log, and what the model then weighs."""
    model = draw(family)
    plan = TrainingPlan(
        steps=steps,
        lr=0.003,
        schedule=Schedule(name="constant"),
        seed=3,
        sharding=sharding,  # type: ignore[arg-type]
        average=average,
        checkpoint_every=2,
        evaluate_every=3,
    )

    def evaluate(step: int) -> Evaluation:
        return Evaluation(float(step), {"size": sum(map(size_of, model.parameters()))})

    run = Run(Path(folder), origin=Origin(settings={"seed": 3}), resume=True, crew=crew)
    own = OwnParts(Texts(NETWORKS[family]), accumulate=ACCUMULATE, crew=crew)
    train(model, own, plan, run=run, machine=MACHINE, evaluate=evaluate)
    with whole(model):
        sizes = {name: size_of(p) for name, p in model.named_parameters()}
    log = [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]
    return {"log": [entry for entry in log if "lr" in entry], "sizes": sizes}


def learn_and_save_behind(crew: Crew, *how: Any) -> dict[str, Any]:
    """Train as on a GPU, where checkpoints are written while the next steps are taken."""
    loop.Saver = lambda run, in_background: Saver(run, in_background=True)  # type: ignore[misc, assignment]
    return learn(crew, *how)


def size_of(parameter: nn.Parameter) -> float:
    assert isinstance(parameter, nn.Parameter)
    return float(parameter.detach().double().abs().sum())


@pytest.fixture
def curves(crews: Any, tmp_path: Path) -> Curves:
    """Train in a crew of some size; return what the first of them found."""

    def run(name: str, *how: Any, size: int) -> dict[str, Any]:
        members = crews.run(learn, str(tmp_path / name), *how, size=size)
        assert [member.code for member in members] == [0] * size, members
        assert not isinstance(members[0].result, str), members[0].result
        assert all(member.result["sizes"] == members[0].result["sizes"] for member in members)
        return members[0].result

    return run


def assert_close(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Check that two runs differ by no more than the order of their sums."""
    assert len(found["log"]) == len(expected["log"])
    for own, other in zip(found["log"], expected["log"], strict=True):
        assert own == pytest.approx(other, rel=3e-6)


# Learning


@pytest.mark.parametrize("family", NETWORKS)
def test_every_kind_of_network_learns_the_same_in_parts(family: str, curves: Curves) -> None:
    alone = curves("alone", family, "none", 5, 0.8, size=1)
    assert_close(curves("shared", family, "full", 5, 0.8, size=2), alone)


def test_any_number_of_processes_learns_the_same(curves: Curves) -> None:
    alone = curves("alone", "bert", "none", 5, size=1)
    for size in (2, 4):
        assert_close(curves(f"in-{size}", "bert", "none", 5, size=size), alone)


def test_another_network_would_be_noticed(curves: Curves) -> None:
    alone, other = (curves(family, family, "none", 5, size=1) for family in ("bert", "albert"))
    with pytest.raises(AssertionError):
        assert_close(alone, other)


def test_a_checkpoint_of_two_goes_on_in_one_and_then_in_four(
    curves: Curves, tmp_path: Path
) -> None:
    alone = curves("alone", "bert", "none", 10, 0.8, size=1)
    curves("moved", "bert", "full", 4, 0.8, size=2)
    parts = {path.name for path in whole_checkpoints(tmp_path / "moved")[-1].iterdir()}
    assert {f"{name}-0000{n}-of-00002.safetensors" for n in (0, 1) for name in FILES} <= parts
    curves("moved", "bert", "full", 7, 0.8, size=1)
    curves("moved", "bert", "none", 8, 0.8, size=2)
    assert_close(curves("moved", "bert", "full", 10, 0.8, size=4), alone)


def test_parts_are_saved_in_the_background_as_well(
    crews: Any, curves: Curves, tmp_path: Path
) -> None:
    alone = curves("alone", "bert", "none", 7, size=1)
    curves("waits", "bert", "full", 7, size=2)
    how = (str(tmp_path / "goes-on"), "bert", "full", 7)
    members = crews.run(learn_and_save_behind, *how, size=2)
    assert_close(members[0].result, alone)
    last = [whole_checkpoints(tmp_path / name)[-1] for name in ("waits", "goes-on")]
    parts = [{path.name: path.read_bytes() for path in f.glob("*-of-*")} for f in last]
    assert len(parts[0]) == 4
    assert parts[0] == parts[1]


def test_each_file_holds_only_its_rows(curves: Curves, tmp_path: Path) -> None:
    curves("shared", "bert", "full", 2, size=2)
    last = whole_checkpoints(tmp_path / "shared")[-1]
    first, second = (read_tensors(last / f"model-0000{n}-of-00002.safetensors") for n in (0, 1))
    for name, parameter in draw("bert").named_parameters():
        rows = [len(first[name]), len(second[name])]
        assert rows == [-(-len(parameter) // 2), len(parameter) // 2]
        assert read_parts(last, "model")[name].shape == parameter.shape


def test_what_needs_whole_matrices_is_refused() -> None:
    for optimizer in ("lamb", "muon"):
        with pytest.raises(UsageError, match=f"{optimizer} looks at whole matrices"):
            TrainingPlan(steps=3, lr=0.1, optimizer=optimizer, sharding="full")  # type: ignore[arg-type]


# Rows


def cut_rows(crew: Crew) -> list[Any]:
    """Fit tensors with fewer rows than processes, and with rows that do not divide evenly."""
    model = nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 7))
    random = torch.Generator().manual_seed(3)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    expected = {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}
    shard_plainly(model, crew)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(fitted(expected[name], parameter))
    lengths = [len(own_rows(parameter)) for parameter in model.parameters()]
    with whole(model):
        found = {name: p.detach().clone() for name, p in model.named_parameters()}
    return [lengths, all(torch.equal(found[name], expected[name]) for name in expected)]


def shard_plainly(model: nn.Module, crew: Crew) -> None:
    model.judged = model.forward  # type: ignore[assignment]
    shard(model, crew, torch.device("cpu"))


def test_rows_of_a_whole_tensor_find_their_process(crews: Any) -> None:
    lengths = [[1, 1, 3, 3], [1, 1, 3, 3], [0, 0, 1, 1]]
    results = [member.result for member in crews.run(cut_rows, size=3)]
    assert results == [[own, True] for own in lengths]


def test_a_tensor_that_is_not_shared_stays_whole() -> None:
    tensor, model = torch.randn(5, 3), nn.Linear(3, 5)
    assert fitted(tensor, model.weight) is tensor
    assert own_rows(model.weight) is model.weight
    with whole(model):
        assert own_rows(model.weight) is model.weight


def test_parts_are_joined_by_their_rows_and_none_may_be_missing(tmp_path: Path) -> None:
    rows = torch.arange(21.0).view(7, 3)
    for rank, part in enumerate(rows.split(3)):
        name = part_name("model", Crew(SEATS[rank]))
        tensors = {"rows": part, "count": torch.tensor(5)}
        write_tensors(tmp_path / f"{name}.safetensors", tensors)
    found = read_parts(tmp_path, "model")
    assert sorted(found) == ["count", "rows"]
    assert "rows" in found
    assert len(found) == 2
    assert torch.equal(found["rows"], rows)
    assert found["count"] == 5
    (tmp_path / "model-00001-of-00003.safetensors").unlink()
    with pytest.raises(ArtifactError, match="has 2 of 3 parts of model"):
        read_parts(tmp_path, "model")
