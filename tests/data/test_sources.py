"""Every public layout is found from a file's name and first rows, and said; none is guessed wrong.

The public sets themselves are read where the folder `shared/data` lies beside the repository. A
small twin of each layout is always read.
"""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import BertworksError, DataError, UsageError
from bertworks.core.quarantine import Quarantine
from bertworks.data.examples import (
    ChoiceExample,
    Found,
    QuestionExample,
    SourceExample,
    Span,
    TaggedExample,
    TextExample,
)
from bertworks.data.forms import FORMS
from bertworks.data.layouts import require_source
from bertworks.data.rows import stream_examples
from bertworks.data.sources import open_source, open_table, tell_form

Write = Callable[[str, str | bytes], Path]
PACK = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
TEXTS = [f"text number {n} of some" for n in range(13)]


def tsv(*columns: list[str], header: str = "") -> str:
    rows = ["\t".join(row) for row in zip(*columns, strict=True)]
    return "".join(f"{row}\n" for row in ([header] if header else []) + rows)


ZEROS_AND_ONES = list("0110100110010")
SQUAD = json.dumps(
    {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": "It is Rome.",
                        "qas": [
                            {
                                "question": "Where?",
                                "id": "7",
                                "answers": [{"text": "Rome", "answer_start": -1}],
                            },
                            {"question": "Why?", "id": "8", "answers": [], "is_impossible": True},
                        ],
                    }
                ]
            }
        ]
    }
)
DREAM = json.dumps(
    [[["M: Hi.", "W: Hi."], [{"question": "Who?", "choice": ["x", "y"], "answer": "y"}], "1"]]
)
CLUENER = json.dumps(
    {"text": "叶老桂说", "label": {"name": {"叶老桂": [[0, 2]]}}}, ensure_ascii=False
)
DOCCANO = '{"id": 7, "text": "叶老桂说", "label": [[0, 3, "name"]]}\n{"text": "好", "label": []}\n'
CMEEE = json.dumps(
    [{"text": "叶老桂说", "entities": [
        {"start_idx": 0, "end_idx": 2, "type": "name", "entity": "叶老桂"}]}],
    ensure_ascii=False,
)  # fmt: skip
RAW_CMRC = json.dumps(
    [{"context_text": "是北京。", "qas": [{"query_text": "哪？", "answers": ["北京"]}]}]
)
OCNLI = '{"sentence1": "x", "sentence2": "y", "label": "neutral", "label0": null, "id": 0}\n'
PAIR = TextExample(TEXTS[0], "other", "0", line=1)
TWINS: list[tuple[str, str, str, Any, str]] = [
    ("SST-2.tsv", "label", "sentence\tlabel\nx \"y\t1\n", TextExample('x "y', None, "1", line=2),
     "columns of SST-2.tsv: text=sentence label=label (guessed)"),
    ("评论.csv", "label", "\ufeff内容;标签\n很好，不错;好评\n",
     TextExample("很好，不错", None, "好评", line=2),
     "columns of 评论.csv: text=内容 label=标签 (guessed)"),
    ("RTE.tsv", "label", "index\tsentence1\tsentence2\tlabel\n0\tx\ty\tno\n",
     TextExample("x", "y", "no", line=2),
     "columns of RTE.tsv: text=sentence1 text_b=sentence2 label=label (guessed)"),
    ("MRPC.tsv", "label", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tx\ty\r\n",
     TextExample("x", "y", "1", line=2),
     "columns of MRPC.tsv: text=#1 String text_b=#2 String label=Quality (guessed)"),
    ("QNLI.tsv", "label", "index\tquestion\tsentence\tlabel\n0\tx?\ty\tentailment\n",
     TextExample("x?", "y", "entailment", line=2),
     "columns of QNLI.tsv: text=question text_b=sentence label=label (guessed)"),
    ("STS-B.tsv", "score", "index\tgenre\tsentence1\tsentence2\tscore\n0\tmain\tx\ty\t3.800\n",
     TextExample("x", "y", score=3.8, line=2),
     "columns of STS-B.tsv: text=sentence1 text_b=sentence2 score=score (guessed)"),
    ("SICK.txt", "score",
     "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
     "1\tx\ty\t4.5\tNEUTRAL\n", TextExample("x", "y", score=4.5, line=2),
     "columns of SICK.txt: text=sentence_A text_b=sentence_B score=relatedness_score (guessed)"),
    ("CoLA.tsv", "label", tsv(["gj04"] * 13, ZEROS_AND_ONES, ["", "*"] * 6 + [""], TEXTS),
     TextExample(TEXTS[0], None, "0", line=1), "columns of CoLA.tsv: text=4 label=2 (guessed)"),
    ("spam.tsv", "label", tsv(["ham", "spam"] * 6 + ["ham"], TEXTS),
     TextExample(TEXTS[0], None, "ham", line=1), "columns of spam.tsv: text=2 label=1 (guessed)"),
    ("tnews.tsv", "label", tsv(TEXTS, ZEROS_AND_ONES), TextExample(TEXTS[0], None, "0", line=1),
     "columns of tnews.tsv: text=1 label=2 (guessed)"),
    ("afqmc.tsv", "label", tsv(TEXTS, [f"other {t}" for t in TEXTS], ZEROS_AND_ONES),
     TextExample(TEXTS[0], f"other {TEXTS[0]}", "0", line=1),
     "columns of afqmc.tsv: text=1 text_b=2 label=3 (guessed)"),
    ("zh-stsb.tsv", "score", tsv(TEXTS, [f"other {t}" for t in TEXTS], list("5412350412300")),
     TextExample(TEXTS[0], f"other {TEXTS[0]}", score=5.0, line=1),
     "columns of zh-stsb.tsv: text=1 text_b=2 score=3 (guessed)"),
    ("codah.tsv", "choice", tsv(list("oionoiooionoi"), TEXTS, *[list("1bcdefghijklm")] * 3,
                                [f"{t}!" for t in TEXTS], list("3201320132013")),
     ChoiceExample(TEXTS[0], ("1", "1", "1", f"{TEXTS[0]}!"), label=3, line=1),
     "columns of codah.tsv: question=2 choices=3,4,5,6 label=7 (guessed)"),
    ("arc.csv", "choice", 'question,A,B,C,D,answer\n"x, y?",B,A,c,,B\n',
     ChoiceExample("x, y?", ("B", "A", "c"), label=1, line=2),
     "columns of arc.csv: question=question choices=A,B,C,D label=answer (guessed)"),
    ("dream.json", "choice", DREAM, ChoiceExample("Who?", ("x", "y"), "M: Hi.\nW: Hi.", 1, line=1),
     "dream.json is read as DREAM JSON"),
    ("squad.json", "answers", SQUAD,
     QuestionExample("Where?", "It is Rome.", (Found("Rome", 6, is_moved=True),), "7", line=1),
     "squad.json is read as SQuAD JSON"),
    ("cluener.json", "tags", CLUENER,
     TaggedExample("叶老桂说", spans=(Span(0, 3, "name"),), line=1),
     "columns of cluener.json: text=text spans=label (guessed)"),
    ("doccano.jsonl", "tags", DOCCANO,
     TaggedExample("叶老桂说", spans=(Span(0, 3, "name"),), line=1),
     "columns of doccano.jsonl: text=text spans=label (guessed)"),
    ("cmeee.json", "tags", CMEEE, TaggedExample("叶老桂说", spans=(Span(0, 3, "name"),), line=1),
     "columns of cmeee.json: text=text spans=entities (guessed)"),
    ("characters.jsonl", "tags", '{"text": "叶老", "tags": ["B-X", "I-X"]}\n',
     TaggedExample("叶 老", ((0, 1), (2, 3)), ("B-X", "I-X"), line=1), ""),
    ("raw_cmrc.json", "answers", RAW_CMRC,
     QuestionExample("哪？", "是北京。", (Found("北京", 1),), line=1),
     "raw_cmrc.json is read as SQuAD JSON"),
    ("翻译.csv", "target", "原文,译文\n你好,hello\n", SourceExample("你好", ("hello",), line=2),
     "columns of 翻译.csv: source=原文 target=译文 (guessed)"),
    ("意图.jsonl", "intent_slots",
     '{"text": "去北京", "意图": "订票", "entities": [[1, 3, "地点"]]}\n',
     TaggedExample("去北京", spans=(Span(1, 3, "地点"),), intent="订票", line=1),
     "columns of 意图.jsonl: text=text intent=意图 spans=entities (guessed)"),
    ("ocnli.json", "label", OCNLI, TextExample("x", "y", "neutral", line=1),
     "columns of ocnli.json: text=sentence1 text_b=sentence2 label=label (guessed)"),
    ("list.json", "label", '[{"text": "x", "label": 1}]', TextExample("x", None, "1", line=1), ""),
    ("msra.txt", "tags", "中 B-ORG\n共 I-ORG\n\n好 O\n",
     TaggedExample("中 共", ((0, 1), (2, 3)), ("B-ORG", "I-ORG"), line=1),
     "msra.txt is read as CoNLL: the token first, its tag last"),
    ("resume.bmes", "tags", "高 B-NAME\n一 M-NAME\n勇 E-NAME\n",
     TaggedExample("高 一 勇", ((0, 1), (2, 3), (4, 5)), ("B-NAME", "I-NAME", "E-NAME"), line=1),
     "resume.bmes is read as CoNLL: the token first, its tag last"),
    ("wikiann.tsv", "tags", "Sioux\tB-ORG\nFalls\tI-ORG\n\n(\tO\n",
     TaggedExample("Sioux Falls", ((0, 5), (6, 11)), ("B-ORG", "I-ORG"), line=1),
     "wikiann.tsv is read as CoNLL: the token first, its tag last"),
    ("ewt.conllu", "tags", "# text\n1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n",
     TaggedExample("Go", ((0, 2),), ("VERB",), line=1), "ewt.conllu is read as CoNLL-U"),
    ("pku.utf8", "tags", "中国  好\n",
     TaggedExample("中 国 好", ((0, 1), (2, 3), (4, 5)), ("B", "E", "S"), line=1),
     "pku.utf8 is read as words with two spaces between them"),
    ("laptops.txt", "aspect", "The $T$ is slow .\nscreen\n-1\n",
     TextExample("The screen is slow .", "screen", "-1", line=1),
     "laptops.txt is read as aspects in three lines each"),
]  # fmt: skip


