"""export --to onnx: a folder that answers by its ONNX file, compared before it appears."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks
from bertworks.core import optional
from bertworks.core.artifact import Origin, open_artifact
from bertworks.interop.onnx import FILE, SessionSettings, open_session
from bertworks.interop.onnx_graph import Graph
from bertworks.model.config import EncoderConfig
from bertworks.serving import parity
from bertworks.serving.model_folder import open_model, save_model
from bertworks.serving.onnx_encoder import OnnxEncoder
from bertworks.stages.onnx_export import read_material
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

SLOPE = np.arange(23.0)
TEXTS = ["River boat fish.", "engine", "wheel motor road " * 30]


@pytest.fixture
def export(tmp_path: Path, command):
    """Export a model to ONNX."""

    def run(model: Path, *words: object):
        out = tmp_path / "out"
        return out, command("export", "--model", model, "--to", "onnx", "--out", out, *words)

    return run


@pytest.mark.parametrize("operators", ["fused", "plain"])
def test_a_folder_answers_by_its_file_as_the_model_does(
    classifier: Path, export, labelled, operators: str
) -> None:
    words = ["--data", labelled["dev"], "--operators", operators, "--json"]
    out, ended = export(classifier, *words)
    assert ended.code == 0, ended.err
    open_artifact(out, "model")
    told, report = json.loads(ended.out), json.loads((out / "report.json").read_text())
    assert told["label_agreement"] == report["label_agreement"] == 1.0
    assert told["largest_difference"] <= 1e-5
    assert report["texts"] == report["answers"] == 17
    assert report["scores_before"] == report["scores_after"]
    before, after = bertworks.load(classifier), bertworks.load(out)
    assert isinstance(after.model.encoder, OnnxEncoder)
    for one, other in zip(before.predict(TEXTS), after.predict(TEXTS), strict=True):
        assert one["label"] == other["label"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    names = [
        item.name for item in open_session(out / FILE, SessionSettings(threads=1)).get_outputs()
    ]
    assert names == ["last_hidden_state", "logits"]


def test_int8_stays_near_and_says_what_each_layer_lost(pretrained: Path, export) -> None:
    out, ended = export(pretrained, "--precision", "int8", "--json")
    assert ended.code == 0, ended.err
    report = json.loads((out / "report.json").read_text())
    assert 0.99 <= report["mean_cosine"] < 1
    assert report["precision"] == "int8"
    assert 0.9 < report["lowest_cosine_alone"] <= report["mean_cosine_alone"] < 1
    assert len(report["damage_of_layers"]) == 8
    assert json.loads(ended.out)["layers_kept_in_fp32"] == len(report["kept_in_fp32"])
    exact, near = (bertworks.load(out, backend=name).embed(TEXTS) for name in ("torch", "onnx"))
    assert 0 < np.abs(exact - near).max() < 0.1
    assert (exact * near).sum(1).mean() > 0.99


def test_a_file_for_vectors_makes_them_by_itself(pretrained: Path, export) -> None:
    out, ended = export(pretrained, "--pooling", "max", "--max-length", 9)
    assert ended.code == 0, ended.err
    session = open_session(out / FILE, SessionSettings(threads=1))
    model = bertworks.load(out)
    assert model.recipe.pooling == "max"
    ids = np.array(model.tokenizer.ids_of(TEXTS[:1]), np.int64)
    ends = model.tokenizer.specials
    ids = np.concatenate([[[ends.first]], ids, [[ends.separator]]], axis=1)
    given = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
    (found,) = session.run(["sentence_embedding"], given)
    np.testing.assert_allclose(found, model.embed(TEXTS[:1]), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("score", {"mean": 2.5, "deviation": 1.7}),
        ("multilabel", {"labels": ("a", "b"), "prior": [0.3, -1.0]}),
    ],
)
def test_the_logits_of_a_file_are_whole_by_themselves(
    tmp_path: Path, pretrained: Path, export, kind: str, options: dict[str, Any]
) -> None:
    opened = open_model(pretrained, tasks=[make_task(kind, **options)])
    save_model(tmp_path / "model", opened.model, opened.tokenizer, origin=Origin())
    out, ended = export(tmp_path / "model")
    assert ended.code == 0, ended.err
    model = bertworks.load(out, backend="torch")
    session = open_session(out / FILE, SessionSettings(threads=1))
    ends, (ids,) = model.tokenizer.specials, model.tokenizer.ids_of(TEXTS[:1])
    tokens = np.array([[ends.first, *ids, ends.separator]])
    given = {"input_ids": tokens, "attention_mask": tokens * 0 + 1, "token_type_ids": tokens * 0}
    ((logits,),) = session.run(["logits"], given)
    (answer,) = model.predict(TEXTS[:1])
    chances = answer.get("probabilities", {"": answer.get("score")})
    found = 1 / (1 + np.exp(-logits)) if kind == "multilabel" else logits
    np.testing.assert_allclose(found, list(chances.values()), atol=1e-5)


def test_a_model_that_is_exported_can_be_exported_again(pretrained: Path, export, command) -> None:
    out, _ = export(pretrained)
    again = out.with_name("again")
    ended = command("export", "--model", out, "--to", "onnx", "--out", again)
    assert ended.code == 0, ended.err
    assert (again / FILE).read_bytes() == (out / FILE).read_bytes()


def test_the_command_in_the_manifest_makes_the_same_folder(
    tmp_path: Path, pretrained: Path, export, run_again, contents
) -> None:
    out, _ = export(pretrained, "--precision", "int8")
    first, second = contents(out), contents(run_again(out, tmp_path / "second"))
    assert {name for name in first if first[name] != second.get(name)} == {"manifest.json"}


def test_a_file_that_is_too_far_is_thrown_away(
    pretrained: Path, export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Graph, "bend", lambda graph, vectors, activation, bias=None: graph.add("Tanh", vectors)
    )
    out, ended = export(pretrained)
    sentence = ended.refusal(1)
    assert "the exported file gives vectors that differ by" in sentence
    assert "0.0001 is asked for" in sentence
    assert not out.exists()


@pytest.mark.parametrize(
    ("flag", "word"), [("--precision", "int8"), ("--operators", "plain"), ("--data", "x.jsonl")]
)
def test_other_folders_take_no_words_about_onnx_files(
    tmp_path: Path, pretrained: Path, flag: str, word: str, command
) -> None:
    words = ["--model", pretrained, "--to", "hugging-face", "--out", tmp_path / "out"]
    sentence = command("export", *words, flag, word).refusal(2)
    assert f"another library takes no {flag}" in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_said_before_anything_is_read(
    pretrained: Path, export, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(optional, "import_module", missing)
    out, ended = export(pretrained)
    assert "export to ONNX needs: pip install 'bertworks[onnx]'" in ended.refusal(1)
    assert not out.exists()


def test_data_that_are_not_there_are_named(tmp_path: Path, pretrained: Path, export) -> None:
    out, ended = export(pretrained, "--data", tmp_path / "gone.jsonl")
    assert "gone.jsonl" in ended.refusal(1)
    assert not out.exists()


def test_a_model_of_vectors_is_compared_on_single_texts(
    tmp_path: Path, pretrained: Path, export, command
) -> None:
    vectors, data = tmp_path / "vectors", tmp_path / "texts.jsonl"
    words = ["--to", "sentence-transformers", "--out", vectors]
    assert command("export", "--model", pretrained, *words).code == 0
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    out, ended = export(vectors, "--data", data)
    assert ended.code == 0, ended.err
    report = json.loads((out / "report.json").read_text())
    assert (report["texts"], report["answers"]) == (3, 0)
    assert "without labels" in ended.err


ROWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "tag": ({"tokens": ["River", "boat"], "tags": ["O", "B-X"]}, ["River boat"]),
    "answer": (
        {"question": "Which?", "passage": "The boat.", "answers": [{"text": "boat", "start": 4}]},
        ["Which?", "The boat."],
    ),
    "choose": (
        {"question": "Which?", "choices": ["road", "wheel"], "passage": "A boat.", "label": 1},
        ["Which?", "A boat.", "road", "wheel"],
    ),
    "relate": (
        {"text": "boat and fish", "first": [0, 4], "second": [9, 13], "label": "a"},
        ["boat and fish"],
    ),
    "generate": ({"source": "motor", "target": "wheel"}, ["motor"]),
    "match": ({"text": "one", "text_b": "two", "label": "a"}, ["one", "two"]),
}
LABELS = {"tag": ("B-X", "O"), "relate": ("a", "b"), "match": ("a", "b")}


@pytest.mark.parametrize("kind", ROWS)
def test_the_texts_of_every_kind_of_example_are_compared(
    tmp_path: Path, config: EncoderConfig, tokenizer: Tokenizer, kind: str
) -> None:
    model = TaskModel(config, [make_task(kind, LABELS.get(kind, ()))])
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    row, texts = ROWS[kind]
    data = tmp_path / "data.jsonl"
    data.write_text((json.dumps(row) + "\n") * 3)
    material = read_material(data, bertworks.load(tmp_path / "model", backend="torch"))
    assert material.texts == texts * 3
    assert (len(material.examples), material.labelled) == (3, True)


def test_the_order_of_cosines_is_told_and_compared_with_gold(
    tmp_path: Path, pretrained: Path, export, command, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, data = tmp_path / "vectors", tmp_path / "pairs.jsonl"
    words = ["--to", "sentence-transformers", "--out", vectors]
    assert command("export", "--model", pretrained, *words).code == 0
    rows = [
        {"text": f"river {'boat ' * n}", "text_b": f"{'wheel ' * (n % 7)}road", "score": n % 5}
        for n in range(23)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out, ended = export(vectors, "--data", data, "--json")
    assert ended.code == 0, ended.err
    told, report = json.loads(ended.out), json.loads((out / "report.json").read_text())
    assert (report["texts"], report["answers"]) == (46, 23)
    assert told["spearman"] == report["spearman"] > 0.999
    assert told["spearman_of_cosines"] > 0.99
    assert told["spearman_with_gold_before"] == report["scores_before"]["spearman"]
    assert told["spearman_with_gold_after"] == pytest.approx(told["spearman_with_gold_before"])
    turn = iter((1, -1))
    monkeypatch.setattr(parity, "_numbers", lambda _: next(turn) * SLOPE)
    _, ended = export(vectors, "--data", data, "--out", tmp_path / "bent")
    assert "scores whose Spearman with the model's is -1.0000" in ended.refusal(1)
    assert not (tmp_path / "bent").exists()


def test_a_model_that_writes_its_answers_is_refused(
    tmp_path: Path, config: EncoderConfig, tokenizer: Tokenizer, export
) -> None:
    model = TaskModel(config, [make_task("generate")])
    save_model(tmp_path / "writer", model, tokenizer, origin=Origin())
    out, ended = export(tmp_path / "writer")
    assert "writes its answers piece by piece, for which there is no ONNX" in ended.refusal(2)
    assert not out.exists()
