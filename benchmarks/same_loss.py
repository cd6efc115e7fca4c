"""Prove a refactoring: a short pre-training has the same losses at another revision and here.

python benchmarks/same_loss.py BASE_REV         compare bit for bit; exit 1 when they differ
python benchmarks/same_loss.py --record FILE    write the losses of this tree as JSON
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = 20
Losses = list[dict[str, float]]  # of each step, by task


def main() -> None:
    """Compare with a revision, or record."""
    chosen = parse()
    with tempfile.TemporaryDirectory() as folder:
        here = pretrain(ROOT / "src", Path(folder) / "here")
        if chosen.record:
            chosen.record.write_text(json.dumps(here, indent=1) + "\n")
            print(f"recorded {len(here)} steps in {chosen.record}")
            return
        with checkout(chosen.base, Path(folder) / "tree") as tree:
            base = pretrain(tree / "src", Path(folder) / "base")
    for name, losses in ((chosen.base, base), ("here", here)):
        print(f"{digest(losses)}  {name}, last step {losses[-1]}")
    if base != here:
        pairs = enumerate(zip(base, here, strict=True), start=1)
        step = next(step for step, (before, now) in pairs if before != now)
        sys.exit(f"the losses differ from step {step} on")
    print(f"the same losses in all {len(here)} steps")


def pretrain(sources: Path, folder: Path, *, seed: int = 0) -> Losses:
    """Pre-train for a few steps with the package in `sources`, in processes of its own."""
    folder.mkdir(parents=True)
    (folder / "text.txt").write_text(make_text())
    run(sources, folder, "learn-vocab text.txt --out tokenizer --size 200")
    cut = "tokenize text.txt --tokenizer tokenizer --out shards --held-out 0.1 --workers 1"
    run(sources, folder, cut)
    settings = (
        f"--size 2x64 --longest 32 --steps {STEPS} --batch-tokens 512 --accumulate 2 --lr 3e-3 "
        f"--dropout 0.1 --seed {seed} --evaluate-every {STEPS} --device cpu --threads 1"
    )
    run(sources, folder, f"pretrain shards --out run {settings}")
    log = map(json.loads, (folder / "run" / "log.jsonl").read_text().splitlines())
    tasks = ("fill_mask", "next_sentence")
    return [{task: entry[task] for task in tasks} for entry in log if "lr" in entry]


def make_text() -> str:
    """Return eighty documents of made-up words, each with favourites of its own."""
    chance = random.Random(17)
    words = [a + b + c for a in "bkmst" for b in "aeiou" for c in ("l", "n", "r", "st")]
    documents = []
    for _ in range(80):
        topic = chance.sample(words, 15)
        lengths = [chance.randint(3, 12) for _ in range(chance.randint(3, 9))]
        documents.append("\n".join(" ".join(chance.choices(topic, k=n)) + "." for n in lengths))
    return "\n\n".join(documents) + "\n"


def run(sources: Path, folder: Path, command: str) -> None:
    """Run one command; paths in it are those of the folder."""
    start = f"import sys; sys.path.insert(0, {str(sources)!r}); from bertworks.cli.main import main"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}; main()", *command.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{sources}: bertworks {command} failed: {done.stderr.strip()}")


@contextmanager
def checkout(revision: str, tree: Path) -> Iterator[Path]:
    """Lend a revision as a folder of its own."""
    git("worktree", "add", "--quiet", "--detach", str(tree), revision)
    try:
        yield tree
    finally:
        git("worktree", "remove", "--force", str(tree))


def git(*words: str) -> None:
    """Run git on this repository."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"git {' '.join(words)}: {done.stderr.strip()}")


def digest(losses: Losses) -> str:
    """Return a short hash of all losses."""
    return hashlib.sha256(json.dumps(losses).encode()).hexdigest()[:16]


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", metavar="BASE_REV", help="revision to compare with")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the losses as JSON")
    chosen = parser.parse_args()
    if bool(chosen.base) == bool(chosen.record):
        parser.error("give either BASE_REV or --record FILE")
    return chosen


if __name__ == "__main__":
    main()