def examples_of(path: Path, form: str, **options: Any) -> Iterator[Any]:
    quarantine = Quarantine()
    yield from stream_examples(path, quarantine, form=form, **options)
    assert quarantine.rows == []


@pytest.mark.parametrize(
    ("name", "form", "content", "first", "said"), TWINS, ids=[twin[0] for twin in TWINS]
)
def test_a_twin_of_each_public_layout_is_read_and_said(
    file: Write,
    capsys: pytest.CaptureFixture[str],
    name: str,
    form: str,
    content: str,
    first: Any,
    said: str,
) -> None:
    assert next(examples_of(file(name, content), form)) == first
    assert capsys.readouterr().err.strip() == said


UNSAID = ("SICK.txt", "zh-stsb.tsv")  # may be meant for another task


@pytest.mark.parametrize("twin", TWINS, ids=[twin[0] for twin in TWINS])
def test_a_twin_speaks_of_its_form_or_must_be_told(file: Write, twin: tuple[Any, ...]) -> None:
    name, form, content = twin[:3]
    path = file(name, content)
    if name in UNSAID:
        with pytest.raises(UsageError, match=rf"{name} .*; name the --task"):
            tell_form(path, {})
        assert tell_form(path, {}, among=("score", "texts")) == "score"
        assert tell_form(path, {}, among=("texts", "label")) == "label"
    else:
        assert tell_form(path, {}) == form


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", ["SST-2.tsv", "arc.csv", "squad.json", "cluener.json", "msra.txt"])
def test_every_layout_may_be_compressed(file: Write, name: str, suffix: str) -> None:
    form, content, first = next(twin[1:4] for twin in TWINS if twin[0] == name)
    path = file(name + suffix, PACK[suffix](content.encode()))
    assert next(examples_of(path, form)) == first


