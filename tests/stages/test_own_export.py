"""export --to bertworks: the same model without its run, on request in a quarter of the space."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import bertworks
from bertworks.core.artifact import Origin, open_artifact, seal
from bertworks.core.errors import ArtifactError
from bertworks.interop.hugging_face import open_folder
from bertworks.model.weights import INT8_WEIGHTS as ROUNDED
from bertworks.serving.parity import TOLERANCES
from bertworks.stages.export import _way_to_the_encoder

TEXTS = ["River boat fish.", "engine", "wheel motor road " * 30]


@pytest.fixture
def export(tmp_path: Path, command):
    """Export a model for bertworks itself."""

    def run(model: Path, *words: object, to: str = "bertworks", out: str = "out"):
        said = ["--model", model, "--to", to, "--out", tmp_path / out, *words, "--json"]
        return tmp_path / out, command("export", *said)

    return run


@pytest.fixture
def rounded(classifier: Path, export) -> Path:
    """Write the classifier with its weights in int8."""
    out, ended = export(classifier, "--precision", "int8")
    assert ended.code == 0, ended.err
    return out


def test_a_model_leaves_its_run_behind_and_keeps_its_answers(
    classifier: Path, export, contents
) -> None:
    out, ended = export(classifier)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["largest_difference"] == told["largest_error_of_a_weight"] == 0
    names = contents(out).keys()
    assert {"model.safetensors", "config.json", "bertworks.json", "compared.json"} <= names
    assert not [name for name in names if "checkpoint" in name or "log" in name]
    assert (out / "bertworks.json").read_bytes() == (classifier / "bertworks.json").read_bytes()
    assert bertworks.load(out).predict(TEXTS) == bertworks.load(classifier).predict(TEXTS)


def test_int8_weights_take_less_space_and_stay_near(
    classifier: Path, labelled, export, contents
) -> None:
    out, ended = export(classifier, "--precision", "int8", "--data", labelled["dev"])
    assert ended.code == 0, ended.err
    told, files = json.loads(ended.out), contents(out)
    assert ROUNDED in files
    assert "model.safetensors" not in files
    size = (classifier / "model.safetensors").stat().st_size
    assert len(files[ROUNDED]) < 0.35 * size  # tiny as it is, names and vectors are much of it
    assert told["megabytes"] == pytest.approx(sum(map(len, files.values())) / 1e6)
    assert 0 < told["largest_error_of_a_weight"] < 1 / 250
    assert 0 < told["largest_difference"] < 0.05
    assert 0.999 < told["lowest_cosine"] < 1
    assert told["label_agreement"] >= 16 / 17
    assert abs(told["accuracy_after"] - told["accuracy_before"]) <= 1 / 17
    compared = json.loads(files["compared.json"])
    assert compared["precision"] == "int8"
    assert compared["mean_cosine"] == told["mean_cosine"]
    open_artifact(out, "model")


def test_vectors_before_and_after_point_the_same_way(classifier: Path, rounded: Path) -> None:
    before, after = (bertworks.load(path).embed(TEXTS) for path in (classifier, rounded))
    cosines = (before * after).sum(1) / np.linalg.norm(before, axis=1)
    assert (cosines / np.linalg.norm(after, axis=1)).min() > 0.999
    assert not np.array_equal(before, after)


def test_every_command_opens_int8_weights(
    rounded: Path, labelled, tmp_path: Path, command, export
) -> None:
    data, out = ["--data", labelled["dev"]], tmp_path / "answers.jsonl"
    assert command("predict", "--model", rounded, *data, "--out", out).code == 0
    assert len(out.read_text().splitlines()) == 17
    tuned = ["--train", labelled["train"], "--dev", labelled["dev"], "--epochs", 1, "--lr", 0.001]
    ended = command("finetune", "--model", rounded, *tuned, "--out", tmp_path / "tuned")
    assert ended.code == 0, ended.err
    assert (tmp_path / "tuned" / "model.safetensors").is_file()  # training needs whole numbers
    _, ended = export(rounded, to="hugging-face", out="plain")
    assert json.loads(ended.out)["largest_difference"] <= 1e-6
    _, ended = export(rounded, to="onnx", out="onnx")
    assert json.loads(ended.out)["largest_difference"] <= 1e-4
    again, ended = export(rounded, "--precision", "int8", out="again")
    assert ended.code == 0
    first, second = (load_file(path / ROUNDED) for path in (rounded, again))
    assert all(np.array_equal(first[n], second[n]) for n in first if not n.endswith(".scales"))


def test_a_pretrained_model_is_compared_on_plain_texts(
    pretrained: Path, labelled, export, contents
) -> None:
    out, ended = export(pretrained, "--precision", "int8", "--data", labelled["dev"])
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["texts"] == 17
    before, after = (bertworks.load(path) for path in (pretrained, out))
    text = "River [MASK] fish."
    first, second = (
        {found.token for found in model.fill_mask(text, num_candidates=9)}
        for model in (before, after)
    )
    assert len(first & second) >= 7


@pytest.fixture
def electra(shards: Path, tmp_path: Path, command) -> Path:
    """Pre-train a discriminator of ModernBERT's shape and its generator, for two steps."""
    words = ["--steps", 2, "--batch-tokens", 64, "--longest", 32, "--device", "cpu"]
    shape = ["--size", "modern-2x64", "--objectives", "replaced_token", "--generator-size", 0.5]
    ended = command("pretrain", shards, "--out", tmp_path / "electra", *shape, *words)
    assert ended.code == 0, ended.err
    return tmp_path / "electra"


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_generator_travels_with_its_model_and_what_both_have_travels_once(
    electra: Path, export, precision: str
) -> None:
    out, ended = export(electra, "--precision", precision)
    assert ended.code == 0, ended.err
    before, after = (bertworks.load(path) for path in (electra, out))
    text = "river [MASK] water"
    ours, theirs = (one.fill_mask(text, num_candidates=3) for one in (after, before))
    assert [c.probability for c in ours] == pytest.approx([c.probability for c in theirs], rel=0.05)
    (file,) = (out / "generator").glob("*.safetensors")
    assert ("encoder.embeddings.pieces.weight" in load_file(file)) is (precision == "fp32")
    again, ended = export(out, "--precision", precision, out="again")
    assert ended.code == 0, ended.err
    assert bertworks.load(again).fill_mask(text) == after.fill_mask(text)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_other_libraries_open_the_encoder_of_a_discriminator(
    electra: Path, export, precision: str
) -> None:
    small, _ = export(electra, "--precision", precision)
    out, ended = export(small, to="hugging-face", out="theirs")
    assert ended.code == 0, ended.err
    assert "left behind: replaced_token, fill_mask" in ended.err
    told = json.loads((out / "config.json").read_text())
    assert told["architectures"] == ["ModernBertModel"]
    assert not (out / "generator").exists()
    found, expected = (bertworks.load(path).embed(TEXTS) for path in (out, small))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_vectors_may_be_described_on_the_way(pretrained: Path, export) -> None:
    out, ended = export(pretrained, "--precision", "int8", "--pooling", "max", "--max-length", 9)
    assert ended.code == 0, ended.err
    model = bertworks.load(out)
    assert (model.recipe.pooling, model.recipe.max_length) == ("max", 9)
    assert model.fill_mask("River [MASK].")


