"""Which languages a vocabulary has words of: what a page offers as an example depends on it."""

from bertworks.tokenizer.tokenizer import Tokenizer

SAMPLES = {  # ordinary words; in Chinese each character counts as one
    "en": "we do not know why they always told the children to come home before it was too late",
    "zh": "我们还没说过为什么这个时候他会觉得应该让孩子认识种动物给妈买东西",
}
MOST_PIECES = 1.25  # a word, on average
MOST_UNKNOWN = 0.1  # of all pieces


def languages_of(tokenizer: Tokenizer) -> list[str]:
    """Return the languages whose ordinary words a vocabulary knows, whole for the most part."""
    return [language for language in SAMPLES if _knows(tokenizer, language)]


def _knows(tokenizer: Tokenizer, language: str) -> bool:
    sample = SAMPLES[language]
    (ids,) = tokenizer.ids_of([sample])
    num_words = len(sample.split()) if " " in sample else len(sample)
    num_unknown = ids.count(tokenizer.specials.unknown)
    return len(ids) <= MOST_PIECES * num_words and num_unknown <= MOST_UNKNOWN * num_words
