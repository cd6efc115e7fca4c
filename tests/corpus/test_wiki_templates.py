"""Templates inside a sentence leave what a reader sees, and all others nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.corpus.wiki_templates import _RENDERERS, _SIGNS, _TEXT_AT, template_text
from bertworks.corpus.wikitext import plain_text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("lang|fr|mot juste", "mot juste"),
        ("Langx|fr|mot|italic=no", "mot"),
        ("lang-zh-hant|字", "字"),
        ("link-en|约翰|John", "约翰"),
        ("le|约翰|John", "约翰"),
        ("tsl|en|Mary", "Mary"),
        ("tsl|en|Mary||玛丽", "玛丽"),
        ("ill|Someone|de|Jemand", "Someone"),
        ("nihongo|Tokyo|東京|Tōkyō", "Tokyo"),
        ("Visible_anchor|term", "term"),
        ("abbr|1=e.g.|2=for example", "e.g."),
        ("formatnum:120000", "120000"),
        ("val|25|ul=degC", "25"),
    ],
)
def test_a_dressed_text_is_undressed(content: str, text: str) -> None:
    assert template_text(content) == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("convert|12|km", "12 km"),
        ("convert|1,200|km2|sqmi|abbr=on", "1,200 km²"),
        ("cvt|30|C|F", "30 °C"),
        ("convert|5|to|10|km|mi", "5 to 10 km"),
        ("convert|2|-|3.5|m", "2–3.5 m"),
        ("convert|5|ft|6|in|m", "5 ft 6 in"),
        ("convert|10|x|20|m", "10 × 20 m"),
        ("convert", ""),
        ("convert|abbr=on", ""),
        ("circa|1432", "c. 1432"),
        ("circa|1432|1450", "c. 1432 – c. 1450"),
        ("as of|2020|5", "As of 2020"),
        ("As of|2020|lc=y", "as of 2020"),
        ("frac|2", "1/2"),
        ("frac|3|4", "3/4"),
        ("frac|1|3|4", "1 3/4"),
        ("frac|a=b", ""),
        ("snd", " – "),
        ("!", "|"),
    ],
)
def test_measures_dates_and_signs_are_written_out(content: str, text: str) -> None:
    assert template_text(content) == text


@pytest.mark.parametrize("content", ["Infobox|a=b", "citation needed|date=May", "IPA|/a/", "", "|"])
def test_of_all_other_templates_nothing_is_left(content: str) -> None:
    assert template_text(content) == ""


def test_a_quotation_is_a_paragraph() -> None:
    assert plain_text("He said: {{quote|Go on.|He}} They went.") == "He said:\nGo on.\nThey went."
    assert plain_text("{{quote|text=A {{=}} b.|author=C}}") == "A = b."


def test_sentences_keep_their_numbers_and_names() -> None:
    english = "It has {{convert|120|km|mi}} of coast{{snd}}more than {{ill|Ald|de}}{{'s}}."
    assert plain_text(english) == "It has 120 km of coast – more than Ald's."
    chinese = "人口约{{formatnum:120000}}人，面积{{convert|12|km2}}，{{le|约翰|John}}曾到此。"
    assert plain_text(chinese) == "人口约120000人，面积12 km²，约翰曾到此。"


@given(
    st.sampled_from([*_RENDERERS, *_SIGNS, *_TEXT_AT, "lang-de", "x"]),
    st.text(st.sampled_from("|=12ab -\n/to"), max_size=20),
)
def test_any_arguments_give_some_text_no_longer_than_the_template(name: str, rest: str) -> None:
    assert len(template_text(f"{name}|{rest}")) <= len(f"{{{{{name}|{rest}}}}}") + 3
    assert len(template_text(name + rest)) <= len(name + rest) + 3
