"""sentence-transformers folders: read as data in every spelling, written back, or refused."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import ArtifactError
from bertworks.interop.sentence_transformers import (
    encoder_folder,
    lowercased,
    read_recipe,
    write_recipe,
)
from bertworks.model.embedding import BENDS, DenseLayer, EmbeddingRecipe
from bertworks.model.weights import write_tensors

OLD = "sentence_transformers.models"
NEW = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}
PLAIN = ("Transformer", "Pooling", "Normalize")
TANH = "torch.nn.modules.activation.Tanh"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a folder by hand: its modules, and other files by name."""

    def make(*kinds: str, files: dict[str, Any] | None = None, encoder: str = "") -> Path:
        named = [kind if "." in kind else f"{OLD}.{kind}" for kind in kinds or PLAIN]
        modules = [
            {"idx": i, "name": str(i), "type": name, "path": f"{i}_{name.rpartition('.')[2]}"}
            for i, name in enumerate(named)
        ]
        modules[0]["path"] = encoder
        pooling = {"word_embedding_dimension": 7, "pooling_mode_mean_tokens": True}
        given = {"modules.json": modules, "1_Pooling/config.json": pooling, **(files or {})}
        for name, data in given.items():
            if data is None:
                continue
            file = tmp_path / "model" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(data if isinstance(data, str) else json.dumps(data))
        return tmp_path / "model"

    return make


def read(folder: Path, *, longest: int = 67) -> EmbeddingRecipe | None:
    return read_recipe(folder, hidden_size=7, longest=longest)


def refusal(folder: Path) -> str:
    with pytest.raises(ArtifactError) as refused:
        read(folder)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_folder_without_modules_says_nothing_about_vectors(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    assert encoder_folder(tmp_path) == tmp_path


@pytest.mark.parametrize("kinds", [PLAIN, tuple(NEW[kind] for kind in PLAIN)])
def test_modules_are_known_by_their_old_and_new_names(write, kinds: tuple[str, ...]) -> None:
    assert read(write(*kinds)) == EmbeddingRecipe(max_length=67)


def test_without_normalize_vectors_are_left_as_they_are(write) -> None:
    assert read(write("Transformer", "Pooling")) == EmbeddingRecipe(max_length=67, normalize=False)


def test_the_encoder_lies_where_the_first_module_says(write) -> None:
    settings = {"max_seq_length": 31, "do_lower_case": True}
    files = {"0_Transformer/sentence_bert_config.json": settings}
    folder = write(encoder="0_Transformer", files=files)
    assert encoder_folder(folder) == folder / "0_Transformer"
    assert read(folder) == EmbeddingRecipe(max_length=31, lowercase=True)


@pytest.mark.parametrize(
    ("said", "pooling"),
    [
        ({"pooling_mode": "cls"}, "first"),
        ({"pooling_mode": ["max"]}, "max"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode_cls_token": True}, "first"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}, "max"),
        ({}, "mean"),
    ],
)
def test_pooling_is_read_in_old_and_new_keys(write, said: dict[str, Any], pooling: str) -> None:
    recipe = read(write(files={"1_Pooling/config.json": {"embedding_dimension": 7, **said}}))
    assert recipe == EmbeddingRecipe(max_length=67, pooling=pooling)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls + mean"),
        ({"pooling_mode": ["mean", "max"]}, "mean + max"),
        ({"pooling_mode": "median"}, "median"),
        ({"pooling_mode": 5}, "5"),
        ({"pooling_mode": [["mean"]]}, "['mean']"),
    ],
)
def test_other_poolings_are_refused_by_name(write, said: dict[str, Any], found: str) -> None:
    sentence = refusal(write(files={"1_Pooling/config.json": said}))
    assert f"1_Pooling/config.json asks for the pooling {found}; only one of cls" in sentence
    assert "use sentence-transformers for this model" in sentence


@pytest.mark.parametrize(
    ("said", "pooling"),
    [
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode_weightedmean_tokens": True}, "weighted"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "sqrt"),
        ({"pooling_mode": ["max"]}, "max"),
    ],
)
def test_a_single_pooling_of_any_kind_is_known(write, said: dict[str, Any], pooling: str) -> None:
    assert read(write(files={"1_Pooling/config.json": said})).pooling == pooling