def test_parquet_has_our_columns_or_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"sentence": ["x"], "label": [True]}), path)
    assert list(examples_of(path, "label")) == [TextExample("x", None, "true", line=1)]
    answers = {"text": ["Rome"], "answer_start": [6]}
    columns = {"context": ["It is Rome."], "question": ["Where?"], "answers": [answers]}
    pq.write_table(pa.table(columns), path)
    [found] = examples_of(path, tell_form(path, {}))
    assert found.answers == (Found("Rome", 6),)


def test_a_folder_of_three_files_is_read(tmp_path: Path) -> None:
    for name, line in (("seq.in", "fly home"), ("seq.out", "O B-to"), ("label", "flight")):
        (tmp_path / name).write_text(line + "\n")
    assert tell_form(tmp_path, {}) == "intent_slots"
    require_source(tmp_path)
    [found] = examples_of(tmp_path, "intent_slots")
    assert (found.text, found.tags, found.intent) == ("fly home", ("O", "B-to"), "flight")


def test_columns_may_be_given_by_number_with_a_header_or_without(file: Write) -> None:
    bare = file("a.tsv", "gj04\t1\t\tA text.\nbc01\t0\t*\tOther.\n")
    columns = {"text": "4", "label": "2"}
    assert [e.label for e in examples_of(bare, "label", columns=columns)] == ["1", "0"]
    named = file("b.tsv", "source\tlabel\tstar\ttext\n" + bare.read_text())
    assert [e.label for e in examples_of(named, "label", columns=columns)] == ["1", "0"]
    assert tell_form(named, {"score": "2", "text": "4"}) == "score"
    choices = {"question": "1", "choices": "2,3", "label": "4"}
    [found] = examples_of(file("c.tsv", "q?\tx\ty\t1\n"), "choice", columns=choices)
    assert found == ChoiceExample("q?", ("x", "y"), label=1, line=1)


