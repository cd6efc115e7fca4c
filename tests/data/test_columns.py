"""Columns are known by their names, given ones first, and never between two."""

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.data.columns import (
    cannot_tell,
    choose_form,
    form_of,
    is_header,
    match_names,
    missing_inputs,
    must_be_told,
)
from bertworks.data.forms import FORMS


def matched(names: str, form: str, **given: str) -> str:
    found = match_names(names.split("|"), form, given)
    return " ".join(f"{ours}={theirs}" for ours, theirs in sorted(found.items()))


@pytest.mark.parametrize(
    ("names", "form", "expected"),
    [
        ("sentence|label", "label", "label=label text=sentence"),
        ("index|sentence1|sentence2|label", "label", "label=label text=sentence1 text_b=sentence2"),
        (
            "Quality|#1 ID|#2 ID|#1 String|#2 String",
            "label",
            "label=Quality text=#1 String text_b=#2 String",
        ),
        ("index|question|sentence|label", "label", "label=label text=question text_b=sentence"),
        (
            "premise|hypothesis|gold_label",
            "label",
            "label=gold_label text=premise text_b=hypothesis",
        ),
        ("qid|text_a|text_b|label", "label", "label=label text=text_a text_b=text_b"),
        ("text_a|class", "label", "label=class text=text_a"),
        ("id|rating|label|text", "label", "label=label text=text"),
        ("id|group|subject|text", "label", "label=group text=text"),
        ("genre|sentence1|sentence2|score", "score", "score=score text=sentence1 text_b=sentence2"),
        (
            "sentence_A|sentence_B|relatedness_score|entailment_judgment",
            "score",
            "score=relatedness_score text=sentence_A text_b=sentence_B",
        ),
        (
            "sentence_A|sentence_B|relatedness_score|entailment_judgment",
            "label",
            "label=entailment_judgment text=sentence_A text_b=sentence_B",
        ),
        ("sentence1|sentence2|label", "score", "score=label text=sentence1 text_b=sentence2"),
        ("sentence1|sentence2|label", "texts", "text=sentence1 text_b=sentence2"),
        (
            "context|question|answers|id|title",
            "answers",
            "answers=answers id=id passage=context question=question",
        ),
        ("question|A|B|C|D|answer", "choice", "choices=A,B,C,D label=answer question=question"),
        (
            "ctx|ending0|ending1|ending2|label",
            "choice",
            "choices=ending0,ending1,ending2 label=label question=ctx",
        ),
        (
            "article|question|options|answer",
            "choice",
            "choices=options label=answer passage=article question=question",
        ),
        ("words|ner_tags", "tags", "tags=ner_tags tokens=words"),
        ("sentence|words|pos", "tags", "tags=pos tokens=words"),
        ("text|entities", "tags", "spans=entities text=text"),
        ("words|slots|label", "intent_slots", "intent=label tags=slots tokens=words"),
        ("sentence|target|polarity", "aspect", "aspect=target label=polarity text=sentence"),
        ("文本|标签", "label", "label=标签 text=文本"),
        ("编号|评论|类别", "label", "label=类别 text=评论"),
        ("句子1|句子2|标签", "label", "label=标签 text=句子1 text_b=句子2"),
        ("句子A|句子B|标签", "label", "label=标签 text=句子A text_b=句子B"),
        ("文本1|文本2|标签", "label", "label=标签 text=文本1 text_b=文本2"),
        ("问题1|问题2|标签", "label", "label=标签 text=问题1 text_b=问题2"),
        ("文本|标签", "labels", "labels=标签 text=文本"),
        ("文本|方面|情感", "aspect", "aspect=方面 label=情感 text=文本"),
        ("文本|方面|情感倾向|term", "aspect", "aspect=方面 label=情感倾向 text=文本"),
        ("文本|实体", "tags", "spans=实体 text=文本"),
        ("文本|意图|实体|label", "intent_slots", "intent=意图 spans=实体 text=文本"),
        ("text|entities|label", "intent_slots", "intent=label spans=entities text=text"),
        ("text|spans|pos|intent", "intent_slots", "intent=intent spans=spans text=text"),
        ("问题|段落|答案", "answers", "answers=答案 passage=段落 question=问题"),
        ("问题|文章|选项|答案", "choice", "choices=选项 label=答案 passage=文章 question=问题"),
        ("问题|context|答案", "answers", "answers=答案 passage=context question=问题"),
        ("问题|A|B|答案", "choice", "choices=A,B label=答案 question=问题"),
    ],
)
def test_the_names_of_public_sets_are_known(names: str, form: str, expected: str) -> None:
    assert matched(names, form) == expected