def test_a_prompt_may_be_left_out_of_the_pooling(write) -> None:
    said = {"pooling_mode": "mean", "include_prompt": False}
    recipe = read(write(files={"1_Pooling/config.json": said}))
    assert recipe == EmbeddingRecipe(max_length=67, pools_prompt=False)
    said["include_prompt"] = "no"
    assert "include_prompt is 'no'" in refusal(write(files={"1_Pooling/config.json": said}))


@pytest.mark.parametrize("name", ["sentence_bert_config.json", "sentence_roberta_config.json"])
def test_the_length_is_that_of_the_encoders_settings(write, name: str) -> None:
    files = {name: {"max_seq_length": 31}, "tokenizer_config.json": {"model_max_length": 40}}
    recipe = read(write(files=files))
    assert recipe == EmbeddingRecipe(max_length=31)


@pytest.mark.parametrize(("said", "length"), [(40, 40), (10**30, 67), (None, 67), (1e30, 67)])
def test_else_the_tokenizer_says_the_length_up_to_that_of_the_network(write, said, length) -> None:
    files = {
        "sentence_bert_config.json": {"transformer_task": "feature-extraction"},
        "tokenizer_config.json": {"model_max_length": said},
    }
    assert read(write(files=files)) == EmbeddingRecipe(max_length=length)


def test_a_length_beyond_the_network_is_cut_and_said(write, capsys) -> None:
    folder = write(files={"sentence_bert_config.json": {"max_seq_length": 514}})
    assert read(folder) == EmbeddingRecipe(max_length=67)
    said = "max_seq_length is 514; the network reads 67, which is used"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("length", [2, 0, -1, True, "many", 31.5])
def test_a_length_that_is_none_is_refused(write, length: object) -> None:
    folder = write(files={"sentence_bert_config.json": {"max_seq_length": length}})
    assert f"max_seq_length is {length!r}; it must be a whole number of at least 3" in refusal(
        folder
    )


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"transformer_task": "fill-mask"}, "the task fill-mask"),
        ({"processing_kwargs": {"text": {"max_length": 5}}}, "text in processing_kwargs"),
    ],
)
def test_an_encoder_used_in_another_way_is_refused(write, said, found: str) -> None:
    sentence = refusal(write(files={"sentence_bert_config.json": said}))
    assert f"asks for {found}, which is not known here" in sentence


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        ("config_sentence_transformers.json", {"truncate_dim": 5}, "cuts vectors to 5 numbers"),
        ("tokenizer_config.json", {"truncation_side": "left"}, "the beginning off long texts"),
        (
            "sentence_bert_config.json",
            {"tokenizer_args": {"truncation_side": "left"}},
            "asks for truncation_side in tokenizer_args",
        ),
        (
            "sentence_bert_config.json",
            {"config_args": {"num_hidden_layers": 1}},
            "asks for num_hidden_layers in config_args",
        ),
    ],
)
def test_what_would_make_other_vectors_is_refused(write, name: str, said, found: str) -> None:
    assert found in refusal(write(files={name: said}))


def test_what_changes_no_vector_is_passed_over(write) -> None:
    plain = read(write())
    harmless = {"tokenizer_args": {"use_fast": True, "padding_side": "right"}}
    harmless["config_args"] = {"trust_remote_code": True, "output_attentions": False}
    files = {"sentence_bert_config.json": harmless}
    files["config_sentence_transformers.json"] = {"truncate_dim": 10_000}
    assert read(write(files=files)) == plain


