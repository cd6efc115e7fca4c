"""Several seeds: each is a run of its own, the best is the result, and none hides a collapse."""

import json
import os
import re
import shutil
import signal
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.data.example_batches import ExampleBatches

Run = Callable[..., Any]
Words = Callable[..., list[Any]]


def test_several_seeds_give_the_best_and_how_far_they_are_apart(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    words = finetune_words(out, seeds=3, seed=4, lr=0.01, checkpoint_every=1)
    ended = command(*words, "--json")
    result = json.loads(ended.out)
    told = json.loads((out / "bertworks.json").read_text())
    scores = {int(seed): dev["accuracy"] for seed, dev in told["seeds"].items()}
    assert scores.keys() == {4, 5, 6}
    assert result["best_seed"] == told["best_seed"] == max(scores, key=lambda seed: scores[seed])
    assert result["dev_accuracy_mean"] == pytest.approx(statistics.fmean(scores.values()))
    assert result["dev_accuracy_deviation"] == pytest.approx(statistics.stdev(scores.values()))
    best = out / f"seed-{told['best_seed']}"
    assert (out / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()
    assert "exists already" in command(*words).refusal(2)
    again = command(*words, "--resume", "auto")
    assert f"{out} is finished already" in again.err
    assert result["collapsed"] == told["collapsed"] == [6]
    ranges = {row["score"]: [row["low"], row["high"]] for row in result["intervals"]}
    assert ranges == told["dev_intervals"]
    shown = json.loads((out / "report.json").read_text())["scores"]["scores"][0]
    assert [shown["low"], shown["high"]] == ranges["accuracy"]
    assert scores[6] <= told["dev_floor"] < min(scores[4], scores[5])
    alone = command(*finetune_words(tmp_path / "alone", seed=5, lr=0.01, checkpoint_every=1))
    assert alone.code == 0
    logs = [(folder / "log.jsonl").read_bytes() for folder in (tmp_path / "alone", out / "seed-5")]
    assert logs[0] == logs[1]


def test_seeds_that_all_collapse_are_a_failure_without_a_mean(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    ended = command(*finetune_words(out, seeds=2, lr=1e-9, epochs=1), "--json")
    said = ended.refusal(1)
    assert said.startswith("all 2 seeds have collapsed: one and the same answer for all scores 0.")
    assert "mean" not in said
    assert ended.out == ""
    assert not (out / "model.safetensors").exists()


def test_a_seed_that_comes_apart_counts_as_collapsed_and_does_not_end_the_others(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*finetune_words(tmp_path / "run", seeds=2, lr=1e38, warmup=0))
    assert "warning: seed 0 has collapsed: 4 steps in a row" in ended.err
    assert "warning: seed 1 has collapsed: 4 steps in a row" in ended.err
    assert "all 2 seeds have collapsed: dev score is nan, nan; look" in ended.err
    assert ended.code == 1


def test_a_worker_that_dies_is_no_seed_that_collapsed(
    finetune_words: Words, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, at = os.getpid(), ExampleBatches.at

    def die_once(self: ExampleBatches, step: int) -> Any:
        if os.getpid() != main and step == 2 and self.seed == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return at(self, step)

    monkeypatch.setattr(ExampleBatches, "at", die_once)
    ended = command(*finetune_words(tmp_path / "run", seeds=2, workers=2))
    said = ended.refusal(1)
    assert re.search(r"making batches failed: .*; free memory or use fewer --workers", said)
    assert "collapsed" not in ended.err
    assert not (tmp_path / "run" / "seed-1").exists()


def test_seeds_that_are_finished_are_not_run_again(
    finetune_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    words = finetune_words(out, seeds=2, epochs=4, lr=0.01)
    assert command(*words).code == 0
    whole = made_by_seeds(out)
    for name in ("manifest.json", "model.safetensors", "bertworks.json", "config.json"):
        (out / name).unlink()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (out / name).unlink()
    shutil.rmtree(out / "seed-1")
    ended = command(*words, "--resume", "auto")
    assert f"{out / 'seed-0'} is finished already" in ended.err
    assert made_by_seeds(out) == whole
    for name in ("manifest.json", "model.safetensors"):
        (out / name).unlink()  # as if stopped while the best model was moved to its place
    assert command(*words, "--resume", "auto").code == 0
    assert made_by_seeds(out) == whole
    (out / "mine.txt").write_text("years of work")
    (out / "manifest.json").unlink()
    assert "exists already" in command(*words, "--resume", "auto").refusal(2)


def made_by_seeds(out: Path) -> dict[str, bytes]:
    files = ("model.safetensors", "bertworks.json", "seed-1/model.safetensors")
    return {name: (out / name).read_bytes() for name in files}


def test_the_report_of_several_seeds_shows_them_side_by_side(
    finetune_words: Run, tmp_path: Path, command: Run
) -> None:
    assert command(*finetune_words(tmp_path / "out", seeds=2, epochs=4, lr=0.01)).code == 0
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [row["seed"] for row in told["seeds"]["rows"]] == [0, 1]
    assert sum(row["is_best"] for row in told["seeds"]["rows"]) == 1
    assert (tmp_path / "out" / "seed-1" / "report.html").is_file()
