"""The names of the special pieces: a folder says its own, or its vocabulary shows the family."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tokenizers import AddedToken

from bertworks.core.errors import ArtifactError

# Our role -> the key by which folders name the piece.
KEYS = {
    "pad": "pad_token",
    "unknown": "unk_token",
    "first": "cls_token",
    "separator": "sep_token",
    "mask": "mask_token",
}


@dataclass(frozen=True)
class SpecialPieces:
    """What the special pieces of a vocabulary are called."""

    pad: str
    unknown: str
    first: str
    separator: str
    mask: str

    def names(self) -> tuple[str, ...]:
        """Return the names in BERT's order."""
        return tuple(getattr(self, field.name) for field in fields(self))


BERT = SpecialPieces("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = SpecialPieces("<pad>", "<unk>", "<s>", "</s>", "<mask>")
ALBERT = SpecialPieces("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
MPNET = SpecialPieces("<pad>", "[UNK]", "<s>", "</s>", "<mask>")


def find_special_pieces(
    settings: Mapping[str, Any], vocabulary: Collection[str], *, where: object = "the vocabulary"
) -> SpecialPieces:
    """Take the names that the settings tell, and the others from the family that fits best."""
    family = max(
        (BERT, ROBERTA, ALBERT, MPNET),
        key=lambda known: sum(name in vocabulary for name in known.names()),
    )
    told = {role: _content(settings[key]) for role, key in KEYS.items() if settings.get(key)}
    found = SpecialPieces(**{**vars(family), **told})
    for role, key in KEYS.items():
        name = getattr(found, role)
        if name not in vocabulary:
            raise ArtifactError(
                f"{where} has no {name}, the {role} piece; name the right one as {key} in "
                "tokenizer_config.json, or learn the vocabulary again with learn-vocab"
            )
    return found


def added_pieces(settings: Mapping[str, Any], pieces: SpecialPieces) -> list[AddedToken]:
    """Return what is found in a text before it is cut: what the settings add, and the special."""
    listed = settings.get("added_tokens_decoder", {})
    added = [_added(listed[index]) for index in sorted(listed, key=int)]
    own = [settings.get(key) or getattr(pieces, role) for role, key in KEYS.items()]
    more = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or ()
    for entry in (*own, *more):
        token = _added(entry if isinstance(entry, dict) else {"content": entry})
        if token.content not in {known.content for known in added}:
            added.append(token)
    return added


def listed_pieces(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """Give what settings add, each as their key, the piece, and its id where they tell it."""
    listed = settings.get("added_tokens_decoder") or {}
    for index, entry in listed.items():
        yield "added_tokens_decoder", _content(entry), int(index)
    for key in ("extra_special_tokens", "additional_special_tokens"):
        entries = settings.get(key) or ()
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield key, _content(entry), None


def _added(entry: Mapping[str, Any]) -> AddedToken:
    flags = ("single_word", "lstrip", "rstrip")
    special = bool(entry.get("special", True))
    return AddedToken(
        entry["content"],
        special=special,
        normalized=bool(entry.get("normalized", not special)),
        **{flag: bool(entry.get(flag, False)) for flag in flags},
    )


def _content(entry: Any) -> str:
    return str(entry["content"] if isinstance(entry, dict) else entry)
