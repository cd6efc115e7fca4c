"""card: what is known of a model and what is measured, in one page beside its weights."""

import re
from pathlib import Path
from statistics import fmean

import pytest

import bertworks
from bertworks.core.artifact import Origin, read_manifest
from bertworks.evaluation.bias_probe import PROBES
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece

NOTES = """
about = "A tiny encoder, made for a test."
language = "en"
license = "apache-2.0"
limits = ["It has learned nothing."]

[[data]]
name = "made-up sentences"
about = "five words"
license = "none needed"
"""
SENTENCES = [
    *(f"the {occupation} said" for group in PROBES["en"].occupations() for occupation in group),
    "he was tired and she was tired",
    "她今天很累，他回家了。",
]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.toml"
    file.write_text(NOTES)
    return file


@pytest.fixture
def speaker(tmp_path: Path) -> Path:
    """Save a network that fills masks and knows the words of both probes."""
    tokenizer = learn_wordpiece(lambda: SENTENCES * 3, size=400, cased=False)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=21,
        num_layers=2,
        num_heads=3,
        feed_forward_size=37,
        max_positions=64,
    )
    model = TaskModel(config, [make_task("fill_mask")], seed=5, deviation=0.5)
    folder = tmp_path / "little-en"
    save_model(folder, model, tokenizer, origin=Origin(command="bertworks made-up"))
    return folder


def test_a_card_lies_beside_the_weights_and_tells_of_them(
    speaker: Path, notes: Path, command
) -> None:
    ended = command("card", "--model", speaker, "--notes", notes, "--device", "cpu")
    assert ended.code == 0, ended.err
    page = (speaker / "README.md").read_text()
    assert page.startswith('---\nlanguage: "en"\n')
    assert "# little-en" in page
    assert "bertworks made-up" in page
    assert "## Bias probe" in page
    assert re.search(r"sentences as vectors a second \| [\d,.]+ \|", page)
    for name, told in read_manifest(speaker)["files"].items():
        assert f"| {told['sha256']} |" in page, name
    assert bertworks.load(speaker).fill_mask("he was [MASK]")  # the folder opens as before
    assert "en" in command("models", speaker).out


def test_the_probe_asks_the_model_itself(speaker: Path, notes: Path, command) -> None:
    words = ["--model", speaker, "--notes", notes]
    pages = []
    for language in ("en", "zh", "none"):
        out = speaker.with_name(f"{language}.md")
        ended = command("card", *words, "--bias", language, "--out", out)
        assert ended.code == 0, ended.err
        pages.append(out.read_text())
    english, chinese, none = pages
    assert "share of he" in english
    assert "share of 他" in chinese
    assert "Bias probe" not in none
    model, shares = bertworks.load(speaker), {}
    for occupation in PROBES["en"].occupations()[0]:
        pairs = []
        for pattern in PROBES["en"].patterns:
            found = model.fill_mask(pattern.format(occupation), num_candidates=500)
            chances = {candidate.token: candidate.probability for candidate in found[::-1]}
            pairs.append(chances["he"] / (chances["he"] + chances["she"]))
        shares[occupation] = fmean(pairs)
    shown = re.findall(r"^\| (\w+) \| ([01]\.\d{3}) \|$", english, re.MULTILINE)
    told = {name: float(share) for name, share in shown if name in shares}
    assert len(told) >= 3
    assert told == pytest.approx({name: shares[name] for name in told}, abs=6e-4)
    assert len(set(told.values())) > 2  # it depends on the occupation