def test_given_columns_come_first_and_are_used_once() -> None:
    names = "sentence_A|sentence_B|text|label|gold"
    assert matched(names, "label", text="sentence_A", label="gold") == (
        "label=gold text=sentence_A"
    )
    assert matched("text|label", "label", text="label") == "text=label"
    assert matched("q|x|y|label", "choice", choices="x,y", question="q") == (
        "choices=x,y label=label question=q"
    )


@pytest.mark.parametrize(
    ("names", "form", "reason"),
    [
        ("sentence|class|category", "label", "more than one column that may hold the label: class"),
        ("review|title|label", "label", "more than one column that may hold the text"),
        (
            "内容|评论|标签",
            "label",
            "more than one column that may hold the text: 内容, 评论; choose",
        ),
        ("文本|标签|类别", "label", "may hold the label: 标签, 类别; choose"),
        ("问题|段落|篇章|答案", "answers", "may hold the passage: 段落, 篇章; choose"),
        ("文本|entities|实体", "tags", "may hold the spans: entities, 实体; choose"),
        ("句子1|句子2|文本1|文本2", "label", "more than one pair of texts"),
        ("words|pos_tags|ner_tags", "tags", "may hold the tags: ner_tags, pos_tags; choose with"),
        ("premise|hypothesis|sentence1|sentence2", "label", "more than one pair of texts"),
        ("text|text|label", "label", "has two columns 'text'; rename one"),
    ],
)
def test_between_two_columns_nothing_is_guessed(names: str, form: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        match_names(names.split("|"), form, {})


def test_what_is_missing_is_said_with_the_flag_that_mends_it() -> None:
    names = ["Body", "Klass"]
    found = match_names(names, "label", {})
    assert found == {"text": "Body"}
    assert missing_inputs("label", found) == []
    assert missing_inputs("tags", {}) == ["tokens or text"]
    assert missing_inputs("answers", {"question"}) == ["passage"]
    said = str(cannot_tell(["a", "b"], "choice"))
    assert said.endswith("--columns question=COLUMN choices=COLUMN label=COLUMN")
    assert "has the columns a, b, and" in said
    assert str(cannot_tell(["a"], "texts")).endswith("--columns text=COLUMN")


def test_without_a_task_that_is_the_first_thing_to_name() -> None:
    said = str(must_be_told(["甲", "乙", "标签"], "label"))
    assert "cannot be told; name the --task (classify, match, tag, answer, generate, ...)" in said
    assert said.endswith("say it with --columns text=COLUMN text_b=COLUMN label=COLUMN")
    for names in (["甲", "乙"], ["甲", "id", "标签"]):
        said = str(must_be_told(names, "label"))
        assert said.endswith("say it with --columns text=COLUMN label=COLUMN")
    said = str(must_be_told(["题目", "选项", "结果"], "choice", has_names=False))
    assert said.startswith("has no known header and the columns 题目")
    assert said.endswith("--columns question=COLUMN choices=COLUMN label=COLUMN")


def test_a_header_has_a_name_that_is_known_or_given() -> None:
    assert is_header(["index", "Sentence"], {})
    assert is_header(["Body text", "LABEL "], {})
    assert not is_header(["ham", "Ok lar... Joking wif u oni..."], {})
    assert not is_header(["id", "first"], {})
    assert is_header(["Body text", "Klass"], {"label": "Klass"})
    assert is_header(["Q", "x", "y"], {"choices": "x,y"})
    assert not is_header(["1", "2"], {"text": "1"})
    assert not is_header(["pos", "Ok"], {}, [["neg", "x"], ["pos", "y"]])
    assert is_header(["pos", "Ok"], {"label": "pos"}, [["neg", "x"], ["pos", "y"]])
    assert is_header(["Text", "label"], {}, [["x", "0"], ["Text", "label"], ["y", "1"]])


@pytest.mark.parametrize(
    ("names", "form"),
    [
        ("sentence|label", "label"),
        ("sentence1|sentence2|similarity", "score"),
        ("question|sentence|label", "label"),
        ("Text|Label", "label"),
        ("Text|Aspect|Label", "aspect"),
        ("text| label", "label"),
        ("TEXT|SCORE", "score"),
        ("first|last|text|label", "label"),
        ("text|tags|label", "label"),
        ("tokens|tags|label", "tags"),
        ("text|first|second|label", "relation"),
        ("question|context|answers", "answers"),
        ("question|context|answer", "answers"),
        ("question|A|B|C|answer", "choice"),
        ("words|slots", "tags"),
        ("text|label|rating", "label"),
        ("body|klass", "label"),
        ("text|entities", "tags"),
        ("text|entities|label", "label"),
        ("text|entities|category", "label"),
        ("text|entities|rating", "score"),
        ("id|文本|实体", "tags"),
        ("text|意图|entities", "intent_slots"),
        ("tokens|tags|意图", "intent_slots"),
        ("文本|意图", "label"),
        ("文本|方面|情感", "aspect"),
        ("text|term|sentiment", "label"),
        ("问题|段落|答案", "answers"),
        ("问题|选项|答案", "choice"),
        ("题目|选项|答案", "choice"),
        ("原文|译文", "target"),
        ("正文|摘要|标题", "target"),
        ("正文|摘要|标签", "label"),
        ("原文|摘要", "label"),
        ("text|summary", "label"),
    ],
)
def test_names_speak_of_a_form(names: str, form: str) -> None:
    assert form_of(names.split("|"), {}) == form


def test_a_file_for_two_tasks_must_be_told_which() -> None:
    names = ["sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"]
    with pytest.raises(UsageError, match=r"its entailment_judgment or its relatedness_score; name"):
        form_of(names, {})
    assert form_of(names, {"label": "entailment_judgment"}) == "label"
    assert form_of(names, {"score": "relatedness_score"}) == "score"
    with pytest.raises(UsageError, match=r"its label or its Score; name"):
        form_of(["text", "label", "Score"], {})
    assert form_of(["text", "gold", "score"], {"label": "gold"}) == "label"
    with pytest.raises(DataError, match="may hold the tags"):
        form_of(["words", "pos", "ner"], {})


def test_a_target_speaks_of_texts_to_write_only_beside_a_source_and_without_a_text() -> None:
    assert form_of(["id", "source", "target"], {}) == "target"
    assert form_of(["Source", "Target", "title"], {}) == "target"
    assert form_of(["abstract", "title"], {"source": "abstract", "target": "title"}) == "target"
    assert form_of(["1", "2"], {"source": "2", "target": "1"}) == "target"
    assert form_of(["abstract", "title"], {"source": "abstract", "target": "nope"}) == "target"
    assert form_of(["text", "source", "target"], {}) == "label"
    assert form_of(["sentence", "source", "target"], {}) == "label"
    assert form_of(["body", "target", "web"], {"text": "body", "source": "web"}) == "label"
    assert form_of(["text", "target"], {}) == "label"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("src|tgt", ("src", "tgt")),
        ("document|summary|title", ("document", "summary")),
        ("id|abstract|title", ("abstract", "title")),
        ("source|abstract|target", ("source", "target")),
        ("text|summary", ("text", "summary")),
        ("article|highlights|id", ("article", "highlights")),
        ("document|text|summary", ("document", "summary")),
        ("正文|标题", ("正文", "标题")),
        ("正文|摘要|标题", ("正文", "摘要")),
        ("原文|译文", ("原文", "译文")),
        ("内容|标题", ("内容", "标题")),
    ],
)
def test_sources_and_targets_have_other_names_too(names: str, expected: tuple[str, str]) -> None:
    found = match_names(names.split("|"), "target", {})
    assert (found["source"], found["target"]) == expected


