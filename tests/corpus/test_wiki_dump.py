"""Articles come out of a MediaWiki dump one by one, and a broken page costs only itself."""

import bz2
import tracemalloc
from pathlib import Path

import pytest

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.corpus import wiki_dump
from bertworks.corpus.document import Document
from bertworks.corpus.wiki_dump import Page, read_pages

HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="de">
  <siteinfo>
    <sitename>Probe</sitename>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="10" case="first-letter">Vorlage</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
FOOTER = "</mediawiki>\n"
SECOND_PAGE = 21  # the line on which it begins, when the first has one line of text


def page(title: str, text: str, *, ns: int = 0, extra: str = "", model: str = "wikitext") -> str:
    return (
        f"  <page>\n    <title>{title}</title>\n    <ns>{ns}</ns>\n    <id>7</id>\n{extra}"
        f"    <revision>\n      <id>70</id>\n      <model>{model}</model>\n"
        f'      <text bytes="9" xml:space="preserve">{text}</text>\n'
        "    </revision>\n  </page>\n"
    )


def read(tmp_path: Path, dump: str | bytes) -> tuple[list[Page], list[tuple[int, str]]]:
    file = tmp_path / "dump.xml"
    file.write_bytes(dump if isinstance(dump, bytes) else dump.encode())
    quarantine = Quarantine()
    pages = list(read_pages(file, quarantine))
    return pages, [(row.line, row.reason) for row in quarantine.rows]


def test_an_article_has_its_title_its_text_and_the_names_of_its_wiki(tmp_path: Path) -> None:
    dump = HEADER + page("A &amp; B", "''one'' &lt;ref&gt;\n\nzwei 三 &#233;") + FOOTER
    assert read(tmp_path, dump) == (
        [Page("A & B", "''one'' <ref>\n\nzwei 三 é", frozenset({"datei", "kategorie"}))],
        [],
    )


def test_a_page_without_its_markup_is_a_document() -> None:
    page = Page(
        "A", "[[Datei:a.png|mini]]\n''eins'' [[zwei]]\n\n* drei\n\n四", frozenset({"datei"})
    )
    assert page.plain() == Document(("eins zwei", "四"))
    assert page.num_bytes == len(page.wikitext) + 2
    assert Page("B", "{{only}}\n* a list", frozenset()).plain() == Document(())


def test_only_articles_are_taken(tmp_path: Path) -> None:
    dump = HEADER + FOOTER.join(
        [
            page("Article", "kept")
            + page("Talk:Article", "talk", ns=1)
            + page("Old name", "#REDIRECT [[x]]", extra='    <redirect title="Article" />\n')
            + page("Data", "{}", model="json")
            + page("Empty", " \n ")
            + page("Last", "kept too"),
            "",
        ]
    )
    pages, bad = read(tmp_path, dump)
    assert [found.title for found in pages] == ["Article", "Last"]
    assert bad == []


def test_the_last_revision_counts_and_other_slots_do_not(tmp_path: Path) -> None:
    revisions = "".join(
        f"<revision><model>wikitext</model><text>{text}</text>"
        "<content><role>data</role><model>json</model><text>{}</text></content></revision>"
        for text in ("old", "new")
    )
    dump = f"{HEADER}<page><title>A</title><ns>0</ns>{revisions}</page>{FOOTER}"
    assert [found.wikitext for found in read(tmp_path, dump)[0]] == ["new"]


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 18])
def test_pages_do_not_depend_on_where_reading_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(wiki_dump, "CHUNK_BYTES", chunk)
    dump = HEADER + page("A", "one") + page("B", "t\x01o") + page("C", "three 三") + FOOTER
    pages, bad = read(tmp_path, dump)
    assert [(found.title, found.wikitext) for found in pages] == [("A", "one"), ("C", "three 三")]
    assert [number for number, _ in bad] == [SECOND_PAGE]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (page("B", "<open>"), "not XML: mismatched tag"),
        (page("B", "&undefined;"), "not XML: undefined entity"),
        (page("B", "&#0;"), "not XML: reference to invalid character"),
        (page("B", "n\0l"), "not XML: not well-formed"),
        (page("B", '<!DOCTYPE a [<!ENTITY b "c">]>'), "not XML: not well-formed"),
        (page("B", "<a>" * 30 + "</a>" * 30), "not XML: more than 8 elements inside one another"),
        (page("B", "torn").split("</text>")[0], "a page that breaks off before its </page>"),
        ("  </page>\n", "a </page> without its <page>"),
    ],
)
def test_a_broken_page_is_set_aside_and_the_next_is_read(
    tmp_path: Path, broken: str, reason: str
) -> None:
    dump = HEADER + page("A", "one") + broken + page("C", "three") + FOOTER
    pages, bad = read(tmp_path, dump)
    assert [found.title for found in pages] == ["A", "C"]
    assert len(bad) == 1
    assert bad[0][1].startswith(reason)
    assert bad[0][0] in (SECOND_PAGE - 1, SECOND_PAGE)


def test_text_that_is_no_utf8_costs_its_page(tmp_path: Path) -> None:
    dump = (HEADER + page("A", "one") + page("B", "XX") + page("C", "three") + FOOTER).encode()
    pages, bad = read(tmp_path, dump.replace(b"XX", b"b\xffd"))
    assert [found.title for found in pages] == ["A", "C"]
    assert [number for number, _ in bad] == [SECOND_PAGE]


def test_a_dump_that_breaks_off_says_so(tmp_path: Path) -> None:
    whole = HEADER + page("A", "one") + page("B", "two") + FOOTER
    for end, titles, reason in (
        (whole.index("two"), ["A"], "a page that breaks off before its </page>"),
        (whole.index(FOOTER), ["A", "B"], "the dump breaks off before its </mediawiki>"),
    ):
        pages, bad = read(tmp_path, whole[:end])
        assert [found.title for found in pages] == titles
        assert [found for _, found in bad] == [reason]


def test_a_torn_compressed_dump_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "dump.xml.bz2"
    text = "".join(page(f"A{n}", f"text {n * n}") for n in range(300))
    whole = bz2.compress((HEADER + text + FOOTER).encode())
    file.write_bytes(whole)
    assert len(list(read_pages(file, Quarantine()))) == 300
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"dump\.xml\.bz2 cannot be read after line \d+: "):
        list(read_pages(file, Quarantine()))


@pytest.mark.parametrize("header", ["", "<feed><title>news</title>", "plain text\n" * 99])
def test_what_is_no_dump_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(DataError, match=r"dump\.xml is no MediaWiki dump"):
        read(tmp_path, header + page("A", "one"))


def test_a_document_type_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE mediawiki [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n'
    with pytest.raises(DataError, match="declares a document type, which no MediaWiki dump does"):
        read(tmp_path, bomb + HEADER + page("A", "&b;") + FOOTER)


def test_a_huge_page_is_set_aside_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiki_dump, "LONGEST_DOCUMENT", 100_000)
    monkeypatch.setattr(wiki_dump, "CHUNK_BYTES", 10_000)
    huge = page("B", "a line of a huge page\n" * 200_000)
    (tmp_path / "dump.xml").write_text(HEADER + page("A", "one") + huge + page("C", "<x") + FOOTER)
    quarantine = Quarantine()
    tracemalloc.start()
    pages = list(read_pages(tmp_path / "dump.xml", quarantine))
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [found.title for found in pages] == ["A"]
    assert quarantine.rows[0].reason == "a page longer than 100,000 bytes"
    assert [row.line for row in quarantine.rows] == [SECOND_PAGE, SECOND_PAGE + 200_010]
    assert held < 1_000_000
