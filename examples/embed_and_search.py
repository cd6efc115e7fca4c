"""Search texts by meaning: embed them once, then compare a question with all of them.

python examples/embed_and_search.py quickstart/pretrained "How do I open a file?"
python examples/embed_and_search.py quickstart/pretrained "How do I sort?" --texts lines.txt
"""

import argparse
from pathlib import Path

import bertworks

TEXTS = (
    "Open a file for reading and return a file object.",
    "The lock is released when the block ends.",
    "Sort the list in place, in ascending order.",
    "Return the mean of the elements along an axis.",
    "A thread waits until another thread releases the lock.",
    "Write the string to the file and return the number of characters.",
)


def main() -> None:
    """Print the texts nearest to the question, with their cosines."""
    parser = argparse.ArgumentParser(description="Search texts by meaning.")
    parser.add_argument("model", help="folder of a model")
    parser.add_argument("question")
    parser.add_argument("--texts", type=Path, help="a file with one text a line")
    parser.add_argument("--best", type=int, default=3, help="how many to show")
    chosen = parser.parse_args()
    texts = list(TEXTS)
    if chosen.texts:
        texts = list(filter(None, chosen.texts.read_text(encoding="utf-8").splitlines()))
    model = bertworks.load(chosen.model)
    vectors = model.embed(texts)  # [N, D], each of length one, so that a product is a cosine
    cosines = vectors @ model.embed([chosen.question])[0]
    for index in (-cosines).argsort()[: chosen.best]:
        print(f"{cosines[index]:.3f}  {texts[index]}")


if __name__ == "__main__":
    main()