def test_among_several_forms_our_own_names_come_first() -> None:
    assert choose_form(["text", "label"], {}, ("score", "label")) == "label"
    assert choose_form(["Text", "Label"], {}, ("score", "label")) == "label"
    assert choose_form(["s1", "s2", "rating"], {}, ("label", "score")) == "score"
    assert choose_form(["s1", "s2"], {}, ("label", "score", "texts")) == "texts"
    assert choose_form(["body"], {}, ("label", "score")) is None


def test_every_form_has_columns_that_it_cannot_do_without() -> None:
    for form, spec in FORMS.items():
        missing = missing_inputs(form, ())
        assert missing
        assert {ours for any_of in missing for ours in any_of.split(" or ")} <= {*spec.inputs}


@pytest.mark.parametrize(
    "name", ["摘要", "标题", "正文", "文章", "情感", "Translation", "highlights"]
)
def test_a_name_that_may_be_a_text_is_a_header_only_beside_others(name: str) -> None:
    assert not is_header([name], {}, [["今天天气好"]])
    assert is_header([name, "文本"], {}, [["a", "b"]])
    assert is_header([name], {"text": name}, [["今天天气好"]])
    for usual in ("text", "sentence", "内容", "source"):
        assert is_header([usual], {}, [["今天天气好"]])
