"""Characters are numbers, and what is known of them is looked up in a table."""

from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.code_points import CharTable, code_points

ANY = st.text(st.characters(exclude_categories=()), max_size=60)  # surrogates among them


@given(ANY)
def test_a_text_comes_back_from_its_numbers(text: str) -> None:
    assert "".join(map(chr, code_points(text).tolist())) == text


@given(st.lists(ANY, max_size=4))
def test_a_table_tells_what_its_function_tells_and_asks_once(texts: list[str]) -> None:
    asked: list[str] = []

    def find(char: str) -> int:
        asked.append(char)
        return ord(char) % 255

    table = CharTable(find)
    for text in texts:
        assert table.of(code_points(text)).tolist() == [ord(char) % 255 for char in text]
    assert sorted(asked) == sorted(set("".join(texts)))