def test_a_first_row_like_a_header_is_warned_of_where_numbers_are_given(
    file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file("a.tsv", tsv(TEXTS, ZEROS_AND_ONES, header="said\tkind"))
    columns = {"text": "1", "label": "2"}
    assert len(list(examples_of(path, "label", columns=columns))) == len(TEXTS) + 1
    assert "warning: the first row of a.tsv ('said', 'kind') is read as" in capsys.readouterr().err
    named = {"text": "said", "label": "kind"}
    assert len(list(examples_of(path, "label", columns=named))) == len(TEXTS)
    for rows in (TEXTS, TEXTS[:1]):
        bare = file("b.tsv", tsv(rows, ZEROS_AND_ONES[: len(rows)]))
        assert len(list(examples_of(bare, "label", columns=columns))) == len(rows)
    assert capsys.readouterr().err == ""


def test_a_first_label_that_is_also_a_known_name_is_no_header(file: Write) -> None:
    labels = ["pos", "neg", "pos"] * 4 + ["neg"]
    path = file("a.tsv", tsv(labels, TEXTS))
    for columns in ({}, {"label": "1", "text": "2"}):
        assert [e.label for e in examples_of(path, "label", columns=columns)] == labels
    joined = file("b.tsv", tsv(TEXTS, labels, header="text\tpos") * 2)
    found = list(examples_of(joined, "label", columns={"label": "pos"}))
    assert [e.text for e in found] == [*TEXTS, "text", *TEXTS]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_header_of_a_csv_tells_the_mark_between_columns(file: Write, mark: str) -> None:
    path = file(
        "a.csv",
        f'\ufeffText{mark}"Label"\r\nyes, I do{mark}0\r\n'.replace("yes, I do", '"yes, I do"'),
    )
    assert list(examples_of(path, "label")) == [TextExample("yes, I do", label="0", line=2)]
    assert [e.text for e in examples_of(path, "label", labelled=False)] == ["yes, I do"]


@pytest.mark.parametrize(("mark", "said"), [(";", "semicolons"), ("\t", "tabs")])
def test_a_csv_of_one_column_that_holds_several_is_refused(
    file: Write, mark: str, said: str
) -> None:
    rows = "".join(f"{text}{mark}{at}\n" for at, text in enumerate(TEXTS))
    path = file("a.csv", f"Meinung{mark}Sterne\n{rows}")
    with pytest.raises(DataError, match=rf"a\.csv has one column only, but .* many {said}; name a"):
        open_source(path, form="texts", labelled=False)
    named, whole = (
        list(examples_of(path, "texts", columns={"text": column}, labelled=False))
        for column in ("Meinung", "1")
    )
    assert [e.text for e in named] == TEXTS
    assert whole[1].text == f"{TEXTS[0]}{mark}0"


@pytest.mark.parametrize(
    "rows",
    [
        "one; two\n",
        "one; two\nmore\n",
        "a; b\nc\nd; e; f\n",
        "I came; I saw\n" * 7,
        "tea &amp; milk\n&quot;a b\n" * 4,
        "one;two\n" * 4,  # too few rows to tell
    ],
)
def test_texts_of_a_csv_may_hold_semicolons_now_and_then(file: Write, rows: str) -> None:
    found = examples_of(file("a.csv", rows), "texts", labelled=False)
    assert [e.text for e in found] == rows.splitlines()


def test_labels_with_decimals_may_be_scores(file: Write) -> None:
    path = file("a.csv", "sentence1,sentence2,label\n" + "x,y,2.5\nx,z,4.0\n" * 3)
    with pytest.raises(UsageError, match="decimals in label, which may be labels or scores; name"):
        tell_form(path, {})
    assert tell_form(path, {}, among=("score",)) == "score"
    whole = file("b.csv", path.read_text().replace("2.5", "2.0"))
    assert tell_form(whole, {}) == "label"


def test_a_given_name_may_have_spaces_around_it_in_the_file(file: Write) -> None:
    path = file("a.csv", "Said, Gold Label\nyes I do, 0\n")
    columns = {"text": "Said", "label": "Gold Label"}
    found = TextExample("yes I do", label="0", line=2)
    assert list(examples_of(path, "label", columns=columns)) == [found]
    only = file("b.csv", path.read_text().replace("Said", "text"))
    assert list(examples_of(only, "label", columns={"label": "Gold Label"})) == [found]


def test_codes_of_rows_are_no_texts(file: Write) -> None:
    codes = [f"train-{at:03x}{at}" for at in range(len(TEXTS))]
    for labelled, columns in ((True, (codes, TEXTS, ZEROS_AND_ONES)), (False, (codes, TEXTS))):
        found = list(examples_of(file("a.tsv", tsv(*columns)), "label", labelled=labelled))
        assert [(e.text, e.text_b) for e in found] == [(text, None) for text in TEXTS]


def test_a_headline_is_the_text_where_nothing_is_longer_or_it_is_given(file: Write) -> None:
    path = file("a.csv", "id,title,label\n7,some words,1\n")
    assert [e.text for e in examples_of(path, "label")] == ["some words"]
    path = file("b.csv", "title,story,label\nx,longer than it,1\n")
    assert [e.text for e in examples_of(path, "label", columns={"text": "title"})] == ["x"]


def test_given_columns_choose_within_a_layout(file: Write) -> None:
    twins = {twin[0]: twin[2] for twin in TWINS}
    [xpos] = examples_of(file("a.conllu", twins["ewt.conllu"]), "tags", columns={"tags": "xpos"})
    assert xpos.tags == ("VB",)
    [pair] = examples_of(file("a.txt", twins["laptops.txt"]), "label", columns={"text_b": "aspect"})
    assert pair == TextExample("The screen is slow .", "screen", "-1", line=1)


@pytest.mark.parametrize(
    ("name", "content", "form", "reason"),
    [
        ("a.tsv", "id\tsaid\n7\tx\n", "label",
         r"a\.tsv has no known header and the columns 1 \('id'\), 2 \('said'\), and which of them "
         r"hold what cannot be told; say it with --columns text=COLUMN label=COLUMN"),
        ("a.tsv", tsv(TEXTS, ZEROS_AND_ONES, header="said\tkind"), "label",
         r"a\.tsv begins with what may be a header: it has no known header and the columns 1 "),
        ("a.tsv", tsv(TEXTS, ZEROS_AND_ONES, list("aabbaabbabbaa")), "label", "cannot be told"),
        ("a.tsv", tsv(TEXTS, ZEROS_AND_ONES), "tags",
         "cannot be told; say it with --columns tokens"),
        ("a.jsonl", '{"said": "x", "label": 1}\n', "label",
         "has the columns said, label, and which"),
        ("a.csv", "title,story,label\nx,longer than it,1\n", "label",
         r"a\.csv may have its text in title or in story, which is longer; choose with --columns"),
        ("a.tsv", "text,label\nx,1\n", "label",
         r"a\.tsv has one column only, which begins with 'text,label'; columns are parted by"),
        ("a.csv", "one\ntwo, of it\nthree\n", "texts", "rows of different widths; quote texts"),
        ("a.json", '{"sentence": "x", "class": 1, "category": 2}\n', "label",
         "more than one column that may hold the label: class, category"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_an_error_with_the_flag_to_give(
    file: Write, name: str, content: str, form: str, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        next(examples_of(file(name, content), form))


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("a.csv", "甲,乙,标签\nx,y,1\n", "text=COLUMN text_b=COLUMN label=COLUMN"),
        ("a.csv", "甲,乙\nx,y\n", "text=COLUMN label=COLUMN"),
        ("a.csv", "内容,标题\n" + "long text,x\n" * 5, "text=COLUMN label=COLUMN"),
        ("a.jsonl", '{"summary": "x", "text": "x y"}\n', "text=COLUMN label=COLUMN"),
        ("a.csv", "题目,选项,结果\nx,y,0\n", "question=COLUMN choices=COLUMN label=COLUMN"),
        ("a.tsv", tsv(TEXTS, ZEROS_AND_ONES, header="甲\t乙"), "text=COLUMN label=COLUMN"),
    ],
)  # fmt: skip
def test_where_no_task_is_named_that_is_the_first_thing_to_do(
    file: Write, name: str, content: str, flags: str
) -> None:
    with pytest.raises(DataError, match=r"cannot be told; name the --task \(classify") as caught:
        tell_form(file(name, content), {})
    assert str(caught.value).endswith(f"say it with --columns {flags}")


def test_a_file_of_texts_alone_still_speaks_of_labels(file: Write) -> None:
    assert tell_form(file("a.jsonl", '{"text": "x"}\n'), {}) == "label"
    assert tell_form(file("b.jsonl", '{"text": "x", "text_b": "y"}\n'), {}) == "label"


@pytest.mark.parametrize(
    ("name", "content", "form", "reason"),
    [
        ("a.json", SQUAD, "label", "holds SQuAD JSON, which is for the form 'answers', not for"),
        ("a.txt", "x $T$\nsoup\n1\n", "label", "aspects in three lines each, which is for"),
        ("a.txt", "plain prose\nof lines\n", "label", r"has no known format; its name should end"),
        (
            "a.txt",
            "plain prose\nof lines\n",
            "tags",
            r"\.conllu, which .* or its lines have tabs or tags",
        ),
    ],
)
def test_a_file_for_another_task_is_refused(
    file: Write, name: str, content: str, form: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        open_source(file(name, content), form=form)


@pytest.mark.parametrize("form", ["label", "labels", "score", "tags", "intent_slots"])
def test_bare_lines_are_texts_to_predict_from(file: Write, form: str) -> None:
    path = file("a.txt", "今天天气好\none, two\n")
    found = examples_of(path, form, labelled=False)
    assert [(one.line, one.text) for one in found] == [(1, "今天天气好"), (2, "one, two")]
    with pytest.raises(UsageError, match="no known format"):
        next(examples_of(path, form))


def test_plain_lines_are_texts_where_only_texts_are_asked_for(file: Write) -> None:
    path = file("a.txt", "one text\nanother one\n")
    assert [e.text for e in examples_of(path, "texts")] == ["one text", "another one"]
    assert tell_form(path, {}, among=("label", "texts")) == "texts"


def test_lines_of_texts_are_not_cut_at_their_tabs(file: Write) -> None:
    lines = ["one", "\ttwo\twords", "a\tb", "more"]
    path = file("a.txt", "\r\n".join(lines))
    assert [e.text for e in examples_of(path, "texts", labelled=False)] == lines
    first = examples_of(path, "texts", columns={"text": "1"}, labelled=False)
    assert next(first).text == "one"
    [alone] = examples_of(file("b.txt", "a\tb\n"), "texts", labelled=False)
    assert alone.text == "a\tb"


def test_lines_with_a_header_or_equally_many_tabs_are_a_table(file: Write) -> None:
    named = file("a.txt", "sentence\tnote\none\tx\nno note\n")
    assert [e.text for e in examples_of(named, "texts", labelled=False)] == ["one", "no note"]
    bare = file("b.txt", tsv(TEXTS, ZEROS_AND_ONES))
    assert [e.text for e in examples_of(bare, "texts", labelled=False)] == TEXTS


def test_a_table_of_any_columns_can_be_read_as_it_is(file: Write) -> None:
    table = open_table(file("a.tsv", "query\tdocument\tgrade\n1\t2\t3\n"))
    assert list(table.read(Quarantine())) == [(2, {"query": "1", "document": "2", "grade": "3"})]
    with pytest.raises(DataError, match=r"holds CoNLL: .*; give a table"):
        open_table(file("a.conll", "x O\n"))


BITS = st.sampled_from(
    [b"\n", b"\t", b"{", b"[", b'"', b",", b"\xff", b"\0", b"nan", b"text", b"$T$"]
)


@given(
    twin=st.sampled_from(TWINS),
    edits=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 9), BITS), max_size=7),
    form=st.sampled_from(sorted(FORMS)),
)
def test_whatever_is_broken_a_file_is_read_or_refused_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory,
    twin: tuple[Any, ...],
    edits: list[tuple[int, int, bytes]],
    form: str,
) -> None:
    content = twin[2].encode()
    for place, length, bit in edits:
        content = content[:place] + bit + content[place + length :]
    path = tmp_path_factory.mktemp("broken") / twin[0]
    path.write_bytes(content)
    refused = []
    for asked in (form, twin[1]):
        try:
            tell_form(path, {}, among=(asked, "label"))
            list(stream_examples(path, Quarantine(), form=asked))
        except BertworksError as error:
            refused.append(str(error))
    assert not any("\n" in sentence for sentence in refused)