def test_prompts_are_read_with_the_default_one(write) -> None:
    said = {
        "prompts": {"query": "query: ", "document": ""},
        "default_prompt_name": "query",
        "similarity_fn_name": "dot",
    }
    assert read(write(files={"config_sentence_transformers.json": said})) == EmbeddingRecipe(
        max_length=67, prompts=said["prompts"], default_prompt="query", similarity="dot"
    )


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"prompts": ["query: "]}, "prompts is ['query: ']; it must map names to texts"),
        ({"prompts": "query: "}, "prompts is 'query: '"),
        ({"prompts": {"query": 5}}, "prompts is {'query': 5}"),
        ({"prompts": {"query": None}}, "prompts is {'query': None}"),
        ({"default_prompt_name": "query"}, "is 'query', but the prompts are none"),
        ({"prompts": {"a": "b"}, "default_prompt_name": ["a"]}, "is ['a'], but the prompts are a"),
    ],
)
def test_prompts_of_a_wrong_type_are_refused(write, said: dict[str, Any], found: str) -> None:
    assert found in refusal(write(files={"config_sentence_transformers.json": said}))


def test_a_cross_encoder_says_nothing_about_vectors(write) -> None:
    files = {"config_sentence_transformers.json": {"model_type": "CrossEncoder"}}
    assert read(write("Transformer", files=files)) is None


@pytest.mark.parametrize(
    ("modules", "found"),
    [
        ("[{", "modules.json is not JSON"),
        ("", "modules.json is not JSON"),
        ("[" * 100_000, "modules.json is not JSON"),
        ("{}", "is no list of modules"),
        ([], "is no list of modules"),
        (["Transformer"], "holds 'Transformer', which names no type and path"),
        ([{"type": 5, "path": ""}], "names no type and path"),
        ([{"type": f"{OLD}.Transformer"}], "names no type and path"),
        ([{"type": f"{OLD}.Transformer", "path": "../.."}], "the path '../..', which leads out"),
        ([{"type": f"{OLD}.Transformer", "path": "a/../../b"}], "which leads out of the folder"),
        ([{"type": f"{OLD}.Transformer", "path": "/etc"}], "the path '/etc', which leads out"),
    ],
)
def test_a_list_of_modules_that_is_none_is_refused(write, modules: object, found: str) -> None:
    folder = write(files={"modules.json": modules})
    assert found in refusal(folder)
    with pytest.raises(ArtifactError, match=r"modules\.json"):
        encoder_folder(folder)


@pytest.mark.parametrize(
    "kind",
    [
        f"{OLD}.LSTM",
        "sentence_transformers.sparse_encoder.models.SpladePooling",
        "custom_model.Transformer",
        "os.system",
        "Pooling.",
    ],
)
def test_an_unknown_module_is_refused_by_name_with_the_remedy(write, kind: str) -> None:
    sentence = refusal(write("Transformer", "Pooling", kind))
    assert f"a module of type {kind}, which is not known here; remove modules.json" in sentence


@pytest.mark.parametrize(
    "kinds",
    [
        ("Transformer",),
        ("Transformer", "Normalize"),
        ("Pooling", "Transformer"),
        ("Transformer", "Pooling", "Normalize", "Dense"),
        ("Transformer", "Pooling", "Normalize", "Normalize"),
        ("Transformer", "Pooling", "Pooling"),
    ],
)
def test_modules_in_an_order_that_is_not_known_are_refused(write, kinds: tuple[str, ...]) -> None:
    assert f"lists {', '.join(kinds)}; only Transformer, Pooling, then" in refusal(write(*kinds))


