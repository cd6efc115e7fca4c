"""Files that are not written in UTF-8: what they are written in perhaps, and how to mend that."""

import codecs
import re

HEAD_BYTES = 1 << 18  # of a file, by which its encoding is told
_HAN = re.compile("[\u3400-\u9fff]")
_USUAL = re.compile("[\t\n\r -~\u3400-\u9fff]")
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_head(head: bytes) -> list[str | None]:
    """Return the lines of the first HEAD_BYTES of a file; one that is no text is None."""
    lines = head.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if len(lines) > 1 and (not lines[-1] or len(head) == HEAD_BYTES):
        lines.pop()  # nothing, or the head ends within it
    return [_decode(line.removesuffix(b"\r")) for line in lines]


def other_encoding(head: bytes) -> str | None:
    """Return what a file is instead of UTF-8, and how to mend that; None: it is mostly UTF-8."""
    text = head if _is_utf16(head) else head.replace(b"\0", b"")
    lines = [line for line in decode_head(text) if line is None or line.strip()]
    return guess_encoding(head) if 2 * lines.count(None) > len(lines) else None


def guess_encoding(raw: bytes) -> str:
    """Return what bytes that are not UTF-8 are perhaps, and how to mend that."""
    if raw.startswith(UTF16_MARKS):
        name = "UTF-16"
    elif _is_utf16(raw):
        name = max(("UTF-16LE", "UTF-16BE"), key=lambda order: _num_usual(raw, order))
    elif _is_gb18030(raw):
        name = "GB18030"
    else:
        return "not UTF-8 text; convert it first, with iconv for example"
    return f"not UTF-8 but perhaps {name}; convert it first: iconv -f {name} -t UTF-8"


def _decode(line: bytes) -> str | None:
    """Return a line as text, which may end within a character, or None."""
    try:
        return None if b"\0" in line else codecs.getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return None


def _is_utf16(raw: bytes) -> bool:
    """Tell whether NUL bytes are halves of characters, such as the ends of lines, or stray ones."""
    if raw.startswith(UTF16_MARKS) or b"\n\0" in raw or b"\0\n" in raw:
        return True
    return b"\n" not in raw and 3 * raw.count(b"\0") > len(raw)


def _num_usual(raw: bytes, encoding: str) -> int:
    """Return how many usual characters some bytes are in an encoding."""
    text = raw.decode(encoding, "ignore")
    return len(_USUAL.findall(text))


def _is_gb18030(raw: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("gb18030")().decode(raw)
    except UnicodeDecodeError:
        return False
    foreign = "".join(char for char in text if not char.isascii())
    # Letters with a mark, of which other encodings have one byte, become rare characters.
    common = foreign.encode("gb2312", "ignore").decode("gb2312")
    return len(_HAN.findall(common)) > len(foreign) / 2
