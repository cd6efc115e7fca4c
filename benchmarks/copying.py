"""Does an encoder look for what matches? Words drawn by chance, twice; one of the second is hidden.

    python benchmarks/copying.py MODEL [--words 8 16 40] [--texts 100] [--seed 0]

Nothing but the first time tells what is hidden, so a network that fills masks from what stands
beside them alone is right by chance. Tasks of pairs need such a network to look further.
"""

import argparse
import random
from collections.abc import Sequence

import bertworks
from bertworks.serving.predictor import Predictor

FEWEST_LETTERS = 4  # of a word that is drawn; a Chinese one is a single character
FREQUENT = 3000  # the vocabulary begins with what is frequent


def main() -> None:
    """Print how often the hidden word comes first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder or name of a model that fills masks")
    parser.add_argument("--words", type=int, nargs="+", default=[8, 16, 40], help="of each time")
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    model = bertworks.load(asked.model, device="cpu")
    words, gap = drawn_from(model)
    for count in asked.words:
        chance = random.Random(f"{asked.seed} {count}")
        texts = [chance.choices(words, k=count) for _ in range(asked.texts)]
        found = [is_found(model, text, gap, chance) for text in texts]
        print(f"{count} words twice: {sum(found) / len(found):.0%} of {len(found)} found")


def drawn_from(model: Predictor) -> tuple[list[str], str]:
    """Return frequent words of a vocabulary, and what stands between two of them."""
    pieces = [model.tokenizer.piece(index) for index in range(model.tokenizer.vocab_size)]
    latin = [one for one in pieces if one.isascii() and one.isalpha()]
    words = [one for one in latin if len(one) >= FEWEST_LETTERS]
    characters = [one for one in pieces if "\u4e00" <= one <= "\u9fff"]
    if len(characters) > len(words):
        return characters[:FREQUENT], ""
    return words[:FREQUENT], " "


def is_found(model: Predictor, words: Sequence[str], gap: str, chance: random.Random) -> bool:
    """Tell whether the likeliest piece behind a mask is what stood there the first time."""
    at = chance.randrange(1, len(words) - 1)
    again = [*words[:at], "[MASK]", *words[at + 1 :]]
    text = f"{gap.join(words)}{gap or '，'}{gap.join(again)}"
    return model.fill_mask(text)[0].token == words[at]


if __name__ == "__main__":
    main()
