"""Keeping only the pieces that texts need, so that those texts are cut as before."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Encoding
from tokenizers import Tokenizer as Engine

from bertworks.core.errors import ArtifactError
from bertworks.tokenizer.merges import Merge, merge, merges_in
from bertworks.tokenizer.tokenizer import Tokenizer

Description = dict[str, Any]  # the content of `tokenizer.json`, or a part of it


class Needs:
    """The pieces that texts need, gathered from one text after the other."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.model: Description = json.loads(tokenizer.engine.to_str())["model"]
        self.added = tokenizer.engine.get_added_tokens_decoder()
        self.ids = {
            *tokenizer.specials.as_tuple(),
            *(index for index, token in self.added.items() if token.special),
            *ALWAYS.get(self.model["type"], lambda model: ())(self.model),
        }
        self.ranks = {pair: rank for rank, pair in enumerate(merges_in(self.model))}
        self.merges: set[Merge] = set()
        self._seen: set[str] = set()  # words that were looked into

    def add(self, texts: Sequence[str]) -> None:
        """Gather the pieces of more texts, with those that are needed on the way to them."""
        encodings = self.tokenizer.engine.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            self.ids.update(encoding.ids)
            if self.model["type"] == "WordPiece":
                self._add_tries(text, encoding)
            elif self.model["type"] == "BPE":
                self._add_merges(encoding)

    def shrunken(self) -> tuple[Tokenizer, list[int]]:
        """Return the smaller tokenizer, and the old id of each of its pieces."""
        old = self.tokenizer.engine
        kept = sorted(self.ids)
        description = json.loads(old.to_str())
        _renumber(description, {before: now for now, before in enumerate(kept)}, self.merges)
        engine = Engine.from_str(json.dumps(description))
        if any(engine.id_to_token(i) != old.id_to_token(k) for i, k in enumerate(kept)):
            raise ArtifactError(
                "the added words of this tokenizer lie among its pieces, so that they cannot be "
                "numbered anew; make the model with `vocab extend` again"
            )
        return self.tokenizer.with_engine(engine), kept

    def _add_tries(self, text: str, encoding: Encoding) -> None:
        """Keep what was found in a word before it proved unknown: without it, it might not."""
        engine = self.tokenizer.engine
        for index, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if index != self.tokenizer.specials.unknown or text[start:end] in self._seen:
                continue
            self._seen.add(text[start:end])
            normal = text[start:end]
            if engine.normalizer is not None:
                normal = engine.normalizer.normalize_str(normal)
            for word, _ in engine.pre_tokenizer.pre_tokenize_str(normal):
                if len(word) <= self.model["max_input_chars_per_word"]:
                    self.ids.update(match_greedily(word, self.model))

    def _add_merges(self, encoding: Encoding) -> None:
        """Keep the merges that made each word, and the pieces between."""
        words: dict[int | None, str] = {}
        places = zip(encoding.ids, encoding.tokens, encoding.word_ids, strict=True)
        for index, piece, number in places:
            if index not in self.added:
                words[number] = words.get(number, "") + piece
        for word in set(words.values()) - self._seen:
            self._seen.add(word)
            if not (self.model.get("ignore_merges") and word in self.model["vocab"]):
                _, made = merge(word, self.ranks)
                self.merges.update(made)
                self.ids.update(self.model["vocab"]["".join(pair)] for pair in made)


def match_greedily(word: str, model: Description) -> list[int]:
    """Return the pieces that WordPiece finds in a word until none fits, each as long as can be."""
    found: list[int] = []
    start, end = 0, len(word)
    while start < end:
        prefix = model["continuing_subword_prefix"] if start else ""
        index = model["vocab"].get(prefix + word[start:end])
        if index is None:
            end -= 1
        else:
            found.append(index)
            start, end = end, len(word)
    return found


def _alphabet(model: Description) -> Iterable[int]:
    """Return the single characters, from which byte-level BPE makes any text."""
    return (index for piece, index in model["vocab"].items() if len(piece) == 1)


def _rarest(model: Description) -> Iterable[int]:
    """Return the piece of the smallest score: what is unknown is scored by it."""
    scores = [score for _, score in model["vocab"]]
    return [scores.index(min(scores))]


# What must be kept whatever the texts are.
ALWAYS = {"BPE": _alphabet, "Unigram": _rarest}


def _renumber(description: Description, new: dict[int, int], merges: set[Merge]) -> None:
    """Leave out of a tokenizer's description what has no new number, and number the rest."""
    model = description["model"]
    if model["type"] == "Unigram":
        model["vocab"] = [entry for index, entry in enumerate(model["vocab"]) if index in new]
        model["unk_id"] = new[model["unk_id"]]
    else:
        model["vocab"] = {piece: new[i] for piece, i in model["vocab"].items() if i in new}
    if "merges" in model:
        model["merges"] = [list(pair) for pair in merges_in(model) if pair in merges]
    description["added_tokens"] = [
        {**token, "id": new[token["id"]]}
        for token in description["added_tokens"]
        if token["id"] in new
    ]
    _renumber_layout(description["post_processor"], new)


def _renumber_layout(layout: Description | None, new: dict[int, int]) -> None:
    """Give the special pieces of a post-processor their new numbers."""
    for inner in (layout or {}).get("processors", []):
        _renumber_layout(inner, new)
    for piece in (layout or {}).get("special_tokens", {}).values():
        piece["ids"] = [new[index] for index in piece["ids"]]
    for key in ("sep", "cls"):
        if layout and key in layout:
            layout[key] = [layout[key][0], new[layout[key][1]]]
