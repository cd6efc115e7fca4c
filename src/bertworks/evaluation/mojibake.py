"""Text that was read in another encoding than it was written in, told by what it says then."""

import re

# UTF-8 that was read as Latin-1 or the Windows encoding: one letter with a mark and then signs.
_LATE = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
UTF_8_AS_LATIN = re.compile(
    f"[ÂÃ][\x80-\xbf€™œž]|â[€\x80]|ï»¿|ð[\x9fŸ]|锟斤拷|(?:[ÐÑ][{_LATE}]|[à-ï][{_LATE}]{{2}}){{2}}"
)
HAN = re.compile("[\u4e00-\u9fff]")
RUNS = re.compile("[\x80-\U0010ffff]{4,}")  # of two characters
LATIN = ("latin-1", "cp1252")
COMMON_ROWS = {0xA1, 0xA3, *range(0xB0, 0xD8)}  # of GB 2312: signs, wide letters, usual characters
LEAST_COMMON = 0.9  # share of what GBK read as Latin-1 says
LEAST_MENDED = 0.5  # share of what UTF-8 read as GBK says, of which some bytes are lost
FEWEST_SIGNS = 3  # different ones in a run
LONG_RUN = 8  # letters with marks, more than stand together in any word


def is_mojibake(text: str) -> bool:
    """Tell whether a text, or a part of it, was read in a wrong encoding."""
    if text.isascii():
        return False
    if UTF_8_AS_LATIN.search(text):
        return True
    return _is_utf_8_as_gbk(text) if HAN.search(text) else _is_gbk_as_latin(text)


def _is_gbk_as_latin(text: str) -> bool:
    """Tell whether a text such as ÎÄ±¾ says something usual in Chinese by its bytes."""
    if not any(map(_is_no_word, RUNS.findall(text))):
        return False
    meant = (_read_again(text, encoding, "gb18030") for encoding in LATIN)
    return any(_num_han(said) > 1 and _common_share(said) >= LEAST_COMMON for said in meant)


def _is_no_word(run: str) -> bool:
    """Tell whether letters with marks are no cry such as ÄÄÄÄH, no alphabet and no power."""
    is_mixed = len(set(run)) >= FEWEST_SIGNS and list(run) != sorted(run) and max(run) >= "À"
    return is_mixed and (len(run) >= LONG_RUN or not run.isalpha())


def _is_utf_8_as_gbk(text: str) -> bool:
    """Tell whether odd characters such as 鏂囨湰 say something usual in Chinese by their bytes."""
    meant = _read_again(text, "gb18030", "utf-8")
    is_read = _num_han(meant) > 1 and _common_share(meant) >= LEAST_MENDED
    return is_read and _common_share(text) < LEAST_MENDED


def _read_again(text: str, written: str, read: str) -> str:
    """Return what a text says in another encoding, or nothing where it cannot be written."""
    try:
        return text.encode(written).decode(read, "replace")
    except UnicodeEncodeError:
        return ""


def _num_han(text: str) -> int:
    return len(set(HAN.findall(text)))


def _common_share(text: str) -> float:
    """Return the share of usual Chinese characters and signs in all that is not ASCII."""
    others = [char for char in text if not char.isascii()]
    codes = (char.encode("gb2312", "ignore") for char in others)
    return sum(code[:1] != b"" and code[0] in COMMON_ROWS for code in codes) / max(len(others), 1)