DATA = Path(__file__).parents[3] / "shared" / "data"
HERE = pytest.mark.skipif(not DATA.is_dir(), reason="the public sets are not beside the repository")
UNLABELLED, GROUP = {"labelled": False}, {"columns": {"label": "group"}}
# Folder of the README's table, files in it, form, examples that they hold, how they are read.
PUBLIC: list[tuple[str, str, str, list[int], dict[str, Any]]] = [
    ("glue/CoLA", "train.tsv dev.tsv", "label", [8551, 1043], {}),
    ("glue/SST-2", "train.tsv dev.tsv test_labelled.tsv", "label", [67349, 872, 1821], {}),
    ("glue/SST-2", "test.tsv", "label", [1821], UNLABELLED),
    ("glue/MRPC", "train.tsv dev.tsv test_labelled.tsv", "label", [3668, 408, 1725], {}),
    ("glue/MRPC", "test.tsv", "label", [1725], UNLABELLED),
    ("glue/STS-B", "train.tsv dev.tsv test_labelled.tsv", "score", [5749, 1500, 1379], {}),
    ("glue/STS-B", "test.tsv", "score", [1379], UNLABELLED),
    ("glue/RTE", "train.tsv dev.tsv", "label", [2490, 277], {}),
    ("glue/RTE", "test.tsv", "label", [3000], UNLABELLED),
    ("glue/WNLI", "train.tsv dev.tsv", "label", [635, 71], {}),
    ("glue/QNLI", "train.tsv dev.tsv", "label", [86197, 5463], {}),
    ("glue/QNLI", "test.tsv", "label", [5463], UNLABELLED),
    ("squad", "train-v1.1.json dev-v1.1.json dev-v2.0.json", "answers", [87599, 10570, 11873], {}),
    ("tagging/ud-english-ewt", "en_ewt-ud-train.conllu en_ewt-ud-dev.conllu en_ewt-ud-test.conllu",
     "tags", [12544, 2001, 2077], {}),
    ("tagging/ud-chinese-gsdsimp", "zh_gsdsimp-ud-dev.conllu zh_gsdsimp-ud-test.conllu", "tags",
     [500, 500], {}),
    ("tagging/broad-twitter-corpus", "a.conll b.conll e.conll f.conll g.conll h.conll", "tags",
     [1000, 2000, 200, 2001, 2138, 2001], {}),
    ("tagging/wikiann-en", "train.tsv dev.tsv", "tags", [20000, 10000], {}),
    ("tagging/wikiann-en", "test.tsv", "tags", [10000], UNLABELLED),
    ("tagging/cluener", "train.json dev.json", "tags", [10748, 1343], {}),
    ("tagging/cluener", "test.json", "tags", [1345], UNLABELLED),
    ("tagging/msra-ner", "train.txt test.txt", "tags", [50658, 4631], {}),
    ("tagging/resume-ner", "train.char.bmes dev.char.bmes test.char.bmes", "tags",
     [3821, 463, 477], {}),
    ("tagging/segmentation-zh", "peoplesdaily-199801_train.txt peoplesdaily-199801_dev.txt "
     "pku_test_gold.utf8 msr_test_gold.utf8", "tags", [10000, 1000, 1944, 3985], {}),
    ("intent-slots/atis", "train valid test", "intent_slots", [4478, 500, 893], {}),
    ("intent-slots/snips", "train valid test", "intent_slots", [13084, 700, 700], {}),
    ("aspects/restaurants", "train.txt test.txt", "aspect", [3608, 1120], {}),
    ("aspects/laptops", "train.txt test.txt", "aspect", [2328, 638], {}),
    ("topics/newsgroups20", "train.jsonl test.jsonl", "label", [11314, 7532], GROUP),
    ("topics/tnews", "train.tsv dev.tsv", "label", [53360, 10000], {}),
    ("sentiment/imdb", "train_8000.jsonl test_2000.jsonl", "label", [8000, 2000], {}),
    ("sentiment/chnsenticorp", "train.tsv dev.tsv", "label", [9600, 1200], {}),
    ("sentiment/chnsenticorp", "test.tsv", "label", [1200], UNLABELLED),
    ("spam/sms", "SMSSpamCollection.tsv", "label", [5574], {}),
    ("langid/tatoeba", "train.tsv test.tsv", "label", [172944, 19600], {}),
    ("pairs/afqmc", "train.tsv dev.tsv", "label", [34334, 4316], {}),
    ("pairs/afqmc", "test.tsv", "label", [3861], UNLABELLED),
    ("pairs/ocnli", "train.10k.json train.3k.json dev.json", "label", [10000, 3000, 3000], {}),
    ("pairs/ocnli", "test.json", "label", [3000], UNLABELLED),
    ("pairs/zh-stsb", "train.tsv dev.tsv test.tsv", "score", [5231, 1458, 1361], {}),
    ("pairs/sick", "SICK_train.txt SICK_trial.txt SICK_test_annotated.txt", "score",
     [4500, 500, 4927], {}),
    ("pairs/sick", "SICK_train.txt SICK_trial.txt SICK_test_annotated.txt", "label",
     [4500, 500, 4927], {}),
    ("pairs/sts12-16", "sts2013.tsv sts2014.tsv sts2015.tsv sts2016.tsv", "score",
     [1500, 3750, 3000, 1186], {}),
    ("choice/dream", "train.json dev.json test.json", "choice", [6116, 2040, 2041], {}),
    ("choice/arc", "challenge_train.csv challenge_dev.csv easy_train.csv easy_dev.csv", "choice",
     [1096, 294, 2147, 549], {}),
    ("choice/codah", "full_data.tsv fold_0/train.tsv fold_0/dev.tsv fold_0/test.tsv", "choice",
     [2776, 1665, 556, 555], {}),
    ("qa-zh/cmrc2018", "trial.json dev.json", "answers", [1002, 3219], {}),
    ("qa-zh/drcd", "dev.json test.json", "answers", [3524, 3493], {}),
]  # fmt: skip
# What is wrong in the files themselves: rows that are set aside, and why.
FLAWS = {
    "tagging/cluener/train.json": (1, "overlap; a word has one tag"),
    "topics/newsgroups20/train.jsonl": (18, "'text' is empty"),
    "topics/newsgroups20/test.jsonl": (16, "'text' is empty"),
    "pairs/ocnli/train.10k.json": (15, "its annotators agreed on none"),
    "pairs/ocnli/train.3k.json": (6, "its annotators agreed on none"),
    "pairs/ocnli/dev.json": (50, "its annotators agreed on none"),
    "qa-zh/cmrc2018/trial.json": (2, "'question' is empty"),
}
SPARE_LINES = {"spam/sms/SMSSpamCollection.tsv": (1, "1 column, but most rows have 2")}
LONG_DOCUMENT = "squad/train-v1.1.json"  # is read whole or not at all
BLANK_SENTENCES = {"tagging/broad-twitter-corpus/h.conll": 1}  # of white space alone
FILES = [
    (f"{folder}/{name}", form, count, options)
    for folder, names, form, counts, options in PUBLIC
    for name, count in zip(names.split(), counts, strict=True)
]
FILES += [("pairs/sts12-16/sts2012.tsv", "score", 1484 + 2358, {})]  # both parts in one file


