"""models: shipped models and others in a table, and every command that takes them by name."""

import json
from pathlib import Path

import pytest

import bertworks
from bertworks.core.artifact import read_manifest
from bertworks.core.errors import ArtifactError
from bertworks.service.models import Models

CARD = "---\nlicense: apache-2.0\nlanguage: [en]\n---\n# A model\nlanguage: no\n"


@pytest.fixture
def named(ship, pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ship the pre-trained model as little-en, and work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    folder = ship(pretrained, "little-en")
    (folder / "README.md").write_text(CARD)
    return folder


def test_the_table_tells_what_each_model_is(named: Path, ship, matcher: Path, command) -> None:
    ship(matcher, "little-match")
    ended = command("models", "--json")
    assert ended.code == 0, ended.err
    first, second = json.loads(ended.out)["models"]
    size = sum(file.stat().st_size for file in named.rglob("*") if file.is_file())
    model = bertworks.load("little-en").model
    assert first == {
        "name": "little-en",
        "language": "en",
        "family": "bert",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "megabytes": round(size / 1e6, 1),
        "layers": 2,
        "width": 64,
        "longest": 32,
        "tasks": "fill_mask, next_sentence",
    }
    assert second["tasks"] == "match"
    assert second["language"] is None
    lines = command("models").out.splitlines()
    assert lines[0] == "models:"
    assert [line.split()[0] for line in lines[1:]] == ["name", "little-en", "little-match"]


@pytest.mark.usefixtures("named")
def test_folders_are_told_of_like_names(classifier: Path, command) -> None:
    ended = command("models", classifier, "little-en", "--json")
    assert [row["name"] for row in json.loads(ended.out)["models"]] == ["classifier", "little-en"]
    assert "no model folder nowhere" in command("models", "nowhere").refusal(1)


def test_int8_weights_count_as_many_parameters(pretrained: Path, tmp_path: Path, command) -> None:
    words = ["--model", pretrained, "--to", "bertworks", "--precision", "int8"]
    assert command("export", *words, "--out", tmp_path / "small").code == 0
    ended = command("models", pretrained, tmp_path / "small", "--json")
    plain, small = json.loads(ended.out)["models"]
    assert plain["parameters"] == small["parameters"] > 60_000


@pytest.mark.usefixtures("ship")
def test_without_shipped_models_there_are_none(command) -> None:
    ended = command("models")
    assert (ended.code, ended.out) == (0, "models: none\n")


@pytest.mark.usefixtures("named")
def test_a_model_is_loaded_by_its_name(pretrained: Path) -> None:
    text = "River [MASK] fish."
    assert bertworks.load("little-en").fill_mask(text) == bertworks.load(pretrained).fill_mask(text)


def test_commands_take_the_name_and_note_it(
    named: Path, labelled, text: Path, command, run_again
) -> None:
    files = ["--train", labelled["train"], "--dev", labelled["dev"], "--epochs", 1, "--lr", 0.001]
    ended = command("finetune", "--model", "little-en", *files, "--out", "tuned")
    assert ended.code == 0, ended.err
    manifest = read_manifest(Path("tuned"))
    assert "--model little-en " in manifest["command"]
    assert manifest["settings"]["model"] == manifest["inputs"]["model"]["path"] == "little-en"
    assert manifest["inputs"]["model"]["sha256"]
    report = Path("tuned/report.md").read_text()
    assert "Fine-tuning of little-en" in report
    assert str(named) not in report
    assert "| model | little-en |" in report
    ended = command("embed", "--model", "little-en", "--data", labelled["dev"], "--out", "v.npy")
    assert ended.code == 0, ended.err
    words = ["--to", "hugging-face", "--out", "plain"]
    assert command("export", "--model", "little-en", *words).code == 0
    run_again(Path("plain"), Path("again"))
    ended = command("tokenize", text, "--tokenizer", "little-en", "--out", "shards")
    assert ended.code == 0, ended.err
    ended = command("pretrain", "shards", "--model", "little-en", "--steps", 1, "--out", "more")
    assert ended.code == 2, ended.err  # it reads 32 pieces, and the folder is known by its name
    assert "but little-en reads 32 pieces" in ended.err


@pytest.mark.usefixtures("named")
def test_nothing_is_made_in_the_place_of_the_name_that_a_model_was_given_by(
    labelled, command
) -> None:
    files = ["--train", labelled["train"], "--dev", labelled["dev"]]
    said = command("finetune", "--model", "little-en", *files, "--out", "little-en").refusal(2)
    assert said.startswith("--out little-en would hide the model of this name that comes with")
    ended = command(
        "export", "--model", "little-en", "--to", "hugging-face", "--out", "a/little-en"
    )
    assert ended.code == 0, ended.err


def test_a_service_takes_the_name(named: Path) -> None:
    models = Models.open(["little-en", "x=little-en"])
    try:
        assert list(models.names) == ["little-en", "x"]
        assert models.get("x").revision == read_manifest(named)["sha256"][:12]
        assert models.swap("x", Path("little-en")).revision == models.get("little-en").revision
    finally:
        models.stop(0.0)


@pytest.mark.usefixtures("named")
def test_an_unknown_name_is_answered_with_the_known_ones(ship, matcher: Path, command) -> None:
    ship(matcher, "little-match")
    sentence = command("predict", "--model", "little-de", "--data", "x").refusal(1)
    assert sentence == (
        "there is no model folder little-de; names are not fetched: give a folder on this disk, or "
        "a model that comes with bertworks: little-en, little-match"
    )
    with pytest.raises(ArtifactError, match=r"comes with bertworks: little-en, little-match$"):
        bertworks.load("little-de")


def test_a_damaged_file_of_a_shipped_model_is_noticed(named: Path, command) -> None:
    file = named / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ArtifactError, match="its sha256 differs"):
        bertworks.load("little-en")
    ended = command("models")
    assert ended.code == 1
    assert "its sha256 differs); reinstall bertworks" in ended.err


def test_beside_a_damaged_model_the_others_are_told(named: Path, ship, matcher, command) -> None:
    ship(matcher, "little-match")
    (named / "config.json").unlink()
    ended = command("models", "--json")
    assert ended.code == 1
    assert [row["name"] for row in json.loads(ended.out)["models"]] == ["little-match"]
    assert "config.json is missing; reinstall bertworks" in ended.err


@pytest.mark.usefixtures("named")
def test_a_folder_of_the_same_name_wins_and_is_said(classifier: Path, command) -> None:
    Path("little-en").symlink_to(classifier)
    ended = command("models", "little-en", "--json")
    assert json.loads(ended.out)["models"][0]["tasks"] == "classify"
    assert "little-en is the folder in" in ended.err
