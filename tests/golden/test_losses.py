"""Twenty steps of pre-training, as they were recorded.

A change that is meant to alter the losses records them again:

    python benchmarks/same_loss.py --record tests/golden/losses.json
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RECORDED = json.loads(Path(__file__).with_name("losses.json").read_text())
Losses = list[dict[str, float]]


@pytest.fixture(scope="module")
def same_loss() -> ModuleType:
    """Load the benchmark, which makes the corpus and runs the commands."""
    file = ROOT / "benchmarks" / "same_loss.py"
    spec = importlib.util.spec_from_file_location("same_loss", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def losses(same_loss: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Losses:
    """Pre-train once."""
    return same_loss.pretrain(ROOT / "src", tmp_path_factory.mktemp("golden") / "once")


def is_close(losses: Losses, others: Losses) -> bool:
    return len(losses) == len(others) and all(
        ours == pytest.approx(theirs, rel=1e-4) for ours, theirs in zip(losses, others, strict=True)
    )


def test_the_losses_are_those_on_record(losses: Losses) -> None:
    assert len(losses) == 20
    assert is_close(losses, RECORDED)


def test_the_recorded_losses_fall() -> None:
    masked = [entry["fill_mask"] for entry in RECORDED]
    assert sum(masked[-5:]) < sum(masked[:5])


def test_a_second_run_has_the_same_bits(
    losses: Losses, same_loss: ModuleType, tmp_path: Path
) -> None:
    again = same_loss.pretrain(ROOT / "src", tmp_path / "again")
    assert again == losses
    assert same_loss.digest(again) == same_loss.digest(losses)


def test_another_seed_would_be_noticed(
    losses: Losses, same_loss: ModuleType, tmp_path: Path
) -> None:
    other = same_loss.pretrain(ROOT / "src", tmp_path / "other", seed=1)
    assert not is_close(other, losses)
    assert same_loss.digest(other) != same_loss.digest(losses)


@pytest.mark.slow
@pytest.mark.parametrize(("beta", "code"), [("0.999", 0), ("0.99", 1)], ids=["same", "other"])
def test_a_revision_is_compared_with_the_tree(beta: str, code: int, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    for name in ("src", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, repository / name, ignore=ignored)
    author = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    settings = repository / "src" / "bertworks" / "stages" / "setting_groups.py"
    assert "beta2: Share = 0.999\n" in settings.read_text()
    settings.write_text(
        settings.read_text().replace("beta2: Share = 0.999", f"beta2: Share = {beta}")
    )
    done = subprocess.run(
        [sys.executable, "benchmarks/same_loss.py", "HEAD"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    hashes = [line.split()[0] for line in done.stdout.splitlines()[:2]]
    assert (hashes[0] == hashes[1]) is (code == 0)
    trees = subprocess.run(
        ["git", "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert len(trees.stdout.splitlines()) == 1
