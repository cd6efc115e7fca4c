"""An encoder with a decoder in one folder: read as it was written, and refused if it cannot be."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bertworks.core.errors import ArtifactError
from bertworks.core.pieces import SpecialIds
from bertworks.interop.descriptions import TaskNote
from bertworks.interop.encoder_decoder import UNKNOWN, is_pair, refuse_other_ends
from bertworks.interop.hugging_face import open_folder, write_folder
from bertworks.model.config import EncoderConfig
from bertworks.model.decoder import Decoder, Shares
from bertworks.model.encoder import Encoder
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.tasks.catalog import make_task
from bertworks.tasks.generate import SEARCH as WRITING

SHARES: dict[str, Shares] = {"copied": "nothing", "shared": "all", "fresh": "embeddings"}
SEARCH = {"beams": 4, "length_penalty": 0.6, "no_repeat": 3, "most": 41}


def tell(decoder: str = "copied", layers: int | None = None, **more: Any) -> dict[str, TaskNote]:
    options = {"decoder": decoder, "decoder_layers": layers, "writing": {**SEARCH, "least": 5}}
    return {"generate": TaskNote(options={**options, **more})}


def draw_weights(config: EncoderConfig, tasks: Mapping[str, TaskNote]) -> dict[str, Tensor]:
    ((name, note),) = tasks.items()
    layers, shares = note.options["decoder_layers"], SHARES[note.options["decoder"]]
    with torch.device("meta"):
        decoder = Decoder(config, target=name, num_layers=layers, shares=shares)
        made = nn.ModuleDict({"encoder": Encoder(config), "heads": nn.ModuleDict({name: decoder})})
    random = torch.Generator().manual_seed(5)
    return {
        name: torch.randn(parameter.shape, generator=random)
        for name, parameter in made.named_parameters()
    }


@pytest.fixture
def write_pair(tmp_path: Path, small, specials) -> Callable[..., tuple[Path, dict[str, Tensor]]]:
    """Write a folder of ours with one decoder."""

    def write(
        family: str = "bert", tasks: Mapping[str, TaskNote] | None = None, **changes: Any
    ) -> tuple[Path, dict[str, Tensor]]:
        config, told = small(family, **changes), tasks or tell()
        ours = draw_weights(config, told)
        write_folder(tmp_path, config, ours, tasks=told, specials=specials)
        return tmp_path, ours

    return write


def change(path: Path, **changes: Any) -> None:
    """Change what a folder's config.json says, as one who has not our file."""
    (path / "bertworks.json").unlink(missing_ok=True)
    file = path / "config.json"
    said = json.loads(file.read_text())
    for name, value in changes.items():
        part, _, key = name.partition("__")
        if key:
            said[part][key] = value
        else:
            said[name] = value
    file.write_text(json.dumps(said))


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize(("decoder", "layers"), [("copied", None), ("copied", 2), ("shared", None)])
def test_a_pair_is_read_as_it_was_written(
    family: str, decoder: str, layers: int | None, small, write_pair, assert_equal_tensors
) -> None:
    told = tell(decoder, layers)
    path, ours = write_pair(family, told)
    folder = open_folder(path)
    assert (folder.model_type, folder.config) == ("encoder-decoder", small(family))
    assert (folder.tasks, folder.pad_id) == (told, 3)
    assert_equal_tensors(folder.tensors(), ours)
    # The folder says the same to those who do not know our file, but that they are shared.
    (path / "bertworks.json").unlink()
    bare = open_folder(path)
    assert bare.tasks == tell("copied", layers)
    assert ours.keys() <= bare.tensors().keys()


