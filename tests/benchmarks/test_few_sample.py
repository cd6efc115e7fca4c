"""The benchmark of few examples: every recipe can be meant, and runs go on where they stopped."""

import json
import random
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from bertworks.core import progress
from bertworks.core.artifact import Origin
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import save_model
from bertworks.stages.finetune_plan import regularize_plan
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WORDS = ("the", "cat", "dog", "mat", "sat")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the benchmark."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("few_sample")


@pytest.fixture
def model(tokenizer, tmp_path: Path) -> Path:
    """Save a small encoder of six blocks."""
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=12,
        num_layers=6,
        num_heads=3,
        feed_forward_size=16,
        max_positions=24,
    )
    network = TaskModel(config, [make_task("fill_mask")])
    save_model(tmp_path / "model", network, tokenizer, origin=Origin())
    return tmp_path / "model"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write sentences in the layout of CoLA."""
    chance = random.Random(4)
    folder = tmp_path / "data" / "glue" / "CoLA"
    folder.mkdir(parents=True)
    for name, count in (("train", 40), ("dev", 11)):
        rows = [
            f"gj04\t{chance.randint(0, 1)}\t\t{' '.join(chance.choices(WORDS, k=5))} {n}\n"
            for n in range(count)
        ]
        (folder / f"{name}.tsv").write_text("".join(rows))
    return tmp_path / "data"


def test_every_recipe_is_one_of_finetune(bench: ModuleType) -> None:
    task = make_task("classify", ("0", "1"))
    asked = Namespace(model=Path("m"), lr=None, epochs=3, corrected=False)
    for recipe in bench.RECIPES:
        settings = bench.settings_of(recipe, 3, asked)
        regularize_plan(settings.regularize, [task])
        assert settings.seed == 3
    plain = bench.settings_of("plain", 0, asked)
    assert (plain.epochs, plain.lr, plain.regularize.bias_correction) == (3, 5e-5, False)
    default = bench.settings_of("default", 0, asked)
    assert (default.epochs, default.lr, default.regularize.bias_correction) == (None, None, True)
    other = Namespace(model=Path("m"), lr=1e-4, epochs=1, corrected=True)
    plain = bench.settings_of("plain", 0, other)
    assert (plain.epochs, plain.lr, plain.regularize.bias_correction) == (1, 1e-4, True)
    assert bench.settings_of("lora", 0, other).lr == 5e-4


def test_runs_are_written_at_once_and_not_done_again(
    bench: ModuleType, model: Path, data: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(progress, "_is_muted", False)  # and again when the test is over
    out = tmp_path / "few.json"
    words = ["--model", model, "--data", data, "--out", out, "--sets", "cola", "--device", "cpu"]
    words += ["--examples", 33, "--threads", 1, "--recipes", "plain", "default"]

    def go(*more: object) -> str:
        monkeypatch.setattr(sys, "argv", ["few_sample.py", *map(str, (*words, *more))])
        bench.main()
        return capsys.readouterr().out

    first = go("--seeds", 1)
    assert first.count("seed 0") == 2
    assert "cola (mcc, percent)" in first
    runs = json.loads(out.read_text())["runs"]
    assert runs.keys() == {"cola / plain / 0", "cola / default / 0"}
    assert runs["cola / plain / 0"]["floor"] == 0
    second = go("--seeds", 2)
    assert (second.count("seed 0"), second.count("seed 1")) == (0, 2)
    with pytest.raises(SystemExit, match="give another --out"):
        go("--examples", 34)


def test_gains_are_paired_by_seed(bench: ModuleType) -> None:
    gain, chance = bench.compare([0.6, 0.7, 0.8], [0.5, 0.61, 0.69])
    assert gain == "+10.00"
    assert float(chance) < 0.01
    assert bench.compare([0.5], [0.4]) == ("+10.00", "")
    assert bench.compare([], []) == ("", "")
