"""Vectors of texts and pieces: layers, precision, windows, neighbours, and odd texts."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from bertworks.core.errors import ArtifactError, DataError, UsageError
from bertworks.data.packing import Features, flatten
from bertworks.model.embedding import DenseLayer, EmbeddingRecipe
from bertworks.serving.model_folder import OpenModel
from bertworks.serving.predictor import Predictor
from bertworks.serving.text_pieces import read_input
from bertworks.serving.vectors import VectorForm

POOLINGS = ("mean", "first", "max", "weighted", "last", "sqrt")
LONG = "the cat sat on the mat and the dog ran over the hill " * 11
TEXTS = ["The cat sat on the mat.", "北京", "", "Die Katze läuft!", "\u0e01\u0e02", "a " * 40, LONG]


@pytest.fixture(scope="session")
def model(make_model, tokenizer, machine) -> Predictor:
    return Predictor(OpenModel(make_model(), tokenizer, None), machine)


@torch.no_grad()
def layers_of(model: Predictor, text: str) -> list[np.ndarray]:
    tokens, segments, _ = read_input((text, None), model.tokenizer, longest=67)
    batch = flatten([Features(tokens, segments)])
    return [layer.numpy() for layer in model.model.encoder.layers(batch)]


def test_the_last_of_all_layers_is_what_the_encoder_gives(model) -> None:
    (last,) = model.embed(TEXTS[:1])
    for layers in (-1, 3, (-1,)):
        np.testing.assert_allclose(model.embed(TEXTS[:1], layers=layers)[0], last, atol=1e-6)
    assert len(layers_of(model, TEXTS[0])) == 4


def test_mixes_of_layers_are_pooled_as_one(model) -> None:
    hidden = layers_of(model, TEXTS[0])
    for asked, tokens in [
        ({"layers": -2}, hidden[2]),
        ({"layers": (-1, -2, 1)}, (hidden[3] + hidden[2] + hidden[1]) / 3),
        ({"layers": (1, 3), "mix": (1, 3)}, (hidden[1] + 3 * hidden[3]) / 4),
        ({"layers": (3, 0), "mix": "concat"}, np.concatenate([hidden[3], hidden[0]], axis=1)),
    ]:
        (found,) = model.embed(TEXTS[:1], normalize=False, **asked)
        np.testing.assert_allclose(found, tokens.mean(0), atol=1e-5)
    assert model.embed([], layers=(3, 0), mix="concat").shape == (0, 42)


def test_a_dense_layer_refuses_layers_side_by_side(make_model, tokenizer, machine) -> None:
    recipe = EmbeddingRecipe(layers=(DenseLayer(torch.ones(5, 21), None, "tanh"),))
    model = Predictor(OpenModel(make_model(), tokenizer, None, recipe), machine)
    assert model.embed(TEXTS, layers=(-1, -2)).shape == (7, 5)
    with pytest.raises(UsageError, match="are 42 wide, but the model's dense layer takes 21"):
        model.embed(TEXTS, layers=(-1, -2), mix="concat")


@effort(max_examples=20)
@given(st.permutations(range(len(TEXTS))), st.data(), st.sampled_from(POOLINGS))
def test_a_vector_depends_on_no_neighbour(model, order: list[int], data, pooling: str) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(TEXTS) - 1))))
    asked = {"pooling": pooling, "layers": (-1, -2)}
    alone = np.concatenate([model.embed([text], **asked) for text in TEXTS])
    for group in np.split(np.array(order), cuts):
        together = model.embed([TEXTS[place] for place in group], **asked)
        np.testing.assert_allclose(together, alone[group], atol=1e-5)
        tokens = model.embed_tokens([TEXTS[place] for place in group])
        for place, found in zip(group, tokens, strict=True):
            (one,) = model.embed_tokens([TEXTS[place]])
            np.testing.assert_allclose(found.vectors, one.vectors, atol=1e-5)


@pytest.mark.parametrize("num_words", [0, 7, 55])
def test_windows_of_a_long_text_are_pooled_as_one_without_the_prompt(
    num_words: int, make_model, tokenizer, machine
) -> None:
    model, prompt = make_model().eval(), "the " * num_words
    told = {"prompts": {"query": prompt}, "default_prompt": "query", "pools_prompt": False}
    own = OpenModel(model, tokenizer, None, EmbeddingRecipe(normalize=False, **told))
    pieces = tokenizer.ids_of([prompt + LONG])[0]
    # Windows of 65 pieces share 16 with the next one.
    hidden, pooled = [], []
    for start in range(0, len(pieces) - 16, 49):
        part = pieces[start : start + 65]
        tokens = np.array([tokenizer.specials.first, *part, tokenizer.specials.separator])
        with torch.no_grad():
            hidden.append(model.encoder(flatten([Features(tokens, 0 * tokens)])).numpy())
        num_prompt = num_words - start
        pooled.append(np.arange(len(tokens)) > (num_prompt if num_prompt > 0 else -1))
    is_pooled = np.concatenate(pooled)
    kept, places = np.concatenate(hidden)[is_pooled], np.flatnonzero(is_pooled) + 1
    firsts = [part[np.flatnonzero(seen)[0]] for part, seen in zip(hidden, pooled, strict=True)]
    assert len(hidden) > 2
    predictor = Predictor(own, machine)
    for pooling, expected in {
        "mean": kept.mean(0),
        "first": np.mean(firsts, axis=0),
        "max": kept.max(0),
        "last": kept[-1],
        "sqrt": kept.sum(0) / len(kept) ** 0.5,
        "weighted": places @ kept / places.sum(),
    }.items():
        found = predictor.embed(["short", LONG, "short"], pooling=pooling)
        np.testing.assert_allclose(found[1], expected, atol=1e-5, err_msg=pooling)
        np.testing.assert_allclose(found[0], found[2], atol=1e-5)


def test_token_vectors_stand_beside_their_characters(model) -> None:
    short, nothing, long = model.embed_tokens(["The cat sat.", "", LONG])
    assert [piece.piece for piece in short.pieces] == ["the", "cat", "sat", "."]
    assert [(piece.start, piece.end) for piece in short.pieces] == [
        (0, 3),
        (4, 7),
        (8, 11),
        (11, 12),
    ]
    hidden = layers_of(model, "The cat sat.")[-1]
    np.testing.assert_allclose(short.vectors, hidden[1:-1], atol=1e-5)
    assert nothing.vectors.shape == (0, 21)
    assert long.vectors.shape == (len(model.tokenizer.ids_of([LONG])[0]), 21)
    assert np.abs(long.vectors).sum(1).min() > 0  # each was read in one of the windows


def test_vectors_come_in_few_bits(model) -> None:
    ranges = model.vector_ranges(TEXTS, dims=13, precision="uint8")
    assert ranges.shape == (2, 13)
    plain = model.embed(TEXTS, dims=13)
    small = model.embed(TEXTS, dims=13, precision="uint8", ranges=ranges)
    step = (ranges[1] - ranges[0]) / 255
    assert (np.abs(ranges[0] + small * step - plain) <= step * 1.01 + 1e-6).all()
    bits = model.embed(TEXTS, precision="ubinary")
    np.testing.assert_array_equal(bits, np.packbits(model.embed(TEXTS) > 0, axis=1))
    with pytest.raises(UsageError, match=r"int8 vectors need ranges, .*vector_ranges\(texts\)"):
        model.embed(TEXTS, precision="int8")


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
def test_a_word_of_a_million_characters_has_a_vector(kind: str, kinds, draw_model, machine) -> None:
    family = {"wordpiece": "bert", "byte-bpe": "roberta", "unigram": "albert"}[kind]
    drawn, tokenizer = draw_model(family, num_layers=1)
    model = Predictor(OpenModel(drawn, tokenizer, None), machine)
    (cut,) = model.embed(["a" * 1_000_000], max_length=31)
    assert np.isfinite(cut).all()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("normalize_embeddings", r" \(did you mean normalize\?\)"),
        ("prompt_name", r" \(did you mean prompt\?\)"),
        ("batch_size", ""),
        ("convert_to_tensor", ""),
        ("show_progress_bar", ""),
    ],
)
def test_what_vectors_are_not_asked_for_by_is_named_beside_what_is_known(
    model, name: str, hint: str
) -> None:
    said = f"^vectors are not asked for by '{name}'{hint}; what is known: pooling, .*, ranges$"
    for call in (model.embed, model.embed_chunks, model.vector_ranges):
        with pytest.raises(UsageError, match=said):
            call(TEXTS, **{name: True})


def test_the_help_of_embed_names_all_that_can_be_asked_for() -> None:
    told = Predictor.embed.__doc__
    assert told is not None
    assert ", ".join(field.name for field in fields(VectorForm)) in " ".join(told.split())


def test_wrong_texts_are_refused_by_their_number(model) -> None:
    for call in (model.embed, model.embed_tokens):
        with pytest.raises(DataError, match=r"input 2 is 'half a .*only texts can be embedded"):
            call(["fine", "half a \ud83d"])
        said = f"^{call.__name__} takes a list of texts; put the text into a list"
        with pytest.raises(UsageError, match=said):
            call("the cat")
    with pytest.raises(DataError, match="is no text that can be read"):
        model.attention("half a \ud83d")


def test_broken_weights_are_told_of_and_not_passed_on(make_model, tokenizer, machine) -> None:
    broken = make_model()
    with torch.no_grad():
        broken.encoder.embeddings.pieces.weight.fill_(float("nan"))
    model = Predictor(OpenModel(broken, tokenizer, None), machine)
    for call in (model.embed, model.embed_tokens):
        with pytest.raises(ArtifactError, match="vectors are not finite"):
            call(["the cat"])


def test_texts_are_read_apart_and_computed_in_any_company(model) -> None:
    form = VectorForm(pooling="max", dims=7)
    read = model.embedder.read(TEXTS, form)
    assert [text.num_tokens for text in read[:3]] == [9, 4, 2]
    assert len(read[-1].windows) > 1
    expected = model.embed(TEXTS, pooling="max", dims=7)
    for order in ([6, 0, 3], [2], [5, 6, 1, 4]):
        found = model.embedder.vectors([read[place] for place in order], form)
        np.testing.assert_allclose(found, expected[order], atol=1e-5)


def test_a_text_with_broken_numbers_has_none_and_its_neighbours_have_theirs(
    make_model, tokenizer, machine
) -> None:
    dense = DenseLayer(torch.ones(5, 21), None, "sigmoid")  # which would hide an infinity
    recipe = EmbeddingRecipe(layers=(dense,), normalize=False)
    model = Predictor(OpenModel(make_model(), tokenizer, None, recipe), machine)
    expected = model.embed(["the dog", "北京"])
    with torch.no_grad():
        model.model.encoder.embeddings.pieces.weight[tokenizer.ids_of(["cat"])[0]] = torch.inf
    read = model.embedder.read(["the dog", "a cat", "北京"], VectorForm())
    found = model.embedder.vectors(read, VectorForm())
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[[0, 2]], expected, atol=1e-5)
    rows = model.embedder.token_vectors([text.windows[0] for text in read], VectorForm())
    assert [bool(np.isfinite(part).all()) for part in rows] == [True, False, True]


def test_a_text_that_is_cut_says_so(make_model, tokenizer, machine) -> None:
    recipe = EmbeddingRecipe(max_length=9)
    model = Predictor(OpenModel(make_model(), tokenizer, None, recipe), machine)
    read = model.embedder.read(["cat", "cat " * 7, "cat " * 8], VectorForm())
    assert [(text.num_tokens, text.is_cut) for text in read] == [(3, False), (9, False), (9, True)]