def test_two_whole_networks_are_written_under_their_names(write_pair, specials: SpecialIds) -> None:
    path, ours = write_pair(tasks=tell(layers=2))
    said = json.loads((path / "config.json").read_text())
    assert said["architectures"] == ["EncoderDecoderModel"]
    assert (said["encoder"]["num_hidden_layers"], said["decoder"]["num_hidden_layers"]) == (4, 2)
    assert (said["encoder"]["is_decoder"], said["decoder"]["is_decoder"]) == (False, True)
    assert (said["decoder_start_token_id"], said["eos_token_id"]) == (0, specials.separator)
    searched = json.loads((path / "generation_config.json").read_text())
    assert {key: searched[key] for key in ("num_beams", "min_length", "max_length")} == {
        "num_beams": 4,
        "min_length": 6,
        "max_length": 42,
    }
    theirs = read_tensors(path / "model.safetensors")
    layer = "decoder.bert.encoder.layer.1.crossattention"
    key, value = ours["heads.generate.readings.1.kv.weight"].chunk(2)
    assert theirs[f"{layer}.self.key.weight"].equal(key)
    assert theirs[f"{layer}.self.value.weight"].equal(value)
    assert theirs["encoder.pooler.dense.bias"].equal(ours["encoder.pooler.dense.bias"])
    assert {name.split(".")[0] for name in theirs} == {"encoder", "decoder"}
    assert not any(name.startswith("decoder.bert.pooler") for name in theirs)


def test_a_task_of_another_name_keeps_it(write_pair, assert_equal_tensors) -> None:
    told = {"title": TaskNote(options=tell()["generate"].options, kind="generate")}
    path, ours = write_pair(tasks=told)
    folder = open_folder(path)
    assert folder.tasks == told
    assert_equal_tensors(folder.tensors(), ours)


@pytest.mark.parametrize(
    ("family", "decoder"), [("bert", "fresh"), ("distilbert", "copied"), ("modern", "copied")]
)
def test_what_their_classes_cannot_say_keeps_our_names_for_the_decoder(
    family: str, decoder: str, write_pair, assert_equal_tensors
) -> None:
    path, ours = write_pair(family, tell(decoder))
    folder = open_folder(path)
    assert folder.model_type != "encoder-decoder"
    assert folder.tasks == tell(decoder)
    assert_equal_tensors(folder.tensors(), ours)


def test_only_an_encoder_with_one_decoder_is_a_pair(small, notes) -> None:
    assert is_pair(small("bert"), tell())
    assert is_pair(small("roberta"), tell("shared"))
    assert not is_pair(small("bert"), tell("fresh"))
    assert not is_pair(small("bert"), {})
    assert not is_pair(small("bert"), notes("fill_mask"))
    assert not is_pair(small("bert"), {**tell(), **notes("classify")})
    assert not is_pair(small("mean"), tell())


def test_how_answers_are_looked_for_is_read_where_it_stands(write_pair) -> None:
    path, _ = write_pair()
    (path / "generation_config.json").unlink()
    change(path, num_beams=3, max_length=142, min_length=0, length_penalty=-2.0)
    options = open_folder(path).tasks["generate"].options
    assert options == {
        "decoder": "copied",
        "decoder_layers": None,
        "writing": {"beams": 3, "length_penalty": -2.0, "least": 0, "most": 141},
    }
    own = {"num_beams": 2, "max_new_tokens": 50, "min_new_tokens": None}
    (path / "generation_config.json").write_text(json.dumps(own))
    writing = open_folder(path).tasks["generate"].options["writing"]
    assert (writing["beams"], writing["most"], writing["least"]) == (2, 50, 0)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"decoder__hidden_size": 48}, "hidden_size of the decoder is 48 and of the encoder 24"),
        ({"decoder__vocab_size": 98}, "vocab_size of the decoder is 98"),
        ({"decoder__model_type": "roberta"}, "family of the decoder is 'roberta'"),
        ({"decoder__add_cross_attention": False}, "without which it reads nothing"),
        ({"decoder__is_decoder": None}, "without which it reads nothing"),
        ({"decoder__tie_word_embeddings": False}, "tie_word_embeddings of the decoder is false"),
        ({"encoder__model_type": "electra"}, "no decoders are known"),
        ({"encoder__is_decoder": True}, "is_decoder is True"),
        ({"encoder__model_type": "vit"}, "'vit' is of no family"),
        ({"decoder__model_type": "gpt2"}, "'gpt2' is of no family"),
        ({"decoder": None}, "describes no decoder"),
        ({"num_beams": "four", "decoder_start_token_id": 0}, "num_beams is .four., but it must be"),
    ],
)
def test_what_is_no_pair_of_ours_is_refused(write_pair, said: dict[str, Any], told: str) -> None:
    path, _ = write_pair()
    (path / "generation_config.json").unlink()
    change(path, **said)
    with pytest.raises(ArtifactError, match=told):
        open_folder(path)


