"""The suites: every task can be read and run, and says what others published."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import get_args

import pytest

from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import settings_of
from bertworks.data.forms import FORMS
from bertworks.data.rows import parse_columns, stream_examples
from bertworks.evaluation.suite_data import find_file, gather
from bertworks.evaluation.suite_task import SIZES, SuiteTask
from bertworks.evaluation.suites import SUITES
from bertworks.stages.setting_groups import SuiteSettings
from bertworks.tasks.catalog import KINDS

DATA = Path(__file__).parents[3] / "shared" / "data"
TASKS = {f"{suite}-{name}": task for suite, tasks in SUITES.items() for name, task in tasks.items()}
EVERY = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
WITH_KIND = {name: task for name, task in TASKS.items() if task.kind}
LEARNED = pytest.mark.parametrize("task", WITH_KIND.values(), ids=WITH_KIND)


def test_the_suites_are_those_that_the_flag_knows() -> None:
    flag = next(setting for setting in settings_of(SuiteSettings) if setting.name == "suite")
    assert flag.choices == tuple(SUITES)
    assert len(get_args(flag.kind)) == 2
    assert all(SUITES.values())


@EVERY
def test_a_task_is_of_a_kind_that_can_be_learned(task: SuiteTask) -> None:
    if task.kind is None:
        assert task.model_of is not None
        return
    assert KINDS[task.kind].learn is not None
    assert KINDS[task.kind].form in FORMS


@EVERY
def test_a_task_has_something_to_learn_from_and_to_choose_by(task: SuiteTask) -> None:
    parts = {*task.parts, *task.held_out}
    needed = {"test"} if task.model_of else {"train", "dev"}
    assert needed <= parts <= {"train", "dev", "test"}
    assert not task.parts.keys() & task.held_out.keys()
    assert sum(task.held_out.values()) < 0.5


@pytest.mark.parametrize("tasks", SUITES.values(), ids=SUITES)
def test_a_model_that_answers_elsewhere_too_is_made_before(tasks: dict[str, SuiteTask]) -> None:
    names = list(tasks)
    for place, task in enumerate(tasks.values()):
        if task.model_of is not None:
            assert task.model_of in names[:place]
            assert tasks[task.model_of].model_of is None
            assert task.kind in (None, tasks[task.model_of].kind)


@EVERY
def test_files_and_columns_are_well_named(task: SuiteTask) -> None:
    for sources in task.parts.values():
        assert sources
        for source in sources:
            assert not source.file.startswith("/")
            assert 0 <= source.begin < source.end <= 1
            parse_columns(source.columns)


@EVERY
def test_published_figures_are_percent_of_known_sizes(task: SuiteTask) -> None:
    assert task.metrics
    for metric in task.metrics:
        for figures in (metric.dev, metric.test):
            assert set(figures) <= set(SIZES)
            assert all(0 <= figure <= 100 for figure in figures.values())
            assert not figures or any(figure > 1 for figure in figures.values())


# Files in the official layouts


def table(head: str, row: str) -> Callable[[int], str]:
    """Return the text of a table; in a row {n} is its number and {b} is 0 or 1."""

    def write(count: int) -> str:
        rows = [row.format(n=n, b=n % 2, label=("yes", "no")[n % 2]) for n in range(count)]
        return "\n".join([*filter(None, [head]), *rows, ""])

    return write


def objects(*keys: str) -> Callable[[int], str]:
    """Return lines of JSON objects with texts under some keys and a label under the last."""

    def write(count: int) -> str:
        rows = [
            {**{key: f"{key} {n}" for key in keys[:-1]}, keys[-1]: "yn"[n % 2]}
            for n in range(count)
        ]
        return "".join(json.dumps(row) + "\n" for row in rows)

    return write


def clue(count: int) -> str:
    """Return lines of CLUENER, where the end of a span belongs to it."""
    row = {"text": "浙商银行在北京", "label": {"company": {"浙商银行": [[0, 3]]}}}
    return (json.dumps(row, ensure_ascii=False) + "\n") * count


def squad(count: int) -> str:
    """Return a document of questions about one passage each."""
    paragraphs = [
        {
            "context": f"It was made in {n} by hand.",
            "qas": [
                {
                    "id": f"q{n}",
                    "question": f"How, {n}?",
                    "answers": [{"text": "by hand", "answer_start": 16 + len(str(n))}],
                }
            ],
        }
        for n in range(count)
    ]
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})


def blocks(*lines: str) -> Callable[[int], str]:
    """Return the same lines again and again."""
    return lambda count: "".join("\n".join([*lines, ""]) for _ in range(count))


STS_COLUMNS = "index genre filename year old_index source1 source2 sentence1 sentence2 score"
STS_HEAD = STS_COLUMNS.replace(" ", "\t")
LAYOUTS: dict[str, Callable[[int], str]] = {  # the first that a file begins with
    "glue/CoLA": table("", "gj04\t{b}\t\tSentence number {n} is here."),
    "glue/SST-2": table("sentence\tlabel", 'a "fine film {n} \t{b}'),
    "glue/MRPC": table(
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '{b}\t7\t8\tHe said "{n}.\tShe said so.',
    ),
    "glue/STS-B/test": table(
        "", "main-news\tMSRpar\t2012test\t{n}\t{b}.500\tA man {n}.\tA plane {n}."
    ),
    "glue/STS-B": table(
        STS_HEAD, "{n}\tmain-news\tMSRpar\t2012\t3\tnone\tnone\tA {n}.\tB {n}.\t{b}.5"
    ),
    "glue/QNLI": table("index\tquestion\tsentence\tlabel", "{n}\tWho {n}?\tHe {n}.\t{label}"),
    "glue/": table("index\tsentence1\tsentence2\tlabel", "{n}\tA {n}.\tB {n}.\t{label}"),
    "squad": squad,
    "qa-zh": squad,
    "topics/tnews": table("", "标题第{n}个\tnews_{b}"),
    "pairs/afqmc": table("", "花呗第{n}个\t借呗第{n}个\t{b}"),
    "pairs/zh-stsb": table("", "飞机{n}起飞\t第{n}架飞机\t{b}"),
    "pairs/ocnli": objects("sentence1", "sentence2", "label"),
    "pairs/sick": table(
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
        "{n}\tA {n}\tB {n}\t{b}.6\t{label}",
    ),
    "pairs/sts": table(
        "subset\tsplit\tscore\tsentence1\tsentence2", "a\ttest\t{b}.5\tA {n}\tB {n}"
    ),
    "sentiment/chnsenticorp": table("", "酒店第{n}个\t{label}"),
    "sentiment/imdb": objects("id", "rating", "text", "label"),
    "topics/newsgroups20": objects("id", "subject", "text", "group"),
    "spam": table("", "{label}\tCall {n} now"),
    "langid": table("", "Satz {n}\t{label}"),
    "tagging/cluener": clue,
    "tagging/ud": blocks(
        "# text = Go now",
        "1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_",
        "2\tnow\tnow\tADV\t_\t_\t1\tadvmod\t_\t_",
        "",
    ),
    "tagging/msra": blocks("中 B-ORG", "共 I-ORG", "说 O", ""),
    "tagging/resume": blocks("高 B-NAME", "大 M-NAME", "勇 E-NAME", "， O", ""),
    "tagging/segmentation-zh/p": blocks("共同/d  创造/v  美好/a"),
    "tagging/": blocks("Paris\tB-LOC", "now\tO", ""),
    "aspects": blocks("The $T$ is fine .", "food", "1", "The $T$ is bad .", "wine", "-1"),
    "translation/multi30k": table("", "Sentence number {n}."),
    "translation/": table("", "Sentence number {n}.\t第{n}句。\tcmn_Hans"),
    "summarization/arxiv": objects("id", "title", "abstract", "category"),
    "summarization/scitldr": lambda count: '{"source": ["We. ", "It."], "target": ["a"]}\n' * count,
}
UNTAGGED = blocks("共同  创造  美好  ")
INTENT_FILES = {
    "seq.in": blocks("fly to boston", "play it"),
    "seq.out": blocks("O O B-city", "O O"),
    "label": blocks("fly", "play"),
}
FEW = 12


def write_source(path: Path, name: str) -> None:
    """Write a file or folder of a set with a few rows."""
    if name.startswith("intent-slots"):
        path.mkdir(parents=True)
        for file, write in INTENT_FILES.items():
            (path / file).write_text(write(FEW), encoding="utf-8")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    layout = next(write for begin, write in LAYOUTS.items() if name.startswith(begin))
    is_untagged = name.endswith(".utf8")
    sides = (
        [path.with_suffix(".en"), path.with_suffix(".de")] if name.endswith(".en-de") else [path]
    )
    for side in sides:
        side.write_text((UNTAGGED if is_untagged else layout)(FEW), encoding="utf-8")


@LEARNED
def test_official_layouts_are_read(task: SuiteTask, tmp_path: Path) -> None:
    assert task.kind is not None
    sources = {source.file for part in task.parts.values() for source in part}
    for name in sources:
        write_source(tmp_path / name, name)
    quarantine = Quarantine()
    whole = replace(task, held_out={})  # too few to be split
    parts = gather(whole, KINDS[task.kind].form, data=tmp_path, quarantine=quarantine)
    assert quarantine.num_bad == 0, quarantine.rows
    assert sum(map(len, parts.values())) >= FEW * len(sources)
    assert all(parts[name] for name in task.parts)


@pytest.mark.skipif(not DATA.is_dir(), reason="the public sets lie beside the repository, or not")
@LEARNED
def test_the_public_files_are_read_as_they_lie_there(task: SuiteTask) -> None:
    assert task.kind is not None
    form = KINDS[task.kind].form
    for sources in task.parts.values():
        for source in sources:
            quarantine, columns = Quarantine(), parse_columns(source.columns)
            file = find_file(DATA / source.file)
            found = list(islice(stream_examples(file, quarantine, form=form, columns=columns), 40))
            assert len(found) == 40
            assert quarantine.num_bad <= 1, quarantine.rows
