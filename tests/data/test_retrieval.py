"""Retrieval sets: both layouts, whole and broken."""

import gzip
import json
from pathlib import Path

import pytest

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.data.retrieval import RetrievalSet, read_retrieval_set

CRANFIELD = Path(__file__).parents[3] / "shared" / "data" / "retrieval" / "cranfield"
QUERIES = [{"id": "q1", "text": "wing"}, {"id": "q2", "text": "heat"}]
DOCUMENTS = [{"id": n, "text": f"about {n}"} for n in range(12)] + [{"id": "none", "text": ""}]
JUDGEMENTS = ["query\tdocument\tgrade", "q1\t3\t2", "q1\t4\t0", "q2\tnone\t0"]
SMART = {
    "my.qry": ".I 001\n.W\nwhat is\n a wing .\n.I 004\n.W\nheat\n",
    "my.all": (
        ".I 1\n.T\ntitle\n.A\nsomeone\n.W\ntitle\n  the wing of\na plane .\n"
        ".I 2\n.T\n.W\n.I 10\n.T\nx\n.W\nheat .5 is\n"
    ),
    "myqrel": "1 1 1\n1 2 4 \n2 10 -1\n2 1 3",
}


@pytest.fixture
def ours(tmp_path):
    """Write a small set in our layout."""

    def write(queries=QUERIES, documents=DOCUMENTS, judgements=JUDGEMENTS) -> Path:
        for name, rows in (("queries", queries), ("documents", documents)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{name}.jsonl").write_text(lines)
        (tmp_path / "judgements.tsv").write_text("\n".join(judgements) + "\n")
        return tmp_path

    return write


def read(folder: Path) -> tuple[RetrievalSet, Quarantine]:
    quarantine = Quarantine()
    return read_retrieval_set(folder, quarantine), quarantine


def test_our_layout_is_two_files_of_texts_and_one_of_grades(ours) -> None:
    found, quarantine = read(ours())
    assert found.queries == {"q1": "wing", "q2": "heat"}
    assert len(found.documents) == 13
    assert found.documents["none"] == ""
    assert found.grades == {"q1": {"3": 2.0, "4": 0.0}, "q2": {"none": 0.0}}
    assert found.judged == ["q1"]  # nothing answers the other
    assert quarantine.num_bad == 0


def test_files_may_be_compressed(ours) -> None:
    folder = ours()
    plain = folder / "documents.jsonl"
    with gzip.open(folder / "documents.jsonl.gz", "wb") as file:
        file.write(plain.read_bytes())
    plain.unlink()
    assert len(read(folder)[0].documents) == 13


def test_smart_files_name_queries_by_their_place_and_grade_backwards(tmp_path) -> None:
    for name, text in SMART.items():
        (tmp_path / name).write_text(text)
    found, quarantine = read(tmp_path)
    assert found.queries == {"1": "what is a wing .", "2": "heat"}
    assert found.documents == {"1": "title the wing of a plane .", "2": "", "10": "heat .5 is"}
    assert found.grades == {"1": {"1": 4, "2": 1}, "2": {"10": 0, "1": 2}}
    assert quarantine.num_bad == 0


def test_rows_that_cannot_be_used_are_set_aside(ours) -> None:
    bad_judgements = ["q9\t3\t1", "q1\tx\t1", "q1\t3\tgood", "q1\t3\t-1"]
    more = [f"m{n}" for n in range(60)]
    folder = ours(
        queries=[
            *QUERIES,
            {"id": "q1", "text": "again"},
            {"id": "q3", "text": " "},
            *({"id": name, "text": "more"} for name in more),
        ],
        judgements=[*JUDGEMENTS, *bad_judgements, *(f"{name}\t3\t1" for name in more)],
    )
    found, quarantine = read(folder)
    reasons = [row.reason for row in quarantine.rows]
    assert len(reasons) == 6
    for said in ("'q1' is missing, or was there before", "'text' is empty", "no query 'q9'"):
        assert any(said in reason for reason in reasons)
    for said in ("no document 'x'", "'good'", "the grade is -1.0"):
        assert any(said in reason for reason in reasons)
    assert found.grades["q1"]["3"] == 2.0


def test_many_documents_do_not_hide_that_judgements_are_bad(ours) -> None:
    documents = [{"id": n, "text": "t"} for n in range(500)]
    for judgements, said in (
        (["q1\t3\t1", "q1\t4\t2"], r"2 of 2 rows .* no column 'query' \(found 1, 2, 3\)"),
        (["query,document,grade", "q1,3,1"], "no column 'query'"),
        ([*JUDGEMENTS[:2], *(f"x{n}\t3\t1" for n in range(9))], "9 of 10 rows .* no query 'x0'"),
    ):
        with pytest.raises(DataError, match=said):
            read(ours(documents=documents, judgements=judgements))


@pytest.mark.parametrize("row", ["q1\t3\t1", "q1\t5\tinf", "q1\t5\tnan"])
def test_a_grade_that_is_given_twice_or_has_no_end_is_set_aside(ours, row: str) -> None:
    same = ["q1\t3\t2"] * 20  # said again, but not changed
    found, quarantine = read(ours(judgements=[*JUDGEMENTS, *same, row]))
    assert quarantine.num_bad == 1
    assert found.grades["q1"] == {"3": 2.0, "4": 0.0}


def test_a_smart_document_that_is_there_twice_is_set_aside(tmp_path) -> None:
    more = "".join(f".I {n}\n.W\nfiller {n}\n" for n in range(20, 60))
    texts = SMART | {"my.all": SMART["my.all"] + more + ".I 1\n.W\nanother\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found, quarantine = read(tmp_path)
    assert found.documents["1"] == "title the wing of a plane ."
    assert quarantine.num_bad == 1


def test_what_is_no_retrieval_set_is_one_sentence(ours, tmp_path) -> None:
    with pytest.raises(DataError, match=r"holds no retrieval set.*queries\.jsonl"):
        read(tmp_path)
    folder = ours(judgements=["query\tdocument\tgrade", "q1\t3\t0"])
    with pytest.raises(DataError, match="no document answers any query"):
        read(folder)
    (folder / "documents.jsonl").unlink()
    with pytest.raises(DataError, match=r"has no documents\.jsonl"):
        read(folder)


@pytest.mark.skipif(not CRANFIELD.is_dir(), reason="the Cranfield collection is not here")
def test_cranfield_is_read_whole() -> None:
    found, quarantine = read(CRANFIELD)
    sizes = (len(found.queries), len(found.documents), sum(map(len, found.grades.values())))
    assert sizes == (225, 1400, 1837)
    assert (len(found.judged), quarantine.num_bad) == (225, 0)