def public_file(name: str) -> Path:
    path = DATA / name
    return path if path.exists() else path.with_name(path.name + ".xz")


@HERE
@pytest.mark.parametrize("folder", sorted({row[0] for row in PUBLIC}))
def test_the_counts_are_those_of_the_description_of_the_public_sets(folder: str) -> None:
    lines = (DATA / "README.md").read_text(encoding="utf-8").splitlines()
    told = next(line for line in lines if line.startswith(f"| `{folder}` |"))
    for count in (count for row in PUBLIC if row[0] == folder for count in row[3]):
        assert f"{count:,}" in told


@HERE
@pytest.mark.parametrize(
    ("name", "form", "options"),
    [(name, form, options) for name, form, _, options in FILES if name != LONG_DOCUMENT],
)
def test_the_first_rows_of_a_public_set_are_read(
    name: str, form: str, options: dict[str, Any]
) -> None:
    quarantine = Quarantine()
    stream = stream_examples(public_file(name), quarantine, form=form, **options)
    examples = list(islice(stream, 50))
    assert len(examples) == 50
    assert quarantine.num_bad <= 1


@HERE
@pytest.mark.slow
@pytest.mark.parametrize(("name", "form", "count", "options"), FILES)
def test_a_public_set_is_read_to_its_last_row(
    name: str, form: str, count: int, options: dict[str, Any]
) -> None:
    quarantine = Quarantine()
    examples = stream_examples(public_file(name), quarantine, form=form, **options)
    num_good = sum(1 for _ in examples)
    num_bad, reason = FLAWS.get(name, (0, ""))
    assert num_good == count - num_bad - BLANK_SENTENCES.get(name, 0)
    num_spare, spare = SPARE_LINES.get(name, (0, ""))
    assert quarantine.num_bad == num_bad + num_spare
    assert all((reason or spare) in row.reason for row in quarantine.rows)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("我们今天在北京学习中文。\n小明和李华是朋友。\n\n他去上海工作。\n", 3),
        ("Anna lives in Paris\n\n\nTom works at Berlin\n", 2),
        ("北\n京\n\n上\n海\n", 2),  # a word a line
        ("Anna\nlives\n\nTom\nworks\n", 2),
    ],
)
def test_what_is_to_be_tagged_has_a_text_or_a_word_in_a_line(
    file: Write, content: str, texts: int
) -> None:
    path = file("a.txt", content)
    found = list(stream_examples(path, Quarantine(), form="tags", labelled=False))
    assert len(found) == texts
    has_words = max(map(len, content.split())) < 7 and " " not in content
    assert all((one.words is not None) == has_words for one in found)
