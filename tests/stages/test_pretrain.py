"""pretrain: shards become a model that says how it was made, or nothing is begun."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import bertworks
from bertworks.core.artifact import MANIFEST, Origin, read_manifest, seal
from bertworks.core.settings import Ramp, as_json
from bertworks.model.config import EncoderConfig
from bertworks.model.weights import read_tensors
from bertworks.stages.settings import PretrainSettings
from bertworks.tasks.catalog import make_task
from bertworks.training.log import read_log
from bertworks.training.run import whole_checkpoints

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Contents = Callable[[Path], dict[str, bytes]]
MODEL = ("model.safetensors", "config.json", "bertworks.json", "tokenizer.json", "log.jsonl")


def made(folder: Path) -> dict[str, bytes]:
    """Return what two runs can be compared by."""
    return {name: (folder / name).read_bytes() for name in MODEL}


def unfinished(pretrained: Path, folder: Path) -> Path:
    """Copy a run as it was before its model was written."""
    shutil.copytree(pretrained, folder)
    for path in folder.iterdir():
        if path.is_dir() and path.name not in ("checkpoints", "best"):
            shutil.rmtree(path)
        elif path.is_file() and path.name != "log.jsonl":
            path.unlink()
    return folder


def test_a_model_says_how_it_was_made(pretrained: Path, shards: Path) -> None:
    manifest = read_manifest(pretrained)
    settings = PretrainSettings(
        shards,
        out=pretrained,
        size="2x64",
        longest=32,
        steps=6,
        batch_tokens=Ramp(512, 512),
        evaluate_every=3,
        checkpoint_every=2,
        lr=0.002,
    )
    assert (manifest["kind"], manifest["seed"]) == ("model", 0)
    assert manifest["settings"] == as_json(settings) | {"precision": "fp32"}
    assert manifest["inputs"]["shards"]["path"] == str(shards)
    assert set(MODEL[:4]) < set(manifest["files"])


def test_the_written_command_makes_the_same_model(
    pretrained: Path, tmp_path: Path, run_again: Callable[..., Path]
) -> None:
    assert made(run_again(pretrained, tmp_path / "again")) == made(pretrained)
    other = made(run_again(pretrained, tmp_path / "other", more=("--seed", "1")))
    assert other["model.safetensors"] != made(pretrained)["model.safetensors"]
    assert other["log.jsonl"] != made(pretrained)["log.jsonl"]


def test_without_scores_on_the_way_the_last_step_is_the_best(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "run", steps=3, evaluate_every=0), "--json")
    assert json.loads(ended.out)["best_step"] == 3


def test_the_result_is_json_and_the_course_is_said(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "run", steps=2), "--json")
    result = json.loads(ended.out)
    assert (result["model"], result["steps"], result["best_step"]) == (str(tmp_path / "run"), 2, 2)
    assert {"loss", "fill_mask_loss", "next_sentence_accuracy", "seconds"} < result.keys()
    assert "pre-training " in ended.err
    assert "training: 2/2 steps" in ended.err
    assert "after step 2: loss " in ended.err


def test_the_log_has_a_line_for_every_step_and_evaluation(pretrained: Path) -> None:
    log = read_log(pretrained)
    assert [row["step"] for row in log if "lr" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in log if "evaluation" in row] == [3, 6]
    assert len(whole_checkpoints(pretrained)) == 3  # the newest two, and the first, for a rollback


def test_a_model_comes_with_the_report_of_its_training(pretrained: Path) -> None:
    told = json.loads((pretrained / "report.json").read_text())
    held_out = json.loads((pretrained / "bertworks.json").read_text())["held_out"]
    assert {own["name"]: own["value"] for own in told["scores"]["scores"]} == held_out
    assert told["speed"]["counts"] == {"steps": 6}
    assert told["speed"]["peak_memory"] > 0
    assert all(own["low"] <= own["value"] <= own["high"] for own in told["scores"]["scores"])
    assert "parameters after 6 steps, scored on text of " in told["summary"]
    (shards,) = told["data"]["files"]
    assert (shards["name"], len(shards["sha256"])) == ("shards", 64)
    assert shards["rows"] > 1
    assert told["again"]["command"].startswith("bertworks pretrain ")
    titles = [chart["title"] for chart in told["curves"]["charts"]]
    assert "Losses on held-out examples" in titles
    assert "<h2>Course of the training</h2>" in (pretrained / "report.html").read_text()


def test_sizes_come_by_name_or_by_shape(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    for size, layers, width in (("tiny", 2, 128), ("1x65", 1, 65)):
        out = tmp_path / size
        assert command(*pretrain_words(out, size=size, steps=1)).code == 0
        config = json.loads((out / "config.json").read_text())
        assert (config["num_hidden_layers"], config["hidden_size"]) == (layers, width)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("huge", "there is no size 'huge'; use tiny, mini, small, medium, base, large or LAYERSx"),
        ("2x", "there is no size '2x'"),
        ("roberta-", "there is no size ''"),
        ("gpt-mini", "there is no family 'gpt'; the families are bert, roberta, "),
        ("0x64", "num_layers is 0; it must be a whole number from 1 up"),
        ("1x0", "hidden_size is 0; it must be a whole number from 1 up"),
        ("recurrent-1x129", "hidden_size 129 cannot be shared by two directions"),
        ("modern-1x129", "an attention head of width 129 cannot be turned in pairs"),
    ],
)
def test_a_size_that_cannot_be_is_one_sentence(
    size: str, said: str, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    assert said in command(*pretrain_words(tmp_path / "run", size=size)).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_there_is_a_position_for_every_piece_of_the_longest_text_and_no_more(
    pretrain_words: Words, pretrained: Path, tmp_path: Path, command: Run
) -> None:
    assert command(*pretrain_words(tmp_path / "run", longest=700, steps=1)).code == 0
    for folder, longest in ((tmp_path / "run", 700), (pretrained, 32)):
        config = json.loads((folder / "config.json").read_text())
        assert config["max_position_embeddings"] == longest


def test_without_next_sentences_there_is_one_objective(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    ended = command(*pretrain_words(out, objectives="fill_mask", steps=2), "--json")
    assert not [name for name in json.loads(ended.out) if "next_sentence" in name]
    assert json.loads((out / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    assert list(json.loads((out / "bertworks.json").read_text())["tasks"]) == ["fill_mask"]


# What is hidden


@pytest.mark.parametrize("kind", ["word", "span", "ngram"])
def test_what_is_hidden_together_is_a_setting(
    kind: str, pretrained: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    changed = {"mask_kind": kind, "masked_share": 1, "random_share": 0}
    ended = command(*pretrain_words(tmp_path / "out", **changed))
    assert ended.code == 0, ended.err
    assert f"hiding by {kind}; words are those of tokenize --words text" in ended.err
    weights = made(tmp_path / "out")["model.safetensors"]
    assert weights != made(pretrained)["model.safetensors"]
    assert read_manifest(tmp_path / "out")["settings"]["mask_kind"] == kind


def test_shares_of_more_than_all_are_one_sentence(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "out", masked_share=0.9, random_share=0.2))
    assert "0.9 and the random share 0.2 are more than the whole" in ended.refusal(2)
    assert not (tmp_path / "out").exists()


# Objectives


def tasks_of(folder: Path) -> list[str]:
    return list(json.loads((folder / "bertworks.json").read_text())["tasks"])


def architecture_of(folder: Path) -> str:
    return json.loads((folder / "config.json").read_text())["architectures"][0]


def test_albert_learns_the_order_of_sentences(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "run", size="albert-1x64", steps=2), "--json")
    assert {"fill_mask_loss", "sentence_order_accuracy"} < json.loads(ended.out).keys()
    assert tasks_of(tmp_path / "run") == ["fill_mask", "sentence_order"]
    assert architecture_of(tmp_path / "run") == "AlbertForPreTraining"


def test_both_objectives_of_pairs_are_learned_together(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    names = ["sentence_order=0.5", "fill_mask", "next_sentence"]
    ended = command(*pretrain_words(tmp_path / "run", objectives=names, steps=2), "--json")
    assert ended.code == 0, ended.err
    steps = [entry for entry in read_log(tmp_path / "run") if "lr" in entry]
    assert all({"fill_mask", "next_sentence", "sentence_order"} < entry.keys() for entry in steps)
    assert tasks_of(tmp_path / "run") == ["fill_mask", "next_sentence", "sentence_order"]


def test_an_objective_without_weight_is_not_learned(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    heads = {}
    for weight in ("0", "0..1"):
        out = tmp_path / weight
        names = ["fill_mask", f"next_sentence={weight}"]
        words = pretrain_words(out, objectives=names, steps=3, weight_decay=0, evaluate_every=0)
        assert command(*words).code == 0
        heads[weight] = read_tensors(out / "model.safetensors")["cls.seq_relationship.weight"]
    assert not torch.equal(heads["0"], heads["0..1"])
    fresh = make_task("next_sentence").head(EncoderConfig.named("2x64")).output.weight
    assert heads["0"].shape == fresh.shape
    assert heads["0"].abs().max() <= 0.04  # as it was drawn


@pytest.fixture(scope="module")
def electra(
    pretrain_words: Words, command: Run, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Any]:
    """Pre-train an ELECTRA for a few steps."""
    out = tmp_path_factory.mktemp("electra") / "run"
    return out, command(*pretrain_words(out, size="electra-2x64"), "--json")


def test_electra_leaves_its_discriminator_and_its_generator_beside_it(
    electra: tuple[Path, Any],
) -> None:
    out, ended = electra
    assert ended.code == 0, ended.err
    assert (tasks_of(out), architecture_of(out)) == (["replaced_token"], "ElectraForPreTraining")
    assert tasks_of(out / "generator") == ["fill_mask"]
    assert architecture_of(out / "generator") == "ElectraForMaskedLM"
    widths = [
        json.loads((folder / "config.json").read_text())["hidden_size"]
        for folder in (out, out / "generator")
    ]
    assert widths == [64, 16]
    table = "electra.embeddings.word_embeddings.weight"
    ours, theirs = (read_tensors(f / "model.safetensors") for f in (out, out / "generator"))
    assert torch.equal(ours[table], theirs[table])
    (answer,) = bertworks.load(out / "generator").predict(["river [MASK] water"])
    assert len(answer["masks"][0]) == 5
    best = bertworks.load(out).fill_mask("river [MASK] water")[0]
    assert best.token == answer["masks"][0][0]["token"]
    (found,) = bertworks.load(out).predict(["river boat"])
    assert all(0 < chance < 1 for chance in found["replaced"])


def test_the_generator_alone_may_move_the_table_of_pieces(
    pretrain_words: Words, electra: tuple[Path, Any], command: Run, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = pretrain_words(out, size="electra-2x64", shared_table="generator")
    assert command(*words).code == 0
    table = "electra.embeddings.word_embeddings.weight"
    ours, theirs = (read_tensors(f / "model.safetensors") for f in (out, out / "generator"))
    assert ours.keys() == read_tensors(electra[0] / "model.safetensors").keys()
    assert not torch.equal(ours[table], theirs[table])
    torch.testing.assert_close(ours[table], theirs[table], atol=0.05, rtol=0)  # in a short run


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "which is no objective of this run; leave it out or add --objectives replaced_token"),
        ({"objectives": "replaced_token", "sharding": "full"}, "--sharding full leaves each"),
    ],
)
def test_a_table_that_cannot_be_shared_so_is_refused(
    pretrain_words: Words, command: Run, tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    words = pretrain_words(tmp_path / "run", shared_table="generator", **changed)
    assert said in command(*words).refusal(2)


def test_electra_says_how_both_networks_fare(electra: tuple[Path, Any]) -> None:
    out, ended = electra
    result = json.loads(ended.out)
    names = ("share", "precision", "recall", "f1", "accuracy", "loss")
    assert {f"replaced_token_{name}" for name in names} < result.keys()
    assert 0.05 < result["replaced_token_share"] < 0.2  # of 15 % nearly all come out wrong yet
    assert {"fill_mask_loss", "fill_mask_accuracy"} < result.keys()
    assert not (out / "best").exists()  # no moment is better than another


def test_an_electra_that_was_stopped_ends_in_the_same_bits(
    electra: tuple[Path, Any], pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = unfinished(electra[0], tmp_path / "run")
    for checkpoint in whole_checkpoints(out)[1:]:
        shutil.rmtree(checkpoint)
    ended = command(*pretrain_words(out, size="electra-2x64"), "--resume", "auto")
    assert ended.code == 0, ended.err
    assert "resuming after step " in ended.err
    assert made(out) == made(electra[0])
    name = "generator/model.safetensors"
    assert (out / name).read_bytes() == (electra[0] / name).read_bytes()
    other = command(*pretrain_words(tmp_path / "other", size="electra-2x64", seed=1))
    assert other.code == 0
    assert made(tmp_path / "other") != made(out)


def test_some_steps_ask_for_the_next_piece(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    causal = {"objectives": ["fill_mask", "next_piece=0.5"], "causal_share": 0.5}
    ended = command(*pretrain_words(out, **causal, steps=8), "--json")
    assert ended.code == 0, ended.err
    steps = [entry for entry in read_log(out) if "lr" in entry]
    assert {"fill_mask" in entry for entry in steps} == {True, False}
    assert all(("next_piece" in entry) != ("fill_mask" in entry) for entry in steps)
    assert {"next_piece_loss", "next_piece_accuracy"} < json.loads(ended.out).keys()
    assert (tasks_of(out), architecture_of(out)) == (["fill_mask"], "BertForMaskedLM")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"objectives": "fil_mask"}, "there is no objective 'fil_mask'"),
        ({"objectives": "next_sentence"}, "need fill_mask beside them; add it"),
        (
            {"objectives": ["fill_mask", "next_piece"], "size": "recurrent-1x64"},
            "next_piece needs attention to whole texts",
        ),
        ({"short_longest": 32}, "--short-longest is 32, but it must be below --longest 32"),
        (
            {"mask_rate": "0.3..1"},
            "--mask-rate is '0.3..1', but it must be a number or a ramp A..B",
        ),
        ({"batch_tokens": "0..9"}, "--batch-tokens is '0..9'"),
    ],
)
def test_objectives_and_ramps_that_cannot_be_are_one_sentence(
    changed: dict[str, Any], said: str, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    assert said in command(*pretrain_words(tmp_path / "run", **changed)).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_shares_of_the_same_texts_are_not_more_than_all(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    shares = {"objectives": "fill_mask", "split_share": 0.75, "repeat_share": 0.5}
    said = command(*pretrain_words(tmp_path / "run", **shares)).refusal(2)
    assert said.startswith("--split-share 0.75 and --repeat-share 0.5 are shares of the same texts")
    shares["objectives"] = [
        "fill_mask",
        "next_sentence",
    ]  # which makes pairs of all texts, whatever the shares
    assert command(*pretrain_words(tmp_path / "run", **shares, steps=1)).code == 0


def test_losses_of_held_out_texts_do_not_depend_on_what_is_repeated(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    losses = []
    for share in (0.0, 1.0):
        out = tmp_path / f"run-{share}"
        asked = {"objectives": "fill_mask", "repeat_share": share, "steps": 1, "lr": 1e-12}
        assert command(*pretrain_words(out, **asked)).code == 0
        losses.append(json.loads((out / "bertworks.json").read_text())["held_out"]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(
    ("changed", "remedy"),
    [
        ({"batch_tokens": "256..512"}, "give one value, as --batch-tokens 512"),
        ({"mask_rate": "0.3..0.15"}, "give one value, as --mask-rate 0.15"),
        ({"causal_share": "0.1..0.2"}, "give one value, as --causal-share 0.2"),
        ({"short_longest": 16}, "leave it out"),
    ],
)
def test_batches_that_change_need_a_number_of_steps(
    changed: dict[str, Any], remedy: str, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    words = pretrain_words(tmp_path / "run", **changed)
    at = words.index("--steps")
    words[at : at + 2] = ["--budget", "9s"]
    ((name, value),) = changed.items()
    said = command(*words).refusal(2)
    assert said.startswith(f"--{name.replace('_', '-')} {value} changes over the steps of a run")
    assert f"--budget 9s leaves their number open; {remedy}, or also give the --steps" in said


def test_texts_grow_and_steps_grow_in_a_run_that_can_be_stopped(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ramps = {
        "short_longest": 12,
        "short_share": 0.5,
        "batch_tokens": "200..600",
        "mask_rate": "0.4..0.15",
    }
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert command(*pretrain_words(whole, **ramps)).code == 0
    unfinished(whole, stopped)
    for checkpoint in whole_checkpoints(stopped)[1:]:
        shutil.rmtree(checkpoint)
    ended = command(*pretrain_words(stopped, **ramps), "--resume", "auto")
    assert "resuming after step " in ended.err
    assert made(stopped) == made(whole)


# Training a model further


def continued(words: list[Any]) -> list[Any]:
    """Leave out the size, which a model has."""
    at = words.index("--size")
    return [*words[:at], *words[at + 2 :]]


def test_a_model_is_trained_further_from_where_it_stands(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    words = continued(pretrain_words(tmp_path / "run", model=pretrained, steps=1, lr=1e-9))
    ended = command(*words)
    assert ended.code == 0, ended.err
    assert "tensors matched" in ended.err
    before, after = (read_tensors(f / "model.safetensors") for f in (pretrained, tmp_path / "run"))
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[n], after[n], atol=1e-6) for n in before)
    manifest = read_manifest(tmp_path / "run")
    assert manifest["inputs"]["model"]["path"] == str(pretrained)
    assert manifest["inputs"]["model"]["sha256"]


def test_heads_that_a_model_lacks_start_fresh_and_are_named(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    names = ["fill_mask", "sentence_order"]
    words = pretrain_words(tmp_path / "run", model=pretrained, objectives=names, steps=2)
    ended = command(*continued(words))
    assert ended.code == 0, ended.err
    assert "2 start fresh (heads.sentence_order.output.weight" in ended.err
    assert tasks_of(tmp_path / "run") == names


def test_an_electra_is_trained_further_with_its_own_generator(
    electra: tuple[Path, Any], pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    words = continued(pretrain_words(out, model=electra[0], steps=1, lr=1e-9))
    ended = command(*words)
    assert ended.code == 0, ended.err
    for name in ("model.safetensors", "generator/model.safetensors"):
        before, after = (read_tensors(folder / name) for folder in (electra[0], out))
        assert all(torch.allclose(before[n], after[n], atol=1e-6) for n in before)
    alone = shutil.copytree(electra[0], tmp_path / "alone")
    shutil.rmtree(alone / "generator")
    (alone / MANIFEST).unlink()
    ended = command(*continued(pretrain_words(tmp_path / "fresh", model=alone, steps=1)))
    assert ended.code == 0, ended.err
    assert f"{alone} has no folder generator, so the generator starts fresh" in ended.err


@pytest.mark.parametrize(
    ("size", "learned"),
    [("modern-1x64", ["replaced_token"]), ("1x64", ["fill_mask"]), ("modern-1x64", ["fill_mask"])],
)
def test_without_objectives_a_model_goes_on_with_what_it_has_learned(
    size: str, learned: list[str], pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    """They need not be those of its family: BERT has next sentences, a ModernBERT hidden words."""
    first, second = tmp_path / "first", tmp_path / "second"
    words = pretrain_words(first, size=size, objectives=learned, steps=1)
    assert command(*words).code == 0
    ended = command(*continued(pretrain_words(second, model=first, steps=1)))
    assert ended.code == 0, ended.err
    assert tasks_of(second) == tasks_of(first) == learned
    weights = "fill_mask=1, replaced_token=50" if "replaced_token" in learned else "fill_mask"
    assert f" parameters on cpu: {weights}\n" in ended.err
    assert (second / "generator").is_dir() == ("replaced_token" in learned)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "--size 2x64 and --model MODEL contradict each other"),
        ({"size": None, "longest": 33}, "--longest is 33, but MODEL reads 32 pieces; lower it"),
    ],
)
def test_a_model_and_flags_that_contradict_it_are_one_sentence(
    changed: dict[str, Any],
    said: str,
    pretrained: Path,
    pretrain_words: Words,
    tmp_path: Path,
    command: Run,
) -> None:
    words = pretrain_words(tmp_path / "run", model=pretrained, **changed)
    words = continued(words) if "size" in changed else words
    assert said.replace("MODEL", str(pretrained)) in command(*words).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_shards_of_another_vocabulary_are_refused(
    pretrained: Path, text: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    other = tmp_path / "tokenizer"
    assert command("learn-vocab", text, "--out", other, "--size", 130, "--cased").code == 0
    words = ["tokenize", text, "--tokenizer", other, "--out", tmp_path / "shards"]
    assert command(*words, "--held-out", 0.2, "--workers", 1).code == 0
    given = {"shards": tmp_path / "shards", "model": pretrained}
    said = command(*continued(pretrain_words(tmp_path / "run", **given))).refusal(1)
    assert said.startswith(f"the shards have another vocabulary than {pretrained} (they differ in")
    assert said.endswith(f"tokenize the text again with --tokenizer {pretrained}")


# Diagnoses


def test_what_usually_goes_wrong_is_said_and_saved(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "run"
    ended = command(*pretrain_words(out, lr=1e-9, steps=3, evaluate_every=1), "--json")
    warnings = json.loads(ended.out)["warnings"]
    (pinned,) = [w for w in warnings if w.startswith("the loss of fill_mask is")]
    assert "was learned from context" in pinned
    assert ended.err.count(f"warning: {pinned}") == 2  # when it lasted, and in the end
    assert json.loads((out / "bertworks.json").read_text())["warnings"]["unigram"] == pinned


def test_a_network_that_no_other_library_will_know_is_named_before_the_run(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    model, out = tmp_path / "model", tmp_path / "exported"
    ended = command(*pretrain_words(model, size="mpnet-1x64", steps=1))
    said = "the classes of mpnet take piece 1 for padding, and its vocabulary has that as piece 0"
    assert f"warning: no other library will know this network: {said} (learn-vocab" in ended.err
    refused = command("export", "--model", model, "--to", "hugging-face", "--out", out).refusal(1)
    assert said in refused


def test_a_run_that_learns_is_not_blamed_for_it(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    learning = {"steps": 60, "size": "modern-1x64", "lr": 0.01, "evaluate_every": 0}
    ended = command(*pretrain_words(tmp_path / "run", **learning), "--json")
    assert json.loads(ended.out)["warnings"] == []
    assert "warning" not in ended.err


# Going on


def tell_of_a_long_time(checkpoint: Path) -> None:
    """Let a checkpoint say that its run has taken 5,000 seconds."""
    (checkpoint / "time.json").write_text(json.dumps({"seconds": 5000.0}))
    told = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).unlink()
    inputs = {name: Path(entry["path"]) for name, entry in told["inputs"].items()}
    named = {key: told[key] for key in ("command", "settings", "seed")}
    seal(checkpoint, "checkpoint", Origin(**named, inputs=inputs))


def test_a_run_whose_newest_checkpoint_is_torn_goes_on_from_the_one_before(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    out = unfinished(pretrained, tmp_path / "run")
    newest = whole_checkpoints(out)[-1]
    os.truncate(newest / "model.safetensors", 999)
    tell_of_a_long_time(whole_checkpoints(out)[-1])
    ended = command(*pretrain_words(out), "--resume", "auto")
    assert ended.code == 0, ended.err
    assert f"warning: checkpoint {newest} is passed over" in ended.err
    assert "resuming after step 4" in ended.err
    assert made(out) == made(pretrained)
    speed = json.loads((out / "report.json").read_text())["speed"]
    assert speed["counts"] == {"steps": 6}  # in both processes
    assert 5000 < speed["seconds"] < 5600


def test_an_unfinished_run_is_continued_only_when_that_is_asked_for(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, contents: Contents, command: Run
) -> None:
    out = unfinished(pretrained, tmp_path / "run")
    before = contents(out)
    said = command(*pretrain_words(out)).refusal(2)
    assert said.startswith(f"{out} holds an unfinished run; continue it with --resume auto")
    changed = command(*pretrain_words(out, lr=0.5), "--resume", "auto").refusal(2)
    assert changed.startswith(f"{out} was begun with lr = 0.002, now 0.5; resume with the same")
    assert contents(out) == before


def test_what_is_there_already_is_left_alone(
    pretrained: Path, pretrain_words: Words, tmp_path: Path, contents: Contents, command: Run
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for out, said in ((pretrained, "holds a finished run"), (tmp_path, "exists already")):
        before = contents(out)
        ended = command(*pretrain_words(out))
        assert f"{out} {said}; choose another --out or remove it first" in ended.refusal(2)
        assert contents(out) == before


def test_a_finished_run_with_other_settings_is_told_what_has_changed(
    pretrained: Path, pretrain_words: Words, contents: Contents, command: Run
) -> None:
    before = contents(pretrained)
    ended = command(*pretrain_words(pretrained, seed=1, resume="auto"))
    assert ended.refusal(2) == (
        f"{pretrained} was begun with seed = 0, now 1; resume with the same settings or choose "
        f"another --out; to train the finished model on: --model {pretrained} --out NEW"
    )
    assert contents(pretrained) == before


def test_a_finished_run_need_not_be_continued(
    pretrained: Path, pretrain_words: Words, contents: Contents, command: Run
) -> None:
    before = contents(pretrained)
    ended = command(*pretrain_words(pretrained, resume="auto"), "--json")
    assert (ended.code, json.loads(ended.out)) == (0, {"model": str(pretrained)})
    assert "is finished already" in ended.err
    assert contents(pretrained) == before


# Bad input


@pytest.mark.parametrize("kind", ["vocabulary", "pretrained", "text", "nowhere"])
def test_a_folder_that_holds_no_shards_is_one_sentence(
    kind: str, pretrain_words: Words, tmp_path: Path, command: Run, request: pytest.FixtureRequest
) -> None:
    given = tmp_path / "nowhere" if kind == "nowhere" else request.getfixturevalue(kind)
    said = {
        "vocabulary": f"{given} holds a tokenizer, but shards are needed here; check the path",
        "pretrained": f"{given} holds a model, but shards are needed here; check the path",
    }.get(kind, f"there is no folder {given}; check the path")
    assert command(*pretrain_words(tmp_path / "run", shards=given)).refusal(1) == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["tokens-00000.bin", "words-00000.bin", "tokenizer/tokenizer.json", MANIFEST]
)
def test_torn_shards_are_found_before_the_run_begins(
    name: str, shards: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    torn = shutil.copytree(shards, tmp_path / "shards")
    os.truncate(torn / name, 17)
    said = command(*pretrain_words(tmp_path / "run", shards=torn)).refusal(1)
    assert str(torn / name) in said
    assert said.endswith("make the folder again")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0, "has no held-out documents; tokenize again with a larger --held-out"),
        (0.9999, "has no documents to train on; tokenize more text"),
    ],
)
def test_shards_without_a_side_to_learn_or_to_judge_by_are_one_sentence(
    share: float,
    said: str,
    text: Path,
    vocabulary: Path,
    pretrain_words: Words,
    tmp_path: Path,
    command: Run,
) -> None:
    out = tmp_path / "shards"
    words = ["tokenize", text, "--tokenizer", vocabulary, "--out", out, "--held-out", share]
    assert command(*words, "--workers", 1).code == 0
    ended = command(*pretrain_words(tmp_path / "run", shards=out))
    assert ended.refusal(1) == f"{out} {said}"
    assert not (tmp_path / "run").exists()


def test_weights_that_came_apart_are_not_saved_as_a_model(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "run", lr=1e30, steps=3), "--json")
    assert "the loss on held-out text is nan in the end" in ended.refusal(1)
    assert "lower --lr" in ended.err
    assert not (tmp_path / "run" / "model.safetensors").exists()


# Ways to learn


@pytest.mark.parametrize(
    "changed",
    [
        {"optimizer": "lamb", "schedule": "cosine"},
        {"optimizer": "muon", "schedule": "stable", "decay": 0.5, "average": 0.5},
        {"schedule": "constant", "beta2": 0.98, "epsilon": 1e-8, "z_loss": 1e-2},
    ],
    ids=str,
)
def test_other_ways_to_learn_make_other_models_and_are_continued_exactly(
    changed: dict[str, Any], pretrained: Path, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    whole = tmp_path / "whole"
    assert command(*pretrain_words(whole, **changed)).code == 0
    assert made(whole)["model.safetensors"] != made(pretrained)["model.safetensors"]
    assert made(whole)["config.json"] == made(pretrained)["config.json"]
    out = unfinished(whole, tmp_path / "run")
    newest = whole_checkpoints(out)[-1]
    os.truncate(newest / "model.safetensors", 999)
    ended = command(*pretrain_words(out, **changed), "--resume", "auto")
    assert ended.code == 0, ended.err
    assert made(out) == made(whole)


@pytest.mark.parametrize("beside", [(), ("--steps", 100_000)])
def test_a_run_with_a_budget_ends_with_a_model(
    beside: tuple[Any, ...], pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    words = pretrain_words(tmp_path / "run", evaluate_every=2)
    at = words.index("--steps")
    ended = command(*words[:at], *words[at + 2 :], *beside, "--budget", "3s", "--json")
    assert ended.code == 0, ended.err
    steps = json.loads(ended.out)["steps"]
    rates = [entry["lr"] for entry in read_log(tmp_path / "run") if "lr" in entry]
    assert steps == len(rates) > 2
    assert rates[-1] < max(rates)
    assert read_manifest(tmp_path / "run")["settings"]["budget"] == "3s"


def test_a_run_whose_steps_are_done_in_time_learns_from_the_batches_of_a_run_by_steps(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    moving = {"mask_rate": "0.4..0.1", "short_longest": 16, "short_share": 0.5}
    tokens = {}
    for name, budget in {"steps": (), "both": ("--budget", "5m")}.items():
        out = tmp_path / name
        assert command(*pretrain_words(out, lr=1e-30, **moving), *budget).code == 0
        losses = [entry["fill_mask"] for entry in read_log(out) if "fill_mask" in entry]
        tokens[name] = losses  # of weights that hardly move: they tell the batches
    assert len(tokens["steps"]) == 6
    assert tokens["both"] == pytest.approx(tokens["steps"], rel=1e-6)


def test_a_budget_that_is_over_before_the_first_step_makes_no_model(
    pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    words = pretrain_words(tmp_path / "run")
    at = words.index("--steps")
    ended = command(*words[:at], *words[at + 2 :], "--budget", "1s")
    assert ended.refusal(2) == "--budget 1s was over before the first step; raise it"
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"probe_every": 3}, "--probe-every is 3, but it needs a --probe and must be a multiple"),
        ({"probe": "gone.jsonl"}, "there is no file gone.jsonl"),
        ({"probe": "x.jsonl", "sharding": "full"}, "--probe copies the whole network, but"),
        ({"optimizer": "muon", "sharding": "full"}, "--optimizer muon looks at whole matrices"),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused_before_the_run_begins(
    changed: dict[str, Any], said: str, pretrain_words: Words, tmp_path: Path, command: Run
) -> None:
    ended = command(*pretrain_words(tmp_path / "run", **changed))
    assert ended.code in (1, 2)
    assert said in ended.err
    assert not (tmp_path / "run").exists()


def test_a_budget_that_is_no_time_is_refused(shards: Path, tmp_path: Path, command: Run) -> None:
    ended = command("pretrain", shards, "--out", tmp_path / "run", "--budget", "soon")
    assert "the budget is 'soon', but it must be a time such as 25m" in ended.refusal(2)


def test_a_probe_is_logged_and_changes_no_bit(
    pretrained: Path,
    pretrain_words: Words,
    write_rows: Callable[..., Path],
    make_rows: Callable[..., list[Any]],
    tmp_path: Path,
    command: Run,
) -> None:
    file, out = write_rows(tmp_path / "probe.jsonl", make_rows(40, seed=8)), tmp_path / "run"
    ended = command(*pretrain_words(out, probe=file, probe_every=6), "--json")
    assert ended.code == 0, ended.err
    assert 0.5 < json.loads(ended.out)["probe_accuracy"] <= 1
    scores = [entry["evaluation"] for entry in read_log(out) if "evaluation" in entry]
    assert ["probe_accuracy" in metrics for metrics in scores] == [False, True]
    assert {"probe_low", "probe_high"} < scores[1].keys()
    assert made(out)["model.safetensors"] == made(pretrained)["model.safetensors"]
    logs = [[row for row in read_log(path) if "lr" in row] for path in (out, pretrained)]
    assert logs[0] == logs[1]
    file.write_text(file.read_text() + file.read_text())
    again = unfinished(out, tmp_path / "again")
    changed = command(*pretrain_words(again, probe=file, probe_every=6), "--resume", "auto")
    assert "probe.jsonl has changed since" in changed.refusal(2)
