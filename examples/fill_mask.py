"""Fill the masks of a text with a pre-trained model.

python examples/fill_mask.py quickstart/pretrained
python examples/fill_mask.py quickstart/pretrained "Return a [MASK] of all [MASK]."
"""

import argparse

import bertworks

TEXT = "If the file does not exist, an exception is [MASK]."


def main() -> None:
    """Print the candidates of every mask, best first."""
    parser = argparse.ArgumentParser(description="Fill the masks of a text.")
    parser.add_argument("model", help="folder of a pre-trained model")
    parser.add_argument("text", nargs="?", default=TEXT, help="text with [MASK] in it")
    chosen = parser.parse_args()
    model = bertworks.load(chosen.model)
    print(chosen.text)
    for number, candidates in enumerate(each_mask(model.fill_mask(chosen.text)), start=1):
        for candidate in candidates:
            print(f"mask {number}  {candidate.probability:6.1%}  {candidate.token}")


def each_mask(found: list) -> list[list]:
    """Return one list per mask: a single mask comes as its candidates alone."""
    return found if isinstance(found[0], list) else [found]


if __name__ == "__main__":
    main()
