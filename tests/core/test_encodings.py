"""Files that are not UTF-8 are told with what they perhaps are, and with the way to mend them."""

import pytest

from bertworks.core.encodings import HEAD_BYTES, decode_head, guess_encoding, other_encoding

CHINESE = "这家酒店很好\t1\n房间太小了\t0\n"


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"one line", ["one line"]),
        ("\ufeffa\r\n\r\nb\r\n".encode(), ["a", "", "b"]),
        (b"good\nb\xffd\nn\0l\n", ["good", None, None]),
        ("字".encode()[:2], [""]),
    ],
)
def test_lines_that_are_no_text_are_missing(head: bytes, lines: list[str | None]) -> None:
    assert decode_head(head) == lines


def test_a_line_within_which_a_head_ends_is_left_out() -> None:
    head = (b"x" * 6 + b"\n") * (HEAD_BYTES // 7 + 1)
    assert set(decode_head(head[:HEAD_BYTES])) == {"x" * 6}
    assert len(decode_head(head[:HEAD_BYTES])) == HEAD_BYTES // 7


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (CHINESE.encode("utf-16"), "UTF-16"),
        ("plain\t1\n".encode("utf-16-le"), "UTF-16LE"),
        ("plain\t1\n".encode("utf-16-be"), "UTF-16BE"),
        ("plain".encode("utf-16-le"), "UTF-16LE"),
        ("plain\r\n".encode("utf-16-be"), "UTF-16BE"),
        (CHINESE.encode("utf-16-le"), "UTF-16LE"),
        (CHINESE.encode("utf-16-be"), "UTF-16BE"),
        ("一万一千一百一十一\n".encode("utf-16-le") * 3, "UTF-16LE"),
        ("一万一千一百一十一\n".encode("utf-16-be") * 3, "UTF-16BE"),
        (CHINESE.encode("gbk"), "GB18030"),
        ((CHINESE + "𠮷\n").encode("gb18030"), "GB18030"),
        (CHINESE.encode("gb18030")[:-4], "GB18030"),
        (CHINESE.replace("\n", "\n\n").encode("gb18030"), "GB18030"),
        ("1234567890 20\t好\n".encode("gb18030") * 3, "GB18030"),
        ("2024-11-16 08:15,第 12 号,1,000.5\n".encode("gb18030"), "GB18030"),
    ],
)
def test_an_encoding_is_named_with_the_command_that_converts_it(raw: bytes, name: str) -> None:
    told = f"not UTF-8 but perhaps {name}; convert it first: iconv -f {name} -t UTF-8"
    assert other_encoding(raw) == guess_encoding(raw) == told


@pytest.mark.parametrize(
    "raw",
    [
        "déjà\nété\n".encode("latin-1"),
        "1234 é 5\n22 à la carte\n".encode("latin-1"),
        "слово и дело\n".encode("cp1251"),
        bytes(range(128, 256)),
    ],
)
def test_what_cannot_be_named_is_to_be_converted_all_the_same(raw: bytes) -> None:
    assert other_encoding(raw) == "not UTF-8 text; convert it first, with iconv for example"


@pytest.mark.parametrize(
    "raw",
    [b"", b"\n\n", CHINESE.encode(), b"b\xffd\ngood\n", b"one \0 two", "三\0四\n".encode() * 5],
)
def test_a_file_that_is_mostly_utf_8_has_no_other_encoding(raw: bytes) -> None:
    assert other_encoding(raw) is None


def test_blank_lines_do_not_speak_for_utf_8() -> None:
    assert other_encoding(b"b\xffd\n\n\n \n") is not None