KEYS = st.sampled_from(
    ["type", "path", "pooling_mode", "include_prompt", "max_seq_length", "prompts", "query"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(
        [
            "modules.json",
            "1_Pooling/config.json",
            "2_Normalize/config.json",
            "sentence_bert_config.json",
            "tokenizer_config.json",
            "config_sentence_transformers.json",
        ]
    ),
    JSON,
)
def test_whatever_a_file_holds_it_is_read_or_refused_in_one_sentence(write, name, data) -> None:
    folder = write(files={name: json.dumps(data)})
    try:
        with suppress(ArtifactError):
            assert isinstance(read(folder), EmbeddingRecipe)
    finally:
        shutil.rmtree(folder)


def test_a_missing_pooling_file_is_named(write) -> None:
    folder = write(files={"1_Pooling/config.json": None})
    assert f"there is no {folder / '1_Pooling' / 'config.json'}; fetch" in refusal(folder)
    shutil.rmtree(folder)
    assert "is not a JSON object" in refusal(write(files={"1_Pooling/config.json": "[]"}))


def dense(write: Callable[..., Path], **said: Any) -> Path:
    """Write a folder with a dense layer from seven to five."""
    settings = {"in_features": 7, "out_features": 5, "bias": True, "activation_function": TANH}
    folder = write(
        "Transformer", "Pooling", "Dense", files={"2_Dense/config.json": settings | said}
    )
    tensors = {"linear.weight": torch.arange(35.0).view(5, 7), "linear.bias": torch.ones(5)}
    write_tensors(folder / "2_Dense" / "model.safetensors", tensors)
    return folder


def test_a_dense_layer_is_read_with_its_weights_and_its_bend(write) -> None:
    recipe = read(dense(write))
    assert recipe is not None
    (layer,) = recipe.layers
    assert layer.bend == "tanh"
    assert torch.equal(layer.weight, torch.arange(35.0).view(5, 7))
    assert layer.bias is not None
    assert layer.bias.tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"activation_function": "os.system"}, "asks for os.system"),
        ({"activation_function": "torch.nn.Softmax"}, "asks for torch.nn.Softmax"),
        ({"activation_function": ["x"]}, r"asks for ['x']"),
        ({"use_residual": True}, "asks for use_residual"),
        ({"module_input_name": "token_embeddings"}, "works on token_embeddings"),
        ({"out_features": 6}, "'linear.weight': [6, 7], 'linear.bias': [6]} is needed here"),
    ],
)
def test_a_dense_layer_of_another_kind_is_refused(write, said: dict[str, Any], found: str) -> None:
    assert found in refusal(dense(write, **said))


def test_a_dense_layer_must_fit_the_encoder(write) -> None:
    with pytest.raises(ArtifactError, match=r"'linear.weight': \[5, 21\]"):
        read_recipe(dense(write), hidden_size=21, longest=67)


def test_pickled_weights_are_never_opened(write) -> None:
    folder = dense(write)
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    sentence = refusal(folder)
    assert "holds its weights as a pickle, which is never opened" in sentence
    assert "save it again" in sentence
    (folder / "2_Dense" / "pytorch_model.bin").unlink()
    assert "there is no" in refusal(folder)


@pytest.mark.parametrize("bend", BENDS)
def test_what_is_written_is_read_again(tmp_path: Path, bend) -> None:
    random = torch.Generator().manual_seed(3)
    layers = (
        DenseLayer(torch.randn(5, 7, generator=random), None, bend),
        DenseLayer(torch.randn(3, 5, generator=random), torch.ones(3), "identity"),
    )
    recipe = EmbeddingRecipe(
        pooling="max",
        max_length=31,
        layers=layers,
        prompts={"query": "Frage: ", "答": "答案："},
        default_prompt="答",
        pools_prompt=False,
        lowercase=True,
        similarity="dot",
    )
    write_recipe(tmp_path, recipe, hidden_size=7)
    found = read(tmp_path)
    assert found is not None
    assert [layer.bend for layer in found.layers] == [bend, "identity"]
    for before, after in zip(layers, found.layers, strict=True):
        assert torch.equal(before.weight, after.weight)
    assert found.changed(layers=layers) == recipe


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_every_pooling_is_written_and_read(tmp_path: Path, pooling, normalize: bool) -> None:
    recipe = EmbeddingRecipe(pooling=pooling, normalize=normalize, max_length=67)
    write_recipe(tmp_path, recipe, hidden_size=7)
    assert read(tmp_path) == recipe


def test_lower_case_comes_before_all_else_but_special_pieces(tokenizer) -> None:
    folding = lowercased(tokenizer)
    assert folding.ids_of(["THE Cat"]) == tokenizer.ids_of(["the cat"])
    assert folding.ids_of(["[MASK]"]) == [[tokenizer.specials.mask]]


def test_a_tokenizer_that_folds_already_is_left_as_it_is(tokenizer) -> None:
    folding = lowercased(tokenizer)
    assert folding.engine.to_str() != tokenizer.engine.to_str()
    assert lowercased(folding).engine.to_str() == folding.engine.to_str()
