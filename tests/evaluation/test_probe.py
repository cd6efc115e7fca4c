"""The probe: a copy learns a small task on the side, and the model never notices."""

import json
import math
import os
import signal
from pathlib import Path

import pytest
import torch

from bertworks.core.device import Machine
from bertworks.core.errors import DataError
from bertworks.evaluation.probe import MOST_SCORED, SCORED_SHARE, Probe
from bertworks.model.config import EncoderConfig
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.signals import heeded_signals

ANIMALS = ("cat", "dog", "hill")


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make_rows(count: int) -> list[dict[str, str]]:
    """Make texts that tell their label by one word, each different from the others."""
    return [
        {"text": f"{ANIMALS[number % 2]} {number}", "label": ANIMALS[number % 2]}
        for number in range(count)
    ]


@pytest.fixture
def model(config: EncoderConfig) -> TaskModel:
    return TaskModel(config, [make_task("fill_mask")], seed=1)


@pytest.fixture
def probe(tokenizer: Tokenizer, machine: Machine, tmp_path: Path) -> Probe:
    file = write(tmp_path / "probe.jsonl", make_rows(60))
    return Probe.open(file, tokenizer, longest=12, machine=machine)


def test_a_copy_learns_the_task_and_its_accuracy_has_an_interval(
    probe: Probe, model: TaskModel
) -> None:
    found = probe.score(model)
    assert list(found) == ["probe_accuracy", "probe_low", "probe_high"]
    assert found["probe_low"] <= found["probe_accuracy"] <= found["probe_high"]
    assert found["probe_accuracy"] > 0.9


def test_the_model_and_the_random_numbers_stay_as_they_are(probe: Probe, model: TaskModel) -> None:
    model.train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    probe.score(model)
    assert torch.get_rng_state().equal(state)
    assert all(p.equal(before[name]) for name, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())
    assert model.training


def test_the_weights_of_the_encoder_are_what_is_probed(probe: Probe, model: TaskModel) -> None:
    used = {int(piece) for windows in probe.learned for w in windows for piece in w.tokens}
    unused = [piece for piece in range(model.config.vocab_size) if piece not in used]
    before, after = (
        network.encoder.embeddings.pieces.weight.detach()
        for network in (model, probe._fine_tuned(model))
    )
    assert torch.allclose(after[unused], before[unused], rtol=1e-2)  # they only decay
    assert not torch.allclose(after[sorted(used)], before[sorted(used)], rtol=1e-2)


def test_texts_are_parted_by_what_they_say_not_by_where_they_stand(
    tokenizer: Tokenizer, machine: Machine, tmp_path: Path
) -> None:
    rows = make_rows(300)
    parts = []
    for name, given in (("one", rows), ("two", rows[::-1]), ("twice", rows + rows[:40])):
        file = write(tmp_path / f"{name}.jsonl", given)
        made = Probe.open(file, tokenizer, longest=12, machine=machine)
        texts = [
            {given[window.example - 1]["text"] for windows in part for window in windows}
            for part in (made.learned, made.scored)
        ]
        assert not texts[0] & texts[1]
        parts.append(texts)
    assert parts[0] == parts[1] == parts[2]
    assert SCORED_SHARE - 0.1 < len(parts[0][1]) / 300 < SCORED_SHARE + 0.1


def test_a_large_file_costs_no_more_than_a_small_one(
    tokenizer: Tokenizer, machine: Machine, tmp_path: Path
) -> None:
    file = write(tmp_path / "large.jsonl", make_rows(6000))
    made = Probe.open(file, tokenizer, longest=12, machine=machine)
    assert len(made.scored) == len(made.examples) == MOST_SCORED
    assert len(made.learned) == 3200


def test_pairs_are_probed_too(
    tokenizer: Tokenizer, machine: Machine, model: TaskModel, tmp_path: Path
) -> None:
    rows = [
        {"text": f"the {a} {n}", "text_b": b, "label": "same" if a == b else "other"}
        for n in range(15)
        for a in ANIMALS[:2]
        for b in ANIMALS[:2]
    ]
    made = Probe.open(write(tmp_path / "pairs.jsonl", rows), tokenizer, longest=16, machine=machine)
    assert made.task.name == "match"
    assert 0 <= made.score(model)["probe_accuracy"] <= 1


def test_broken_weights_score_nothing_and_end_nothing(probe: Probe, model: TaskModel) -> None:
    with torch.no_grad():
        model.encoder.embeddings.pieces.weight.fill_(math.nan)
    assert math.isnan(probe.score(model)["probe_accuracy"])


def test_a_signal_in_a_probe_is_left_to_the_run_around_it(
    probe: Probe, model: TaskModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = probe.score(model)
    really_seed = torch.manual_seed

    def seed(number: int) -> torch.Generator:
        os.kill(os.getpid(), signal.SIGTERM)
        return really_seed(number)

    with heeded_signals() as received:
        monkeypatch.setattr(torch, "manual_seed", seed)
        assert probe.score(model) == expected
    assert set(received) == {signal.SIGTERM}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            make_rows(5),
            "has 5 examples of 2 labels; a probe needs at least 20 of two, with different texts",
        ),
        ([{"text": str(n), "label": "one"} for n in range(50)], "has 50 examples of 1 labels"),
        *(
            ([{"text": text, "label": str(n % 2)} for n in range(50)], "with different texts")
            for text in ("one", "same")  # all are learned from, or all scored
        ),
    ],
)
def test_a_file_with_too_little_in_it_is_one_sentence(
    rows: list[dict[str, str]], said: str, tokenizer: Tokenizer, machine: Machine, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said):
        Probe.open(write(tmp_path / "few.jsonl", rows), tokenizer, longest=12, machine=machine)
