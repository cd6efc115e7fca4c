"""The statistics pages: every number is on them, whatever the corpus was."""

import re

from bertworks.corpus.statistics import Facts, Statistics
from bertworks.data.token_statistics import TokenStatistics
from bertworks.evaluation.corpus_report import documents_page, shards_page


def cells(html: str) -> list[list[str]]:
    """Return the rows of all tables."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]


def facts(characters: int, *, script: str = "Latin", language: str = "") -> Facts:
    return Facts(characters + 10, characters, characters, script, language, characters > 900)


def test_the_page_of_documents_shows_all_counts() -> None:
    counted = Statistics()
    for characters in (90, 500, 1000):
        counted.keep(facts(characters, language="en"))
    counted.keep(facts(2, script="Han"))
    for reason in ("near duplicate", "exact duplicate", "exact duplicate", "too <short>"):
        counted.drop(reason, facts(40), f"an example <b> of {reason}")
    html = documents_page(counted, bad_rows=3)
    rows = cells(html)
    for row in (
        ["documents read", "8"],
        ["documents kept", "4"],
        ["characters kept", "1,592"],
        ["duplicate share", "37.5%"],
        ["of them exact", "25.0%"],
        ["held out by tokenize at its default share", "1"],
        ["rows that could not be read", "3"],
        ["exact duplicate", "2", "25.0%", "0.000"],
        ["too &lt;short&gt;", "1", "12.5%", "0.000"],
        ["Latin", "3", "75.0%"],
        ["Han", "1", "25.0%"],
        ["en", "3", "100.0%"],
        ["near duplicate", "an example &lt;b&gt; of near duplicate"],
    ):
        assert row in rows
    assert html.count("<rect") == 9  # from 2 to 512 characters, empty classes between included
    assert ">512</text>" in html


def test_the_page_of_shards_shows_all_counts() -> None:
    counted = TokenStatistics(held_out_documents=2, sentences=7, unknown_tokens=3)
    for tokens, words in ((3000, 2000), (100, 50)):
        counted.add_document(tokens, num_words=words, num_unspaced=0)
    html = shards_page(counted.summary(), bad_rows=1)
    rows = cells(html)
    for row in (
        ["tokens", "3,100"],
        ["pieces a word", "1.51"],
        ["pieces a character, in text without spaces", "none"],
        ["of them held out", "2"],
        ["share of unknown tokens", "0.0968%"],
        ["50 %", "100"],
        ["all", "3,000"],
        ["rows that could not be read", "1"],
    ):
        assert row in rows
    assert ">2k</text>" in html


def test_pages_of_nothing_are_whole() -> None:
    for html in (
        documents_page(Statistics(), bad_rows=0),
        shards_page(TokenStatistics().summary(), bad_rows=0),
    ):
        assert html.startswith("<!doctype html>")
        assert html.endswith("</html>\n")
