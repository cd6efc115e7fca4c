"""Wikitext becomes the prose of an article, whatever the markup, and in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.corpus.wikitext import DEEPEST, plain_text

ARTICLE = """{{Short description|River in a made-up land}}
{{Infobox river
| name = Ald
| length = {{convert|12|km}}
| image = [[File:Ald.jpg|frameless]]
|}}
[[File:Ald at dusk.jpg|thumb|left|The [[river]] Ald, {{circa|1900}}]]
The '''Ald''' ({{IPA|/ald/}}; {{lang-de|Alde}}) is a [[river]] in [[North|Northland]].<ref
name="a">{{cite book|title=Atlas}}</ref> It is 12&nbsp;km [https://a.org long].<ref name="a" />

== Course ==
<!-- {{ to be written -->
It rises in the hills,<br/>and ends in the ''sea''.
* a list item
# another
; a term
: An indented remark.
{| class="wikitable"
|-
! head !! head
|-
| cell || {{cell}}
{|
| a table in a table
|}
|}
----
Its speed is <math>v = \\frac{{s}}{t}}</math> at best; write <nowiki>[[Ald]]</nowiki> to link.

== References ==
{{Reflist}}
[[Category:Rivers]]
[[de:Alde]]
__NOTOC__
"""


def test_an_article_becomes_its_prose() -> None:
    assert plain_text(ARTICLE).split("\n") == [
        "The Ald (Alde) is a river in Northland. It is 12\xa0km long.",
        "It rises in the hills,",
        "and ends in the sea.",
        "An indented remark.",
        "Its speed is at best; write [[Ald]] to link.",
    ]


def test_plain_text_stays_as_it_is() -> None:
    text = "A sentence, with (brackets), 5 < 7 and O'Neill's {braces}.\n第二段：没有标记。"
    assert plain_text(text) == text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("a [[link]]ed word", "a linked word"),
        ("[[target|label]]s", "labels"),
        ("[[a#b|c|d]]", "c|d"),
        ("[[:Category:Rivers]] is shown", "Category:Rivers is shown"),
        ("x [[Image:a.png|thumb|see [[b|c]] and [http://d e]]] y", "x y"),
        ("x [[文件:图.png|缩略图|说明]] 字 [[分类:河流]]", "x 字"),
        ("x [[Datei:a.png|mini]] y", "x y"),
        ("x [[fr:Fleuve]] y", "x y"),
        ("x [[fr:Fleuve|fleuve]] y", "x fleuve y"),
        ("[[Re:Zero]] stays", "Re:Zero stays"),
        ("[http://a.b/c?d=e the label], [http://a.b], [//a.b x]", "the label,, x"),
        ("see http://a.b/c", "see http://a.b/c"),
        ("an unclosed [[link", "an unclosed link"),
        ("closed]] only", "closed only"),
    ],
)
def test_links_become_what_a_reader_sees(wikitext: str, text: str) -> None:
    assert plain_text(wikitext, media=frozenset({"datei"})) == text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("a {{b|{{c}}|d={{e|{{f}}}}}} g", "a g"),
        ("a {{b|}} c {{{1|}}} d", "a c d"),
        ("a {{b|{c}}} d", "a d"),
        ("a {{{{b}}|c}} d", "a d"),
        ("the word {{lang|fr|mot juste}} here", "the word mot juste here"),
        ("{{Lang-fr|mot}} and {{nowrap|12 km}}", "mot and 12 km"),
        ("{{lang|fr}} x", "x"),
        ("{{nowrap|a [[b|c]] {{d}}}} e", "a c e"),
        ("a {{unclosed b", "a unclosed b"),
        ("a }} b", "a b"),
        ("a {{b|[[c}} d", "a d"),
    ],
)
def test_templates_are_left_out_but_for_those_that_only_dress(wikitext: str, text: str) -> None:
    assert plain_text(wikitext) == text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("x<ref>a</ref> y<ref name=b/> z<REF>c</REF >.", "x y z."),
        ("x<!-- a\n{{b -->y", "xy"),
        ("x <ref>never closed, y", "x never closed, y"),
        ("a <b>bold</b> <span class='x'>span</span>", "a bold span"),
        ("<gallery>\nFile:a.jpg|b\n</gallery>c", "c"),
        ("<syntaxhighlight lang=c>if (a<b) {{}}</syntaxhighlight>d", "d"),
        ("the <code>main</code> function", "the main function"),
        ("<nowiki>* ''not'' a {{list}}</nowiki>", "* ''not'' a {{list}}"),
        ("&lt;b&gt; &amp;amp; caf&eacute; &#x5B57;", "<b> &amp; café 字"),
        ("'''''both''''' ''i'' '''b''' l''''amour'''", "both i b l'amour"),
    ],
)
def test_elements_quotes_and_entities_are_resolved(wikitext: str, text: str) -> None:
    assert plain_text(wikitext) == text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("-{zh-hant:電腦; zh-hans:计算机;}-网络", "计算机网络"),
        ("-{zh-tw:軟體;zh-hk:軟件}-", "軟體"),
        ("-{不转换}-的词", "不转换的词"),
        ("-{T|zh-hans:标题;zh-hant:標題}-正文", "正文"),
        ("-{A|zh-hans:软件;zh-hant:軟體}-正文", "软件正文"),
        ("一-{zh-hans:{{lang|en|PC}}}-二", "一PC二"),
        ("range 5-{{x}}7 and a -{ b", "range 5-7 and a b"),
    ],
)
def test_chinese_variants_are_chosen(wikitext: str, text: str) -> None:
    assert plain_text(wikitext) == text


def test_brackets_that_lost_their_content_go_too() -> None:
    assert plain_text("Ald ({{a}}; {{b}}, river) and ({{c}}, {{d}}) .") == "Ald (river) and."
    assert plain_text("阿尔德（{{a}}；河流，{{b}}）是河（{{c}}）。") == "阿尔德（河流）是河。"


def test_marks_too_deep_inside_one_another_are_left_out() -> None:
    deep = DEEPEST + 5
    assert plain_text("a " + "[[x|" * deep + "b" + "]]" * deep + " c") == "a c"
    assert plain_text("a " + "[[x|" * 5 + "b" + "]]" * 5 + " c") == "a b c"


@given(st.text(st.sampled_from("{}[]|<>'/!-ref:;*#= \nab中&"), max_size=300))
def test_any_markup_gives_some_text_without_blank_lines(wikitext: str) -> None:
    lines = plain_text(wikitext).split("\n")
    assert lines == [""] or all(line.strip() == line != "" for line in lines)


@pytest.mark.parametrize(
    "mark",
    [
        *("{{", "[[", "}}", "<ref>", "<!--", "<a ", "[http://a ", "{|\n", "-{", "'", "(,", " "),
        *("{{lang|a|", "[[a|", "zh:", "&#", "__A", "<br", "|}\n", "\n:"),
    ],
)
def test_a_bomb_comes_out_no_longer_than_it_went_in(mark: str) -> None:
    """In quadratic time this would not end."""
    bomb = mark * (400_000 // len(mark))
    assert len(plain_text(bomb)) <= len(bomb)
