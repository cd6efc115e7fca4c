"""Results are shown to people in lines and tables."""

from bertworks.cli.results import result_lines


def test_a_value_is_a_line_and_a_fraction_has_four_digits() -> None:
    result = {"model": "m", "bad_rows": 0, "accuracy": 2 / 3}
    assert list(result_lines(result)) == ["model: m", "bad rows: 0", "accuracy: 0.6667"]


def test_a_list_of_words_is_one_line() -> None:
    assert list(result_lines({"known": ["a", "b c"], "new_words": []})) == [
        "known: a, b c",
        "new words: none",
    ]


def test_a_list_of_rows_is_a_table_with_numbers_to_the_right() -> None:
    rows = [
        {"word": "北京", "times_seen": 3, "share": 0.25},
        {"word": "abc", "times_seen": 120, "share": 1.0},
    ]
    assert list(result_lines({"unknown_words": rows})) == [
        "unknown words:",
        "  word  times seen   share",
        "  北京           3  0.2500",
        "  abc          120  1.0000",
    ]


def test_words_at_the_end_of_a_table_are_folded_to_a_width() -> None:
    rows = [{"n": 1, "said": "short"}, {"n": 22, "said": "many words that need more than one line"}]
    assert list(result_lines({"rows": rows}, width=40)) == [
        "rows:",
        "   n  said",
        "   1  short",
        "  22  many words that need more than one",
        "      line",
    ]
    assert list(result_lines({"rows": rows}))[-1].endswith("need more than one line")
    numbers = [{"word": "a" * 30, "n": 1}, {"word": "b", "n": 100}]
    narrow, wide = (list(result_lines({"rows": numbers}, width=width)) for width in (10, 99))
    assert narrow == wide


def test_a_column_with_gaps_is_words() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 10}]
    assert list(result_lines({"rows": rows})) == ["rows:", "   a  b", "   1  2", "  10"]


def test_a_small_fraction_is_not_shown_as_nothing() -> None:
    result = {"gap": 1.5e-07, "loss": -2e-5, "least": 0.0005, "zero": 0.0}
    assert list(result_lines(result)) == [
        "gap: 1.5e-07",
        "loss: -2.0e-05",
        "least: 0.0005",
        "zero: 0.0000",
    ]
