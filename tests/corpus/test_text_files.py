"""Text files hold documents between blank lines, one document, or articles of wiki-extractor."""

import tracemalloc
from pathlib import Path

import pytest

from bertworks.core.quarantine import Quarantine
from bertworks.corpus import text_files
from bertworks.corpus.text_files import read_articles, read_text

EXTRACT = """<doc id="12" url="https://example.org/wiki?curid=12" title="Rock &amp; roll">
Rock &amp; roll

Rock &amp; roll is music.

It has a beat.
</doc>
<doc id="13" url="https://example.org/wiki?curid=13" title="空">
空

</doc>
<doc id="14" url="https://example.org/wiki?curid=14" title="Echo">
Echo

An echo comes back.
Echo
</doc>
"""


def write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    return tmp_path / "a.txt"


def test_blank_lines_part_documents(tmp_path: Path) -> None:
    file = write(tmp_path, "\n\nfirst line\n  second line \n\n \t \n第三\r\n\r\nlast")
    documents = [document.paragraphs for document in read_text(file, Quarantine())]
    assert documents == [("first line", "second line"), ("第三",), ("last",)]


def test_a_whole_file_is_one_document(tmp_path: Path) -> None:
    file = write(tmp_path, "\nfirst line\n\nsecond line\n\n\n第三\n")
    documents = [document.paragraphs for document in read_text(file, Quarantine(), is_whole=True)]
    assert documents == [("first line", "second line", "第三")]


def test_an_empty_file_holds_no_document(tmp_path: Path) -> None:
    file = write(tmp_path, "\n \n")
    assert not list(read_text(file, Quarantine()))
    assert not list(read_text(file, Quarantine(), is_whole=True))


def test_articles_lose_their_titles_and_empty_ones_vanish(tmp_path: Path) -> None:
    quarantine = Quarantine()
    file = write(tmp_path, EXTRACT)
    found = [document.paragraphs for document in read_articles(file, quarantine)]
    assert found == [
        ("Rock & roll is music.", "It has a beat."),
        ("An echo comes back.", "Echo"),
    ]
    assert quarantine.num_bad == 0


def test_an_article_without_its_end_ends_where_the_next_begins(tmp_path: Path) -> None:
    text = '<doc id="1" title="A">\nA\none\n<doc id="2" title="B">\nB\ntwo\n'
    found = [document.paragraphs for document in read_articles(write(tmp_path, text), Quarantine())]
    assert found == [("one",), ("two",)]


def test_bad_lines_of_an_article_are_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "wiki_00"
    file.write_bytes(b'<doc id="1" title="A">\nA\none\nb\xffd\ntwo\n</doc>\n')
    quarantine = Quarantine()
    assert [document.paragraphs for document in read_articles(file, quarantine)] == [("one", "two")]
    assert [(row.line, row.reason) for row in quarantine.rows] == [(4, "not UTF-8 at byte 1")]


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_document_that_never_ends_is_never_held_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    monkeypatch.setattr(text_files, "LONGEST_DOCUMENT", 100_000)
    lines = [f"line {n} of an endless text without a blank line" for n in range(30_001)]
    file = write(tmp_path, "\n".join(lines))
    tracemalloc.start()
    seen = [
        len(document.paragraphs) for document in read_text(file, Quarantine(), is_whole=is_whole)
    ]
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(seen) == len(lines)
    assert len(seen) > 10
    assert held < 1_500_000
