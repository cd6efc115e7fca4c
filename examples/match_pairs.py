"""Tell which pairs of texts belong together, with a model that was fine-tuned on pairs.

python examples/match_pairs.py quickstart/pretrained-match
python examples/match_pairs.py quickstart/pretrained-match --pairs quickstart/test.jsonl
"""

import argparse
import json
from pathlib import Path

import bertworks

PAIRS = (
    ("The lock is released when the block ends.", "A thread waits until the lock is free."),
    ("The lock is released when the block ends.", "Return the mean along an axis."),
)


def main() -> None:
    """Print the answer to every pair and, where labels are known, how many are right."""
    parser = argparse.ArgumentParser(description="Tell which pairs of texts belong together.")
    parser.add_argument("model", help="folder of a model fine-tuned on pairs")
    parser.add_argument("--pairs", type=Path, help="JSON lines with text, text_b and maybe label")
    parser.add_argument("--most", type=int, default=20, help="how many pairs to answer")
    chosen = parser.parse_args()
    rows = [{"text": first, "text_b": second} for first, second in PAIRS]
    if chosen.pairs:
        lines = chosen.pairs.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines[: chosen.most]]
    answers = bertworks.load(chosen.model).predict(rows)
    for row, answer in zip(rows, answers, strict=True):
        print(f"{answer['label']} ({answer['probability']:.1%})")
        print(f"    {row['text']:.90}\n    {row['text_b']:.90}")
    labelled = [(row, answer) for row, answer in zip(rows, answers, strict=True) if "label" in row]
    if labelled:
        right = sum(row["label"] == answer["label"] for row, answer in labelled)
        print(f"{right} of {len(labelled)} are right")


if __name__ == "__main__":
    main()
