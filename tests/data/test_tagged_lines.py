"""CoNLL, CoNLL-U and words with two spaces between them become tokens and tags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.core.quarantine import Quarantine
from bertworks.data.tagged_lines import (
    LONGEST_SENTENCE,
    as_bioes,
    has_word_tags,
    is_conll,
    is_conllu,
    is_segmented,
    read_conll,
    read_conllu,
    read_segmented,
)

Write = Callable[[str, str | bytes], Path]
CONLL2003 = """-DOCSTART- -X- O O

EU NNP I-NP B-ORG
rejects VBZ I-VP O

-DOCSTART-

Peter NNP I-NP B-PER
"""
CONLLU = """# sent_id = 1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tgone\tgo\tVERB\tVBN\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

# only a comment

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def read(reader: Any, path: Path, **columns: str) -> tuple[list[Any], list[tuple[int, str]]]:
    quarantine = Quarantine()
    rows = list(reader(path, quarantine, columns))
    return rows, [(row.line, row.reason) for row in quarantine.rows]


def row(tokens: str, tags: str | None = None) -> dict[str, list[str]]:
    found = {"tokens": tokens.split()}
    return found if tags is None else found | {"tags": tags.split()}


@pytest.mark.parametrize("separator", ["\t", " "])
def test_conll_takes_the_first_column_and_the_last(file: Write, separator: str) -> None:
    path = file("a.conll", CONLL2003.replace(" ", separator))
    expected = [(3, row("EU rejects", "B-ORG O")), (8, row("Peter", "B-PER"))]
    assert read(read_conll, path) == (expected, [])


def test_other_columns_of_conll_are_chosen_by_their_numbers(file: Write) -> None:
    path = file("a.conll", CONLL2003)
    rows, _ = read(read_conll, path, tags="2")
    assert rows[0][1] == row("EU rejects", "NNP VBZ")
    assert read(read_conll, path, tokens="3")[0][1] == (8, row("I-NP", "B-PER"))
    for columns, reason in (({"tags": "5"}, "has 4 columns; "), ({"tags": "ner"}, "its number")):
        with pytest.raises(UsageError, match=reason):
            read(read_conll, path, **columns)


def test_a_file_of_tokens_alone_has_no_tags(file: Write) -> None:
    path = file("a.tsv", "one\ntwo\n\nthree\n")
    assert read(read_conll, path) == ([(1, row("one two")), (4, row("three"))], [])


def test_bad_sentences_are_set_aside_whole_and_the_others_stay(file: Write) -> None:
    lines = [
        b"good\tO\n\n",
        b"b\xffd\tO\nrest\tO\n\n",
        b"three\tcolumns\tO\n\n",
        b"bare\n\n",
        b"rest\tO\nb\xffd\tO\n\n",
        b"last\tB-X",
    ]
    rows, bad = read(read_conll, file("a.conll", b"".join(lines)))
    assert rows == [(1, row("good", "O")), (13, row("last", "B-X"))]
    assert sorted(bad) == [
        (3, "a line of this sentence cannot be read"),
        (3, "not UTF-8 at byte 1"),
        (6, "line 1 of the sentence has 3 columns, but the file 2"),
        (8, "line 1 of the sentence has 1 column, but the file 2"),
        (10, "a line of this sentence cannot be read"),
        (11, "not UTF-8 at byte 1"),
    ]


def test_white_space_outside_of_spans_is_no_token(file: Write) -> None:
    path = file("a.conll", "one\tO\n\tO\n\u3000\tO\ntwo\tB-X\n\n\tO\n\n\u3000 O\nfour O\n")
    assert read(read_conll, path)[0] == [(1, row("one two", "O B-X")), (8, row("four", "O"))]


def test_a_space_may_be_a_token_of_lines_parted_by_spaces(file: Write) -> None:
    lines = ["  O", "a B-X", "  I-X", " I-X", "b I-X", "", "  O", "", "c O", "  B-X"]
    path = file("a.conll", "\n".join(lines))
    rows, [(line, reason)] = read(read_conll, path)
    assert rows == [(1, row("a b", "B-X I-X"))]
    assert (line, reason[:29]) == (9, "a blank token tagged B-X; tag")
    wide = file("b.conll", "a NN B-X\n  SP O\n\nb NN O\n")
    assert read(read_conll, wide)[0] == [(1, row("a", "B-X")), (4, row("b", "O"))]


def test_an_indented_line_that_lacks_a_column_is_set_aside(file: Write) -> None:
    path = file("a.conll", "  1 a NN O\n  2 b NN O\n\n  1 c NN O\n  2 x O\n")
    rows, [(line, reason)] = read(read_conll, path)
    assert (len(rows), line) == (1, 4)
    assert "line 2 of the sentence has 3 columns, but the file 4" in reason


def test_lines_that_all_begin_with_a_space_have_their_tokens_behind_it(file: Write) -> None:
    path = file("a.conll", " a B-X\n   I-X\n b I-X\n\n c O\n")
    assert read(read_conll, path) == ([(1, row("a b", "B-X I-X")), (5, row("c", "O"))], [])


def test_a_file_without_blank_lines_is_no_sentence(file: Write) -> None:
    path = file("a.conll", "x\tO\n" * (LONGEST_SENTENCE + 5) + "\ny\tO\n")
    rows, [(line, reason)] = read(read_conll, path)
    assert rows == [(LONGEST_SENTENCE + 7, row("y", "O"))]
    assert (line, reason[:21]) == (1, "more than 10,000 line")


