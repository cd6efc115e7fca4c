"""A look at sources and targets before a network learns to write."""

import pytest

from bertworks.data.examples import SourceExample, TextExample
from bertworks.evaluation.data_check import look, make_checks
from bertworks.evaluation.findings import Finding
from bertworks.evaluation.target_checks import TargetCheck, TargetPieceCheck, folded_warning
from bertworks.tokenizer.learn import learn_wordpiece

SENTENCES = [f"number {n} of a few words" for n in range(30)]
USUAL = [
    SourceExample(text, (f"Zahl {n} von ein paar Worten",), line=n + 1)
    for n, text in enumerate(SENTENCES)
]


def found(check: TargetCheck | TargetPieceCheck, *examples: object) -> dict[str, Finding]:
    for example in examples:
        check.add("a.tsv", example)
    return {finding.check: finding for finding in check.findings()}


def test_a_usual_file_has_nothing_but_its_ratio() -> None:
    (only,) = found(TargetCheck(), *USUAL).values()
    assert (only.severity, only.check) == ("note", "length of target to source")
    assert "1.12 in a.tsv" in only.said


def test_a_target_that_is_its_source_is_named_with_its_line() -> None:
    copy = SourceExample("the  same", ("other", "the same "), line=31)
    finding = found(TargetCheck(), *USUAL, copy)["target is its source"]
    assert str(finding).startswith("1 row of a.tsv is the same on both sides (a.tsv line 31)")
    assert finding.severity == "warning"


@pytest.mark.parametrize("target", ["Zahl", "Zahl von vielen Worten, " * 8])
def test_a_target_of_another_length_than_is_usual_is_named(target: str) -> None:
    odd = SourceExample("number 31 of a few words", (target,), line=31)
    assert found(TargetCheck(), *USUAL, odd)["odd lengths"].places.first == [("a.tsv", 31)]
    assert "odd lengths" not in found(TargetCheck(), *USUAL[:5], odd)  # too few to tell


def test_where_lengths_differ_much_anyway_only_the_farthest_are_odd() -> None:
    mixed = [SourceExample("word " * 20, ("w" * (5 * n + 40),), line=n) for n in range(40)]
    assert "odd lengths" not in found(TargetCheck(), *mixed)


def test_other_examples_and_those_without_a_target_are_not_looked_at() -> None:
    assert found(TargetCheck(), TextExample("a", label="b"), SourceExample("a")) == {}


@pytest.fixture(scope="module")
def tokenizer():
    """Learn a vocabulary of the sources alone."""
    return learn_wordpiece(lambda: SENTENCES, size=90, cased=True)


def test_sides_over_the_limit_and_unknown_pieces_are_told_apart(tokenizer) -> None:
    examples = [
        SourceExample("few words", ("a few", "Ü Ü"), line=1),
        SourceExample("words " * 9, ("few",), line=2),
        SourceExample("few", ("words " * 12,), line=3),
        SourceExample("few", line=4),
    ]
    told = found(TargetPieceCheck(tokenizer, longest=10), *examples, TextExample("a"))
    assert told["long sources"].places.first == [("a.tsv", 2)]
    assert told["long targets"].places.first == [("a.tsv", 3)]
    assert "1 target of more than 8 pieces, of which finetune" in told["long targets"].said
    assert "1 source of more than 8 pieces, more than the" in told["long sources"].said
    assert told["unknown pieces in targets"].severity == "warning"
    assert "can never be written, in 1 row" in told["unknown pieces in targets"].said
    assert "unknown pieces in sources" not in told
    assert told["sources in pieces"].details[0]["100 %"] == "9"


def test_letters_that_a_tokenizer_folds_are_said_of_targets_alone(tokenizer) -> None:
    folding = learn_wordpiece(lambda: SENTENCES, size=90, cased=False)
    examples = [
        SourceExample("Few", ("few",), line=1),
        SourceExample("few", ("few", "A few"), line=2),
        SourceExample("Few", line=3),
        SourceExample("few", ("für",), line=4),
        TextExample("A"),
    ]
    finding = found(TargetPieceCheck(folding, longest=10), *examples)["folded letters"]
    assert finding.places.first == [("a.tsv", 2), ("a.tsv", 4)]
    assert "2 rows with targets that have capital letters" in finding.said
    said = folded_warning("train.tsv", examples, folding)
    assert said is not None
    assert said.startswith("train.tsv: 2 rows with targets that have capital letters or letters w")
    assert "folded letters" not in found(TargetPieceCheck(tokenizer, longest=10), *examples)
    assert folded_warning("train.tsv", examples, tokenizer) is None


def test_the_same_source_in_two_files_is_a_leak_but_two_wordings_are_no_conflict() -> None:
    parts = {
        "train": [*USUAL, SourceExample(SENTENCES[3], ("in anderen Worten",), line=40)],
        "dev": [SourceExample(SENTENCES[3], ("wieder anders gesagt",), line=1)],
    }
    told = {finding.check: finding for finding in look(parts, make_checks())}
    assert "conflicting labels" not in told
    assert told["leak: copies"].places.first == [("dev", 1)]
    assert told["copies"].places.first == [("train", 40)]
