"""Findings: sentences that say what, how often, where and what to do."""

from bertworks.evaluation.findings import Finding, Places, joined, named, rows_of, worst_first


def places(*rows: tuple[str, int]) -> Places:
    """Count rows."""
    found = Places()
    for part, line in rows:
        found.add(part, line)
    return found


def test_places_name_the_first_lines_of_each_file() -> None:
    assert str(places(("a", 3), ("a", 7), ("b", 2))) == "a lines 3, 7; b line 2"
    many = places(*(("a", line) for line in range(1, 9)))
    assert (many.count, str(many)) == (8, "a lines 1, 2, 3, 4, 5, …")


def test_of_several_things_one_row_each_is_named_and_all_are_counted() -> None:
    whole = joined([places(("a", 3), ("a", 7)), places(("b", 2))])
    assert (whole.count, str(whole)) == (3, "a line 3; b line 2, …")


def test_a_finding_is_one_sentence_with_places_and_remedy() -> None:
    finding = Finding(
        severity="warning",
        check="odd rows",
        said="1 row is odd",
        remedy="mend it",
        places=places(("a", 3)),
    )
    assert str(finding) == "1 row is odd (a line 3); mend it"
    assert str(Finding(severity="note", check="size", said="it is small")) == "it is small"
    told = finding.as_json()
    assert (told["rows"], told["first"]) == (1, [{"file": "a", "line": 3}])
    assert told["like"] == []


def test_places_are_shown_beside_what_they_are_like() -> None:
    found = places(("b", 1), ("b", 2))
    like = (("a", 7), ("a", 8))
    copies = Finding(severity="note", check="copies", said="2 rows", places=found, like=like)
    assert copies.shown_places() == [("b", 1), ("a", 7), ("b", 2), ("a", 8)]
    alone = Finding(severity="note", check="odd", said="2 rows", places=found)
    assert alone.shown_places() == [("b", 1), ("b", 2)]


def test_the_worst_comes_first_and_else_the_order_stays() -> None:
    made = [Finding(severity=s, check=str(n), said="") for n, s in enumerate(["note", "warning"])]
    made += [Finding(severity=s, check=str(n), said="") for n, s in enumerate(["note", "error"], 2)]
    assert [finding.check for finding in worst_first(made)] == ["3", "1", "0", "2"]


def test_counts_and_names_are_words() -> None:
    assert (rows_of(1), rows_of(1234), rows_of(0, "text")) == ("1 row", "1,234 rows", "0 texts")
    assert (named("abc"), named("abcdefg")) == ("a, b, c", "a, b, c, d, e, …")
