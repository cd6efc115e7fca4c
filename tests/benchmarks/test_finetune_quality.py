"""Benchmarks against transformers: what has no peer, or is missing, is one sentence."""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from bertworks.evaluation.suites import INTENTS, PAIRS, TAGS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WELL = {"failure": None}
SPANS = {"text": "浙商银行", "spans": [{"start": 0, "end": 4, "label": "company"}]}
WORDS = {"tokens": ["Paris"], "tags": ["B-LOC"]}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Return a way to import a benchmark."""

    def load(name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        return import_module(name)

    return load


@pytest.mark.parametrize(
    ("task", "row", "result", "said"),
    [
        (TAGS["cluener"], SPANS, WELL, "has no peer: transformers tags words"),
        (TAGS["wikiann"], WORDS, WELL, None),
        (TAGS["wikiann"], WORDS, {"failure": "no file"}, "it failed"),
        (INTENTS["atis"], WORDS, WELL, "no class for intent_slots"),
        (PAIRS["cranfield"], WORDS, WELL, "by the model of sick_vectors"),
    ],
)
def test_a_task_without_a_peer_says_why(
    task, row, result, said: str | None, benchmark, tmp_path: Path
) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    why = benchmark("finetune_quality").why_alone(task, tmp_path, result)
    assert why is None if said is None else said in why


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("finetune_quality", ["nowhere"], "run bertworks evaluate --suite first"),
        ("finetune_quality", [".", "--only", "mrcp"], "has no mrcp; it has mrpc"),
        ("finetune_speed", ["--sentences", "nowhere.tsv"], "there is no nowhere.tsv"),
        ("finetune_speed", ["--rounds", "0"], "are 1 or more"),
        ("streaming", ["--rows", "0"], "are 1 or more"),
        ("service_speed", ["--model", ".", "--rounds", "0"], "are 1 or more"),
        ("service_speed", ["--model", ".", "--infinity", "no"], "there is no no"),
        ("service_faults", ["--share", "0"], "is not above 0"),
    ],
)
def test_what_is_missing_is_one_sentence(
    name: str, words: list[str], said: str, benchmark, tmp_path: Path, monkeypatch, capsys
) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"tasks": {"mrpc": {}}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *words])
    with pytest.raises(SystemExit) as ended:
        benchmark(name).main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
