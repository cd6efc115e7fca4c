"""Prose of any script is kept; what is none is dropped for a reason that has a name."""

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.code_points import code_points
from bertworks.core.scripts import WITHOUT_SPACES, pattern_of
from bertworks.corpus import filter as filters_module
from bertworks.corpus.filter import REASONS, RUN, Filters

ENGLISH = (
    "The river rises in the hills to the north and runs through three villages before it reaches "
    "the sea. In spring, when the snow melts, it carries more water than anyone would expect.\n"
    "People have lived on its banks for a thousand years. They fished, built mills and bridges, "
    "and told stories about the floods that their grandparents had seen.\n"
)
PROSE = {
    "English": ENGLISH,
    "Chinese": "这条河发源于北方的山丘，流经三个村庄，最后注入大海。"
    "春天积雪融化时，水量比人们预想的要大得多。\n"
    "人们在河岸上生活了一千多年，他们捕鱼、修建磨坊和桥梁。\n",
    "Japanese": "この川は北の丘に源を発し、三つの村を通って海に注いでいる。"
    "春になって雪が解けると、思いのほか水が増える。\n",
    "Thai": "แม่น้ำสายนี้มีต้นกำเนิดจากเนินเขาทางทิศเหนือและไหลผ่านหมู่บ้านสามแห่งก่อนจะถึงทะเล\n",
    "Hindi": "यह नदी उत्तर की पहाड़ियों से निकलती है और समुद्र तक पहुँचने से पहले तीन गाँवों से "
    "होकर बहती है। वसंत में जब बर्फ पिघलती है तब इसमें बहुत पानी होता है।\n",
    "Arabic": "ينبع هذا النهر من التلال في الشمال ويمر بثلاث قرى قبل أن يصل إلى البحر. "
    "وفي الربيع عندما يذوب الثلج يحمل من الماء أكثر مما يتوقعه الناس.\n",
    "German": "Der Fluss entspringt in den Hügeln im Norden und durchquert drei Dörfer, bevor er "
    "das Meer erreicht. Im Frühling sind Hochwasserschutzmaßnahmen nötig.\n",
    "Vietnamese": "Con sông này bắt nguồn từ những ngọn đồi ở phía bắc và chảy qua ba ngôi làng "
    "trước khi ra đến biển. Vào mùa xuân khi tuyết tan thì nước sông dâng lên rất cao.\n",
    "verse": "The river sings below\nand no one hears its song\nbut those who go\nat night along\n"
    "its banks and never speak\nof what they heard\n",
}


@pytest.mark.parametrize("language", PROSE)
def test_prose_of_every_script_is_kept(language: str) -> None:
    assert Filters().reason(PROSE[language]) is None


BAD = {
    "too short": "Only a few words here.",
    "few letters": ENGLISH + "( . ) , ; : ! ? - " * 60,
    "many digits": ENGLISH + "1842 77 1906 12 1871 " * 8,
    "many symbols": ENGLISH + "x += a[i] | b{j} # == <$> " * 5,
    "odd words": " ".join("thequickbrownfoxjumpsoverthelazydog"),
    "short lines": "\n".join(["Home", "About us", "Contact", "Log in", "Search here"] * 9),
    "list lines": "\n".join(f"• item number {n} of a long list" for n in range(20)),
    "cut lines": "\n".join(f"The story number {n} begins where it ends and..." for n in range(9)),
    "repeated lines": ENGLISH + "Click here to read all about our offers today.\n" * 9,
    "repeated words": "we sell the best shoes in town and everyone knows it too " * 9,
    "placeholder": ENGLISH + "Lorem ipsum dolor sit amet.",
}


@pytest.mark.parametrize("reason", BAD)
def test_what_is_no_prose_is_dropped_for_its_reason(reason: str) -> None:
    assert Filters().reason(BAD[reason]) == reason


def test_what_is_too_long_and_what_is_in_another_language_can_be_dropped() -> None:
    assert Filters(max_words=50).reason(ENGLISH) == "too long"
    assert Filters(languages=("zh", "de")).reason(ENGLISH) == "other language"
    assert Filters(languages=("zh", "en")).reason(ENGLISH) is None
    assert Filters(languages=("zh",)).reason(PROSE["Chinese"]) is None


def test_every_reason_has_its_test() -> None:
    assert {*BAD, "too long", "other language"} == set(REASONS)


def test_a_rule_can_be_switched_off_by_its_threshold() -> None:
    lists = BAD["list lines"]
    assert Filters(max_list_lines=1.0).reason(lists) in (None, "repeated words")
    assert Filters(min_words=0).reason(BAD["too short"]) is None


def test_characters_of_unspaced_scripts_count_as_half_a_word() -> None:
    text = "山高水长风清月明" * 5  # 40 characters
    assert Filters(min_words=21).reason(text) == "too short"
    assert Filters(min_words=20, max_repeated_words=1.0).reason(text) is None
    assert Filters(min_words=21, max_repeated_words=1.0).reason(text + " word") is None


def test_repetition_is_found_in_chinese_too() -> None:
    sentence = "本店出售全城最好的鞋子，人人皆知，欢迎光临。"
    assert Filters().reason(sentence * 9) == "repeated words"


def test_filters_travel_to_other_processes() -> None:
    filters = Filters(languages=("en",), min_words=7)
    assert pickle.loads(pickle.dumps(filters)) == filters


@pytest.mark.parametrize("text", ["", " \n ", "\0", "\ud83d", "a" * 1_000_000, "字" * 300_000])
def test_poisoned_text_is_judged_like_any_other(text: str) -> None:
    assert Filters(min_words=0).reason(text) in (None, *REASONS)


@given(st.text(max_size=400))
def test_any_text_gets_an_answer_and_always_the_same(text: str) -> None:
    filters = Filters(min_words=1)
    assert filters.reason(text) == filters.reason(text)
    assert filters.reason(text) in (None, *REASONS)


def repeated_words(text: str) -> float:
    """Count one word after the other what the filter counts in arrays."""
    words = re.findall(r"[一-鿿]{1,2}|[^\s一-鿿]+", text)
    seen: set[tuple[str, ...]] = set()
    covered: set[int] = set()
    for place in range(len(words) - RUN + 1):
        run = tuple(words[place : place + RUN])
        covered |= set(range(place, place + RUN)) if run in seen else set()
        seen.add(run)
    return len(covered) / len(words) if len(words) > RUN else 0.0


@given(
    st.lists(st.sampled_from(["a", "b ", "c, ", "中", "文", "\n", " "]), max_size=80),
    st.integers(1, 3),
)
def test_repeated_words_are_counted_in_arrays_as_one_by_one(parts: list[str], times: int) -> None:
    text = "".join(parts * times)
    codes = code_points(text)
    share = filters_module._repeated_words(codes, filters_module._CLASSES.of(codes))
    assert share == pytest.approx(repeated_words(text))


@given(st.text(max_size=60))
def test_words_between_spaces_are_counted_in_arrays_as_one_by_one(text: str) -> None:
    spaceless = f"[{pattern_of(WITHOUT_SPACES)}\u3000-\u303f\uff00-\uffef]+"
    words = re.sub(spaceless, " ", text).split()
    classes = filters_module._CLASSES.of(code_points(text))
    assert filters_module._count_spaced(classes) == (len(words), sum(map(len, words)))
