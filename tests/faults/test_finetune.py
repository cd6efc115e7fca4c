"""Fine-tuning killed and resumed: the same bits, the same best epoch."""

import json
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bertworks.training.run import whole_checkpoints

Outcome = Callable[[Path], dict[str, str]]
EndAlike = Callable[[Callable[[Path], list[str]], Sequence[tuple[str, int]]], None]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write short texts of two kinds of made-up words."""
    folder = tmp_path_factory.mktemp("labelled")
    chance = random.Random(2)
    kinds = {"first": ("bal", "ken", "mir"), "second": ("sot", "tus", "ran")}
    for name, count in (("train", 41), ("dev", 13)):
        rows = []
        for _ in range(count):
            label = chance.choice(list(kinds))
            text = " ".join(chance.choices(kinds[label] + ("nel", "bat"), k=chance.randint(2, 9)))
            rows.append(json.dumps({"text": text, "label": label}) + "\n")
        (folder / f"{name}.jsonl").write_text("".join(rows))
    return folder


@pytest.fixture
def finetune(
    data: Path, whole: Callable[..., Path], as_words: Callable[[dict[str, Any]], list[str]]
) -> Callable[..., list[str]]:
    """Say the words of a short fine-tuning."""

    def words(out: Path, **changed: Any) -> list[str]:
        flags = {
            "model": whole(),
            "train": data / "train.jsonl",
            "dev": data / "dev.jsonl",
            "out": out,
            "epochs": 3,
            "batch_size": 10,
            "lr": 1e-3,
            "dropout": 0.2,
            "checkpoint_every": 3,
            "device": "cpu",
            "threads": 1,
            "resume": "auto",
        }
        return ["finetune", *as_words(flags | changed)]

    return words


@pytest.fixture
def end_alike(commands: Any, make_fate: Any, outcome: Outcome, tmp_path: Path) -> EndAlike:
    """Return a way to show that a command, given where it writes, ends alike if it is killed."""

    def end_alike(words: Callable[[Path], list[str]], fates: Sequence[tuple[str, int]]) -> None:
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        ended = commands.run(words(whole))
        assert ended.code == 0, ended.said
        for event, number in fates:
            ended = commands.run(words(killed), fate=make_fate(event, number))
            assert ended.code == -signal.SIGKILL, ended.said
        assert commands.run(words(killed)).code == 0
        assert outcome(killed) == outcome(whole)

    return end_alike


@pytest.mark.shows("T2")
@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_killed_fine_tuning_ends_in_the_same_bits(
    accumulate: int, finetune: Callable[..., list[str]], end_alike: EndAlike
) -> None:
    fates = ("record", 5), ("sync", 4), ("unlink", 2), ("write", 2), ("record", 1)
    end_alike(lambda out: finetune(out, accumulate=accumulate), fates)


@pytest.mark.shows("T2")
@pytest.mark.parametrize("kind", ["several tasks", "thawing", "patient", "guarded", "thin"])
def test_a_killed_fine_tuning_of_another_kind_ends_in_the_same_bits(
    kind: str,
    finetune: Callable[..., list[str]],
    data: Path,
    end_alike: EndAlike,
    tmp_path: Path,
) -> None:
    tasks = tmp_path / "tasks.toml"
    files = f'train = "{data / "train.jsonl"}"\ndev = "{data / "dev.jsonl"}"\n'
    tasks.write_text(f"[one]\n{files}weight = 2\n[two]\n{files}focal = 2\n")
    changed = {
        "several tasks": {"tasks": tasks, "temperature": 2, "epochs": 2},
        "thawing": {"freeze": "all", "thaw_every": 0.4, "layer_decay": 0.8},
        "patient": {"patience": 1, "lr": 1e-9},
        "guarded": {
            "reinit": 1,
            "decay_toward": "pretrained",
            "mixout": 0.3,
            "r_drop": 1,
            "adversary": "freelb",
            "label_smoothing": "0.2..0",
            "average_last": 2,
        },
        "thin": {"lora": 3, "lora_on": "all", "adversary": "pgd"},
    }[kind]

    def words(out: Path) -> list[str]:
        said = finetune(out, **changed)
        if kind == "several tasks":
            for flag in ("--train", "--dev"):
                del said[said.index(flag) : said.index(flag) + 2]
        return said

    end_alike(words, (("record", 4), ("write", 2), ("record", 2)))


@pytest.mark.shows("T2")
def test_a_killed_writer_that_leaves_out_merges_ends_in_the_same_bits(
    commands: Any,
    finetune: Callable[..., list[str]],
    data: Path,
    end_alike: EndAlike,
    tmp_path: Path,
) -> None:
    pieces, changed = tmp_path / "pieces", {"size": "transformer-1x64", "longest_reply": 8}
    text = str(data / "train.jsonl")
    learn = ["learn-vocab", text, "--out", str(pieces), "--size", "300", "--kind", "byte-bpe"]
    assert commands.run(learn).code == 0
    columns = ("source=text", "target=label")
    changed |= {"model": pieces, "longest": 64, "piece_dropout": 0.3}
    changed |= {"task": "generate", "columns": columns, "decoder": "fresh"}
    fates = ("record", 5), ("write", 2), ("record", 3)
    end_alike(lambda out: finetune(out, **changed), fates)


@pytest.mark.control("T2")
def test_another_seed_would_be_noticed(
    commands: Any, finetune: Callable[..., list[str]], outcome: Outcome, tmp_path: Path
) -> None:
    outcomes = []
    for seed in (0, 1):
        out = tmp_path / str(seed)
        assert commands.run(finetune(out, seed=seed)).code == 0
        outcomes.append(outcome(out))
    assert outcomes[0]["log.jsonl"] != outcomes[1]["log.jsonl"]


@pytest.mark.shows("T7")
def test_a_fine_tuning_without_checkpoints_begins_anew_after_a_kill_and_goes_on_after_a_signal(
    commands: Any, make_fate: Any, finetune: Callable[..., list[str]], tmp_path: Path
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert commands.run(finetune(whole, checkpoint_every=0)).code == 0
    words = finetune(stopped, checkpoint_every=0)
    assert commands.run(words, fate=make_fate("record", 8)).code == -signal.SIGKILL
    assert whole_checkpoints(stopped) == []
    ended = commands.run(words, fate=make_fate("record", 4, signal.SIGTERM))
    assert ended.code == 143, ended.said
    assert "resuming" not in ended.said
    assert [path.name for path in whole_checkpoints(stopped)] == ["step-00000004"]
    ended = commands.run(words)
    assert ended.code == 0
    assert "resuming after step 4" in ended.said
    best = next((whole / "best").iterdir()).name
    for name in (
        "model.safetensors",
        "log.jsonl",
        f"best/{best}/model.safetensors",
        "bertworks.json",
    ):
        assert (whole / name).read_bytes() == (stopped / name).read_bytes()


@pytest.mark.shows("T9")
def test_changed_examples_are_refused_on_resume(
    commands: Any,
    make_fate: Any,
    finetune: Callable[..., list[str]],
    data: Path,
    tmp_path: Path,
) -> None:
    train = tmp_path / "train.jsonl"
    rows = (data / "train.jsonl").read_text()
    train.write_text(rows)
    out = tmp_path / "run"
    words = finetune(out, train=train)
    assert commands.run(words, fate=make_fate("record", 6)).code == -signal.SIGKILL
    train.write_text(rows.replace("bal", "mir", 1))
    ended = commands.run(words)
    assert ended.code == 2
    assert f"{train} has changed since {out} was begun" in ended.said
    train.write_text(rows)
    assert commands.run(words).code == 0
