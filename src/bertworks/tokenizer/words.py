"""Where words begin, and how a piece reads without the marks of its kind."""

from typing import Literal

from bertworks.core.scripts import HAN, WITHOUT_SPACES, kind_of

Marks = Literal["continuation", "bytes", "space", "none"]

CONTINUATION = "##"  # begins a WordPiece that continues a word
SPACE = "▁"  # stands for a space in unigram pieces
CHINESE_BYTE = 0xE3  # the scripts with spaces between words begin lower in UTF-8
CONTINUING_BYTES = range(0x80, 0xC0)


def plain_bytes(piece: str, marks: Marks) -> bytes:
    """Return the text that a piece stands for; pieces of bytes may hold half a character."""
    if marks == "bytes" and all(char in BYTE_OF for char in piece):
        return bytes(BYTE_OF[char] for char in piece)
    return (piece.replace(SPACE, " ") if marks == "space" else piece).encode("utf-8")


def begins_word(piece: str, marks: Marks) -> bool:
    """Tell whether a piece begins a word wherever it stands but at the beginning of a text.

    Without a mark of its own, only a letter or digit can continue one; a Chinese character is a
    word by itself, as in BERT.
    """
    if marks in ("continuation", "none"):
        return not piece.startswith(CONTINUATION)
    plain = plain_bytes(piece, marks)
    if plain and plain[0] in CONTINUING_BYTES:
        return False
    first = plain[:4].decode("utf-8", errors="ignore")[:1]
    if not first:
        return not plain or plain[0] >= CHINESE_BYTE
    return kind_of(first) in ("", HAN)


def after_another(sentence: str) -> str:
    """Write a sentence as it stands after another: with a space, unless its script has none."""
    script = next(filter(None, map(kind_of, sentence)), "")
    return sentence if script in WITHOUT_SPACES else f" {sentence}"


def _byte_of() -> dict[str, int]:
    """Invert the alphabet of byte-level pieces: visible bytes as themselves, others above 255."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }


BYTE_OF = _byte_of()
