"""The beginning of a file: what its layout is told from, and whether it is text at all."""

import codecs
import re
from pathlib import Path

from bertworks.core.errors import DataError
from bertworks.core.lines import UNREADABLE, open_bytes

HEAD_BYTES, HEAD_LINES = 1 << 18, 2000
_HAN = re.compile("[\u3400-\u9fff]")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WORKBOOKS = {
    b"PK\x03\x04": "an Excel workbook or another zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook or another file of Microsoft Office",
}


def read_head(file: Path) -> list[str]:
    """Return the first lines of a file without their ends; a file of other text is refused.

    A line that is no text is empty here; who reads the file sets it aside.
    """
    try:
        with open_bytes(file) as stream:
            raw = stream.read(HEAD_BYTES)
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read after line 0: {error}") from error
    _refuse_workbook(file, raw)
    lines = raw.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if len(lines) > 1 and (not lines[-1] or len(raw) == HEAD_BYTES):
        lines.pop()  # nothing, or the head ends within it
    decoded = [_decode(line.removesuffix(b"\r")) for line in lines]
    if 2 * decoded.count(None) > len(decoded):
        raise DataError(f"{file} is not UTF-8 {_true_encoding(raw)}")
    return [line or "" for line in decoded[:HEAD_LINES]]


def _refuse_workbook(file: Path, raw: bytes) -> None:
    for beginning, kind in _WORKBOOKS.items():
        if raw.startswith(beginning):
            raise DataError(
                f"{file} is {kind}; save the sheet as CSV UTF-8, or unpack the file, and give that"
            )


def _decode(line: bytes) -> str | None:
    """Return a line as text, which may end within a character, or None."""
    try:
        return None if b"\0" in line else codecs.getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return None


def _true_encoding(raw: bytes) -> str:
    """Return what a text is perhaps written in, and how to mend that."""
    if raw.startswith(_UTF16):
        name = "UTF-16"
    elif b"\0" in raw:
        name = max(("UTF-16LE", "UTF-16BE"), key=lambda order: _num_usual(raw, order))
    elif _is_gb18030(raw):
        name = "GB18030"
    else:
        return "text; convert it first, with iconv for example"
    return f"but perhaps {name}; convert it first: iconv -f {name} -t UTF-8"


def _num_usual(raw: bytes, encoding: str) -> int:
    """Return how many usual characters some bytes are in an encoding."""
    text = raw.decode(encoding, "ignore")
    return len(_HAN.findall(text)) + sum(char.isascii() and char.isprintable() for char in text)


def _is_gb18030(raw: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("gb18030")().decode(raw)
    except UnicodeDecodeError:
        return False
    foreign = "".join(char for char in text if not char.isascii())
    # Letters with a mark, of which other encodings have one byte, become rare characters.
    common = foreign.encode("gb2312", "ignore").decode("gb2312")
    return len(_HAN.findall(common)) > len(foreign) / 2
