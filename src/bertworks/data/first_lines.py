"""The beginning of a file: what its layout is told from, and whether it is text at all."""

from pathlib import Path

from bertworks.core.encodings import decode_head, other_encoding
from bertworks.core.errors import DataError
from bertworks.core.lines import read_beginning

HEAD_LINES = 2000
_WORKBOOKS = {
    b"PK\x03\x04": "an Excel workbook or another zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook or another file of Microsoft Office",
}


def read_head(file: Path) -> list[str]:
    """Return the first lines of a file without their ends; a file of other text is refused.

    A line that is no text is empty here; who reads the file sets it aside.
    """
    raw = read_beginning(file)
    _refuse_workbook(file, raw)
    if other := other_encoding(raw):
        raise DataError(f"{file} is {other}")
    return [line or "" for line in decode_head(raw)[:HEAD_LINES]]


def _refuse_workbook(file: Path, raw: bytes) -> None:
    for beginning, kind in _WORKBOOKS.items():
        if raw.startswith(beginning):
            raise DataError(
                f"{file} is {kind}; save the sheet as CSV UTF-8, or unpack the file, and give that"
            )
