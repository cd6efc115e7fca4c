"""The page about labelled data: findings in order, with the rows concerned."""

from bertworks.data.examples import QuestionExample, TaggedExample, TextExample
from bertworks.evaluation.check_report import check_page, shown, summary
from bertworks.evaluation.findings import Finding, Places

WARNING = Finding(
    severity="warning",
    check="odd rows",
    said="1 row is odd",
    remedy="mend it",
    places=Places(1, [("a", 3)]),
)
NOTE = Finding(severity="note", check="counts", said="3 rows", details=({"label": "<x>", "n": 3},))
FILES = [{"file": "a", "examples": 1234, "bad_rows": 0}]


def test_the_page_shows_findings_rows_and_tables() -> None:
    page = check_page([WARNING, NOTE], FILES, {("a", 3): "A cat."}, command="bertworks check a")
    assert "No errors; 1 warning to look at." in page
    assert page.index("Warnings") < page.index("Notes") < page.index("Odd rows")
    for words in ("1,234", "bad rows", "mend it", "A cat.", "&lt;x&gt;", "bertworks check a"):
        assert words in page


def test_the_summary_says_whether_training_may_begin() -> None:
    error = Finding(severity="error", check="no rows", said="a holds no rows")
    assert summary([error, WARNING]) == "1 error to mend before training."
    assert summary([NOTE]) == "Nothing to worry about was found."


def test_a_row_is_shown_shortened_and_with_its_label() -> None:
    assert shown(TextExample("A cat.", "A dog.", "same")) == "A cat. ‖ A dog. → same"
    tagged = TaggedExample("fly to Rome", intent="flight")
    assert shown(tagged) == "fly to Rome → flight"
    long = shown(QuestionExample("Who?", "x" * 1000))
    assert len(long) == 200
    assert long.endswith("x…")