def test_damaged_scales_stop_every_reader(rounded: Path) -> None:
    tensors = load_file(rounded / ROUNDED)
    name = next(name for name in tensors if name.endswith(".scales"))
    tensors[name][0] = float("nan")
    save_file(tensors, rounded / ROUNDED, metadata={"format": "pt"})
    with pytest.raises(ArtifactError, match="its sha256 differs"):
        bertworks.load(rounded)
    (rounded / "manifest.json").unlink()  # as of a folder from elsewhere
    with pytest.raises(ArtifactError, match="values that are negative or not finite"):
        bertworks.load(rounded)


def test_a_bad_rounding_is_thrown_away(
    classifier: Path, export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertworks.model.rounded_rows.MOST", 1)
    out, ended = export(classifier, "--precision", "int8")
    assert "mean cosine is" in ended.refusal(1)
    assert not out.exists()


@pytest.mark.parametrize("words", [["--precision", "int8"], ["--data", "x.jsonl"]])
def test_other_libraries_have_no_such_weights(classifier: Path, export, words: list[str]) -> None:
    out, ended = export(classifier, *words, to="hugging-face")
    sentence = ended.refusal(2)
    assert f"another library takes no {words[0]}" in sentence
    assert "use --to onnx or --to bertworks" in sentence
    assert not out.exists()


def test_operators_are_for_onnx_files(classifier: Path, export) -> None:
    out, ended = export(classifier, "--operators", "plain")
    assert "a folder of ours takes no --operators" in ended.refusal(2)
    assert not out.exists()


@pytest.fixture
def tuned(pretrained: Path, labelled, tmp_path: Path, command) -> Path:
    """Fine-tune with thin matrices, so that little of the model moves."""
    files = ["--train", labelled["train"], "--dev", labelled["dev"], "--out", tmp_path / "tuned"]
    how = ["--epochs", 2, "--lr", 0.01, "--lora", 2]
    ended = command("finetune", "--model", pretrained, *files, *how)
    assert ended.code == 0, ended.err
    return tmp_path / "tuned"


@pytest.fixture
def small(tuned: Path, pretrained: Path, tmp_path: Path, export) -> Path:
    """Write it as how far it is from a copy of what it was tuned from."""
    base = shutil.copytree(pretrained, tmp_path / "base")
    out, ended = export(tuned, "--base", base)
    assert ended.code == 0, ended.err
    return out


def test_a_tuned_model_may_be_told_by_how_far_it_is_from_its_base(
    tuned: Path, small: Path, labelled, tmp_path: Path, command, export
) -> None:
    whole, own = (tuned / "model.safetensors", small / "model.difference.safetensors")
    assert own.stat().st_size < 0.25 * whole.stat().st_size
    assert not (small / "model.safetensors").exists()
    first, second = (bertworks.load(path) for path in (tuned, small))
    np.testing.assert_allclose(first.embed(TEXTS), second.embed(TEXTS), atol=1e-4)
    labels = [[answer["label"] for answer in one.predict(TEXTS)] for one in (first, second)]
    assert labels[0] == labels[1]
    told = json.loads((small / "compared.json").read_text())
    assert told["base"] == str(tmp_path / "base")
    assert told["lowest_cosine"] > 0.9999
    rows = json.loads(command("models", tuned, small, "--json").out)["models"]
    assert rows[0]["parameters"] == rows[1]["parameters"]
    files = ["--train", labelled["train"], "--dev", labelled["dev"], "--epochs", 1]
    ended = command("finetune", "--model", small, *files, "--out", tmp_path / "further")
    assert ended.code == 0, ended.err
    theirs, ended = export(small, to="hugging-face", out="theirs")
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(bertworks.load(theirs).embed(TEXTS), second.embed(TEXTS), atol=1e-5)


def test_a_model_and_its_base_go_elsewhere_together(small: Path, tmp_path: Path) -> None:
    before = bertworks.load(small).embed(TEXTS)
    away = tmp_path / "away"
    away.mkdir()
    for path in (small, tmp_path / "base"):
        shutil.move(path, away)
    assert np.array_equal(bertworks.load(away / small.name).embed(TEXTS), before)


def test_without_its_base_a_model_says_where_it_should_be(small: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(
        ArtifactError, match=r"are from those of the model .*/base, which is not there; put it"
    ):
        bertworks.load(small)


def test_another_model_in_the_place_of_the_base_is_refused(
    small: Path, classifier: Path, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "base")
    shutil.copytree(classifier, tmp_path / "base")
    with pytest.raises(
        ArtifactError, match=r"has other weights than the model that .*/out was made"
    ):
        bertworks.load(small)


def test_damage_of_the_base_stops_who_stands_on_it(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "base" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ArtifactError, match="is damaged"):
        bertworks.load(small)


@pytest.mark.parametrize("told", [{"place": "/etc"}, {"place": 7}, {"name": 7}, {"name": None}])
def test_a_base_is_named_from_beside_the_folder(small: Path, told: dict[str, object]) -> None:
    (small / "manifest.json").unlink()
    (small / "base.json").write_text(json.dumps({**told, "sha256": ""}))
    with pytest.raises(ArtifactError, match=r"base\.json names no model"):
        bertworks.load(small)


def test_a_base_that_comes_with_the_package_is_told_by_its_name(
    tuned: Path, pretrained: Path, export, ship, tmp_path: Path
) -> None:
    ship(pretrained, "little-en")
    out, ended = export(tuned, "--base", "little-en")
    assert ended.code == 0, ended.err
    assert json.loads((out / "base.json").read_text())["name"] == "little-en"
    (tmp_path / "deep").mkdir()
    moved = Path(shutil.move(out, tmp_path / "deep"))
    assert bertworks.load(moved).predict(TEXTS)
    told = json.loads((moved / "base.json").read_text())
    (moved / "base.json").write_text(json.dumps({**told, "name": "little-zh"}))
    (moved / "manifest.json").unlink()
    with pytest.raises(ArtifactError, match="this version has none of this name"):
        bertworks.load(moved)


def test_a_folder_beside_it_is_the_base_though_a_model_of_its_name_is_shipped(
    small: Path, classifier: Path, ship
) -> None:
    ship(classifier, "base")
    assert bertworks.load(small).predict(TEXTS)


@pytest.mark.parametrize("way", [".", "link"])
def test_a_base_is_beside_the_folder_however_that_is_called(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(small)
    monkeypatch.chdir(small if way == "." else tmp_path / "elsewhere")
    assert bertworks.load(way).predict(TEXTS)


def test_what_a_base_says_beside_its_weights_may_change(small: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "README.md").write_text("a better card")
    told = json.loads((base / "manifest.json").read_text())
    (base / "manifest.json").unlink()
    seal(base, "model", Origin(command=told["command"], settings=told["settings"]))
    assert bertworks.load(small).predict(TEXTS)


def test_a_folder_of_another_library_may_be_the_base(
    tuned: Path, pretrained: Path, tmp_path: Path, export
) -> None:
    theirs, ended = export(pretrained, to="hugging-face", out="theirs")
    assert ended.code == 0, ended.err
    (theirs / "manifest.json").unlink()
    out, ended = export(tuned, "--base", theirs)
    assert ended.code == 0, ended.err
    assert bertworks.load(out).predict(TEXTS)
    again, ended = export(out, "--base", out, out="chain")  # a base may stand on another
    assert ended.code == 0, ended.err
    assert bertworks.load(again).predict(TEXTS)
    whole = load_file(theirs / "model.safetensors")
    save_file({name: one + 1 for name, one in whole.items()}, theirs / "model.safetensors")
    with pytest.raises(ArtifactError, match="has other weights than"):
        bertworks.load(out)


def test_a_model_without_the_pooler_of_its_base_stays_without(
    pretrained: Path, tmp_path: Path, command, shards: Path, export
) -> None:
    words = ["--objectives", "fill_mask", "--steps", 2, "--batch-tokens", 64, "--longest", 32]
    ended = command("pretrain", shards, "--model", pretrained, "--out", tmp_path / "on", *words)
    assert ended.code == 0, ended.err
    out, ended = export(tmp_path / "on", "--base", pretrained, "--rank", 8)
    assert ended.code == 0, ended.err
    has_pooler = [
        any(name.startswith("encoder.pooler.") for name in open_folder(one).tensors())
        for one in (pretrained, tmp_path / "on", out)
    ]
    assert has_pooler == [True, False, False]


def test_weights_beside_a_difference_are_strangers(small: Path, tuned: Path) -> None:
    shutil.copy(tuned / "model.safetensors", small)
    with pytest.raises(ArtifactError, match="is none of the files that the manifest"):
        bertworks.load(small)
    shutil.copy(small / "model.difference.safetensors", tuned)
    with pytest.raises(ArtifactError, match="is none of the files that the manifest"):
        bertworks.load(tuned)


def test_a_note_of_a_base_beside_whole_weights_is_not_heeded(small: Path, tuned: Path) -> None:
    before = bertworks.load(tuned).embed(TEXTS)
    shutil.copy(small / "base.json", tuned)
    assert np.array_equal(bertworks.load(tuned).embed(TEXTS), before)


def test_transformers_finds_no_weights_in_a_difference(tmp_path: Path) -> None:
    (tmp_path / "model.difference.safetensors").touch()
    assert "finds no weights in model.difference.safetensors" in _way_to_the_encoder(tmp_path)


def test_a_model_that_has_moved_everywhere_is_no_smaller_beside_its_base(
    pretrained: Path, classifier: Path, export
) -> None:
    out, ended = export(classifier, "--base", pretrained)
    assert "its matrices have moved in too many directions; give --rank 16 to" in ended.refusal(2)
    assert not out.exists()
    out, ended = export(classifier, "--base", pretrained, "--rank", 4)
    assert ended.code == 0, ended.err
    assert 0 < json.loads(ended.out)["largest_difference"] < 0.1
    out, ended = export(classifier, "--base", pretrained, "--rank", 60, out="broad")
    assert "60 directions of each matrix are too many; give a smaller" in ended.refusal(2)


def test_a_model_of_another_shape_has_nothing_in_common(
    classifier: Path, shards: Path, tmp_path: Path, command, export
) -> None:
    words = ["--size", "modern-1x128", "--steps", 1, "--batch-tokens", 64, "--longest", 32]
    ended = command("pretrain", shards, "--out", tmp_path / "wide", *words)
    assert ended.code == 0, ended.err
    _, ended = export(classifier, "--base", tmp_path / "wide", "--rank", 1)
    assert "are tensors that the base has not, or in other shapes; leave" in ended.refusal(2)


def test_too_few_directions_are_told_as_such(
    pretrained: Path, classifier: Path, export, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = replace(TOLERANCES["strongest"], cosine=0.99999999)
    monkeypatch.setitem(TOLERANCES, "strongest", strict)
    out, ended = export(classifier, "--base", pretrained, "--rank", 1)
    assert "thrown away; give a larger --rank, or leave --base out" in ended.refusal(1)
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "to", "sentence"),
    [
        (["--rank", 3], "bertworks", "--rank 3 is about how far a model is from its --base"),
        (["--precision", "int8"], "bertworks", "in half precision; leave --precision out"),
        ([], "onnx", "--base is for --to bertworks; leave it out"),
        ([], "hugging-face", "--base is for --to bertworks; leave it out"),
    ],
)
def test_a_base_says_nothing_elsewhere(
    tuned: Path, pretrained: Path, export, words: list[object], to: str, sentence: str
) -> None:
    base = [] if "--rank" in words else ["--base", pretrained]
    out, ended = export(tuned, *words, *base, to=to)
    assert sentence in ended.refusal(2)
    assert not out.exists()