def test_other_letters_of_tags_become_those_of_bioes() -> None:
    assert as_bioes(["B-X", "M-X", "E-X", "S-Y", "O"]) == ["B-X", "I-X", "E-X", "S-Y", "O"]
    assert as_bioes(["B-X", "I-X", "L-X", "U-Y"]) == ["B-X", "I-X", "E-X", "S-Y"]
    assert as_bioes(["B", "M", "E", "S"]) == ["B", "I", "E", "S"]
    assert as_bioes(["NN", "M", "VV", "U"]) == ["NN", "M", "VV", "U"]  # kinds of words


def test_conllu_keeps_words_and_leaves_out_ranges_and_empty_nodes(file: Write) -> None:
    path = file("a.conllu", CONLLU)
    expected = [(1, row("Do n't go .", "AUX PART VERB PUNCT")), (12, row("Yes", "INTJ"))]
    assert read(read_conllu, path) == (expected, [])
    assert read(read_conllu, path, tags="XPOS")[0][0][1]["tags"] == ["VB", "RB", "VB", "."]
    assert read(read_conllu, path, tags="feats")[0][1] == (12, row("Yes"))
    with pytest.raises(UsageError, match="no column 'pos'; give --columns tags= one of id, form"):
        read(read_conllu, path, tags="pos")


def test_a_word_of_conllu_with_other_columns_costs_its_sentence(file: Write) -> None:
    path = file("a.conllu", "1\tx\tX\n\n" + CONLLU)
    rows, bad = read(read_conllu, path)
    assert (len(rows), bad) == (2, [(1, "a word has not 10 columns")])


def test_segmented_words_become_characters(file: Write) -> None:
    path = file("a.utf8", "共同  创造  的  新世纪  \n\n２１  岁\n")
    assert read(read_segmented, path) == (
        [
            (1, row("共 同 创 造 的 新 世 纪", "B E B E S B I E")),
            (3, row("２ １ 岁", "B E S")),
        ],
        [],
    )
    with pytest.raises(UsageError, match="holds words only"):
        read(read_segmented, path, tags="pos")


def test_kinds_of_words_are_left_out_unless_they_are_asked_for(file: Write) -> None:
    path = file(
        "a.txt", "中共中央/nt  总/b  //w\n" * 60 + "[人民/n  报/n]nt  好\n[人民/n  报/n]nt\n"
    )
    rows, bad = read(read_segmented, path)
    assert rows[0] == (1, row("中 共 中 央 总 /", "B I I E S S"))
    assert rows[-1] == (62, row("人 民 报", "B E S"))
    assert bad == [(61, "'好' has no /tag")]
    rows, _ = read(read_segmented, path, tags="pos")
    assert rows[0][1]["tags"] == ["B-nt", "I-nt", "I-nt", "E-nt", "S-b", "S-w"]


@given(st.lists(st.text("字词句ab１", min_size=1, max_size=7), min_size=1, max_size=9))
def test_words_can_be_put_together_again(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    path = tmp_path_factory.mktemp("words") / "a.txt"
    path.write_text("  ".join(words) + "\n", encoding="utf-8")
    [(_, found)] = read_segmented(path, Quarantine(), {})
    ends = [at for at, tag in enumerate(found["tags"], start=1) if tag in "ES"]
    begins = [0, *ends[:-1]]
    chars = found["tokens"]
    assert ["".join(chars[begin:end]) for begin, end in zip(begins, ends, strict=True)] == words


@pytest.mark.parametrize(
    ("content", "is_strict", "is_loose"),
    [
        ("EU B-ORG\nis O\n\nyes O", True, True),
        ("EU\tNNP\tB-ORG\n\nx\tNN\tO", True, True),
        ("EU NNP\nis VBZ\n\nyes UH", False, True),
        ("EU B-ORG\nis O", False, True),  # one sentence alone might be anything
        ("EU NNP\nis VBZ", False, False),
        ("EU O\n\nis O", False, True),
        ("one\ntwo\n\nthree", False, True),
        ("张 B-PER\n  O\n三 O\n\n  O\n四 O", True, True),
        ("one\ntwo\nthree", False, False),
        ("a text\t1\n\nanother text\t0", False, False),
        ("text one\n\ntext two words", False, False),
        ("", False, False),
    ],
)
def test_conll_is_told_strictly_unless_tags_are_asked_for(
    content: str, is_strict: bool, is_loose: bool
) -> None:
    assert is_conll(content.split("\n"), any_tags=False) == is_strict
    assert is_conll(content.split("\n"), any_tags=True) == is_loose


def test_conllu_and_segmented_words_are_told_from_prose() -> None:
    assert is_conllu(CONLLU.split("\n"))
    assert not is_conllu(CONLL2003.split("\n"))
    assert not is_conllu(["", "# comment"])
    assert is_segmented(["共同  创造  ", "", "一"])
    assert not is_segmented(["A text.  And a second sentence", "共同  创造"])
    assert not is_segmented(["一", "二"])
    assert has_word_tags(["共同/d  创造/v", "/w/w"])
    assert not has_word_tags(["共同/d  创造"])