def test_dropout_may_differ_between_the_two(write_pair) -> None:
    path, _ = write_pair()
    change(path, decoder__hidden_dropout_prob=0.3)
    assert open_folder(path).config.dropout == 0.1


def test_what_is_said_to_be_shared_must_be_the_same(write_pair, assert_equal_tensors) -> None:
    path, ours = write_pair(tasks=tell("shared"))
    change(path, tie_encoder_decoder=True)
    folder = open_folder(path)
    assert folder.tasks["generate"].options["decoder"] == "shared"
    assert_equal_tensors(folder.tensors(), ours)
    theirs = read_tensors(path / "model.safetensors")
    theirs["decoder.bert.embeddings.word_embeddings.weight"] += 1.0
    write_tensors(path / "model.safetensors", theirs)
    with pytest.raises(ArtifactError, match=r"embeddings\.pieces\.weight of the decoder is anoth"):
        open_folder(path).tensors()


def test_parts_that_nothing_describes_are_refused(write_pair) -> None:
    path, _ = write_pair(tasks=tell(layers=2))
    change(path, decoder__num_hidden_layers=1)
    with pytest.raises(ArtifactError, match="without a place for"):
        open_folder(path).tensors()


def test_the_task_takes_what_a_folder_says_of_it(write_pair) -> None:
    path, _ = write_pair()
    (path / "bertworks.json").unlink()
    options = open_folder(path).tasks["generate"].options
    task = make_task("generate", **options)
    assert task.options["writing"] == options["writing"]
    assert options["writing"].keys() == WRITING.keys()


def test_no_answer_is_longer_than_the_network_has_places(write_pair) -> None:
    path, _ = write_pair(max_positions=30)
    assert json.loads((path / "generation_config.json").read_text())["max_length"] == 30


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("repetition_penalty", 1.5),
        ("do_sample", True),
        ("bad_words_ids", [[7]]),
        ("suppress_tokens", [7]),
        ("forced_bos_token_id", 7),
        ("exponential_decay_length_penalty", [9, 1.1]),
    ],
)
def test_what_would_be_written_otherwise_is_refused_by_its_key(write_pair, key, value) -> None:
    path, _ = write_pair()
    change(path)
    file = path / "generation_config.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, key: UNKNOWN[key]}))
    assert open_folder(path).tasks  # what changes nothing
    file.write_text(json.dumps({**said, key: value}))
    with pytest.raises(ArtifactError, match=f"written with {key} = "):
        open_folder(path)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("num_beams", "x", "a whole number of at least 1"),
        ("num_beams", 0, "a whole number of at least 1"),
        ("max_length", 1, "a whole number of at least 2"),
        ("min_length", 2.5, "a whole number of at least 0"),
        ("length_penalty", True, "a number"),
    ],
)
def test_a_search_that_cannot_be_is_refused_by_its_key(write_pair, key, value, wanted) -> None:
    path, _ = write_pair()
    change(path)
    file = path / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    with pytest.raises(ArtifactError, match=f"{key} is {value!r}, but it must be {wanted}; mend"):
        open_folder(path)


@pytest.mark.parametrize("key", ["decoder_start_token_id", "eos_token_id"])
def test_answers_must_begin_and_end_as_texts_do(write_pair, specials: SpecialIds, key: str) -> None:
    path, _ = write_pair()
    change(path, **{key: [specials.separator]} if key == "eos_token_id" else {})
    refuse_other_ends(path, specials)
    (path / "generation_config.json").unlink()
    change(path, **{key: [specials.separator, 9]})
    with pytest.raises(ArtifactError, match=rf"{key} is \[{specials.separator}, 9\]"):
        refuse_other_ends(path, specials)