def test_run_scores_and_rounding_come_from_their_folders(
    classifier: Path, labelled, notes: Path, tmp_path: Path, command
) -> None:
    small, report, out = (tmp_path / name for name in ("small", "report", "card.md"))
    words = ["--model", classifier, "--to", "bertworks", "--precision", "int8", "--out", small]
    assert command("export", *words, "--data", labelled["dev"]).code == 0
    scored = ["--model", small, "--data", labelled["dev"], "--out", report]
    assert command("evaluate", *scored).code == 0
    told = ["--notes", notes, "--run", classifier, "--scores", report, "--out", out]
    ended = command("card", "--model", small, *told)
    assert ended.code == 0, ended.err
    assert "warning: no bias is probed, for the model fills no masks" in ended.err
    page = out.read_text()
    assert read_manifest(classifier)["command"] in page
    assert read_manifest(small)["command"] in page
    assert re.search(r"\| dev.jsonl \| accuracy \| 17 \| – \| [\d.]+ \[[\d.]+, [\d.]+\] \|", page)
    assert "| epochs | 2 |" in page
    assert "| examples a second |" in page or "| steps a second |" in page
    assert "| lowest cosine |" in page
    assert "| score | before | after |" in page


def test_the_run_and_the_scores_of_another_model_are_refused(
    classifier: Path, pretrained: Path, labelled, notes: Path, tmp_path: Path, command
) -> None:
    small, report = tmp_path / "small", tmp_path / "report"
    assert command("export", "--model", pretrained, "--to", "bertworks", "--out", small).code == 0
    words = ["card", "--model", small, "--notes", notes, "--out", tmp_path / "card.md"]
    said = command(*words, "--run", classifier).refusal(2)
    assert f"{classifier} is another model than {small}, which was not made of it" in said
    scored = ["--model", classifier, "--data", labelled["dev"], "--out", report]
    assert command("evaluate", *scored).code == 0
    assert "which is another model" in command(*words, "--scores", report).refusal(2)


def test_another_language_has_no_probe(speaker: Path, notes: Path, command) -> None:
    notes.write_text(NOTES.replace('"en"', '"de"'))
    ended = command("card", "--model", speaker, "--notes", notes)
    assert ended.code == 0
    assert "no bias is probed, for there is no probe in 'de'" in ended.err
    assert "Bias probe" not in (speaker / "README.md").read_text()


def test_a_probe_that_is_asked_for_must_be_possible(
    classifier: Path, pretrained: Path, notes: Path, tmp_path: Path, command
) -> None:
    words = ["--notes", notes, "--bias", "en", "--out", tmp_path / "card.md"]
    assert "no fill-mask head" in command("card", "--model", classifier, *words).refusal(2)
    assert "has no piece" in command("card", "--model", pretrained, *words).refusal(2)
    assert not (tmp_path / "card.md").exists()


def test_what_is_missing_is_said_before_anything_is_written(
    speaker: Path, notes: Path, tmp_path: Path, command
) -> None:
    words = ["card", "--model", speaker, "--notes"]
    assert "cannot read" in command(*words, tmp_path / "gone.toml").refusal(2)
    notes.write_text("about = ")
    assert "is not TOML" in command(*words, notes).refusal(2)
    notes.write_text(NOTES.replace("limits", "limit"))
    assert "has no limits" in command(*words, notes).refusal(2)
    notes.write_text(NOTES)
    ended = command(*words, notes, "--scores", tmp_path)
    assert "neither results.json nor scores.json" in ended.refusal(1)
    (speaker / "README.md").write_text("mine")
    assert "exists already" in command(*words, notes).refusal(2)
    assert (speaker / "README.md").read_text() == "mine"


def test_pickled_weights_are_refused_with_the_way_to_import_them(
    speaker: Path, notes: Path, command
) -> None:
    (speaker / "manifest.json").unlink()
    words = ["card", "--model", speaker, "--notes", notes]
    assert "has no manifest.json" in command(*words).refusal(1)
    (speaker / "model.safetensors").rename(speaker / "pytorch_model.bin")
    said = command(*words).refusal(1)
    assert f"{speaker} has its weights as a pickle (pytorch_model.bin)" in said
    assert said.endswith(f"bertworks import {speaker} --out NEW")
