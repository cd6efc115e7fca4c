"""A model put to work: what it takes, what it gives, and what it says about wrong inputs."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bertworks
from bertworks.core.artifact import Origin
from bertworks.core.batch import Layout
from bertworks.core.errors import ArtifactError, DataError, UsageError
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, flatten, join_pieces
from bertworks.data.windows import cut_spans
from bertworks.model.embedding import DenseLayer, EmbeddingRecipe
from bertworks.model.encoder import pool_texts
from bertworks.model.weights import read_tensors, write_tensors
from bertworks.serving.model_folder import OpenModel, open_model, save_model
from bertworks.serving.predictor import Candidate, Predictor
from bertworks.tasks import answering

POOLINGS = ("mean", "first", "max")
TEXTS = ["The cat sat on the mat.", "北京", "dog", "Die Katze läuft über den Hügel!", "a " * 40]
LONG = "the cat sat on the mat and the dog ran over the hill " * 20


@pytest.fixture(scope="session")
def predictors(make_model, tokenizer, machine) -> dict[str, Predictor]:
    tasks = {
        "classify": ("classify",),
        "match": ("match",),
        "pretrained": ("fill_mask", "next_sentence"),
        "bare": (),
    }
    return {
        name: Predictor(OpenModel(make_model(*names), tokenizer, None), machine)
        for name, names in tasks.items()
    }


@pytest.fixture(scope="session")
def classifier(predictors) -> Predictor:
    return predictors["classify"]


@pytest.fixture(scope="session")
def pretrained(predictors) -> Predictor:
    return predictors["pretrained"]


def windows_of(predictor: Predictor, text: str) -> list[np.ndarray]:
    """Return the tokens of each window of a text, put together by hand."""
    ids = np.array(predictor.tokenizer.ids_of([text])[0], np.int64)
    spans = cut_spans(len(ids), room=predictor.longest - 2)
    return [join_pieces(ids[a:b], None, predictor.tokenizer.specials)[0] for a, b in spans]


@torch.no_grad()
def hidden_of(predictor: Predictor, tokens: np.ndarray) -> np.ndarray:
    batch = flatten([Features(tokens, np.zeros_like(tokens))])
    return predictor.model.encoder(batch).numpy()


def plain_vector(predictor: Predictor, text: str, pooling: str) -> np.ndarray:
    """Pool a text by the plain formulas: over all windows, by length for the mean."""
    hidden = [hidden_of(predictor, tokens) for tokens in windows_of(predictor, text)]
    if pooling == "first":
        return np.mean([window[0] for window in hidden], axis=0)
    tokens = np.concatenate(hidden)
    return tokens.mean(axis=0) if pooling == "mean" else tokens.max(axis=0)


def test_the_number_of_threads_is_chosen_when_a_model_is_loaded(
    tmp_path: Path, make_model, tokenizer
) -> None:
    save_model(tmp_path / "model", make_model("classify"), tokenizer, origin=Origin())
    before = torch.get_num_threads()
    try:
        bertworks.load(tmp_path / "model", threads=before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_a_folder_is_loaded_by_its_path(tmp_path: Path, make_model, tokenizer) -> None:
    save_model(tmp_path / "model", make_model("classify"), tokenizer, origin=Origin())
    by_text, by_path = bertworks.load(str(tmp_path / "model")), bertworks.load(tmp_path / "model")
    assert isinstance(by_text, bertworks.Predictor)
    assert by_text.predict(TEXTS) == by_path.predict(TEXTS)
    assert not by_text.model.training
    with pytest.raises(
        ArtifactError, match=r"no model folder .*nowhere; names are not fetched: give a folder"
    ):
        bertworks.load(tmp_path / "nowhere")


@pytest.mark.parametrize("path", [None, 3, "", b"model", ["model"]])
def test_what_names_no_folder_is_one_sentence(path) -> None:
    with pytest.raises(
        UsageError, match=r"^the model is given as .*; give its folder, or its name"
    ):
        bertworks.load(path)


@pytest.mark.parametrize(
    ("threads", "said"), [("2", "give a whole"), (2.0, "give a whole"), (0, "the")]
)
def test_what_is_no_number_of_threads_is_one_sentence(tmp_path: Path, threads, said: str) -> None:
    with pytest.raises(UsageError, match=f"^threads is {threads!r}; {said}"):
        bertworks.load(tmp_path, threads=threads)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_of_a_folder_is_not_the_folder(tmp_path: Path, make_model, tokenizer, name) -> None:
    folder = tmp_path / "model"
    save_model(folder, make_model("classify"), tokenizer, origin=Origin())
    with pytest.raises(ArtifactError, match=f"{name} is a file; give .* that holds it: {folder}$"):
        bertworks.load(folder / name)


def test_a_fresh_pooler_that_no_task_reads_is_not_spoken_of(
    tmp_path: Path, make_model, tokenizer, capsys
) -> None:
    save_model(tmp_path / "model", make_model("fill_mask"), tokenizer, origin=Origin())
    assert open_model(tmp_path / "model").account.missing
    bertworks.load(tmp_path / "model")
    assert "weights of" not in capsys.readouterr().err
    (tmp_path / "model" / "manifest.json").unlink()
    file = tmp_path / "model" / "model.safetensors"
    write_tensors(file, {**read_tensors(file), "qa_outputs.weight": torch.ones(3)})
    bertworks.load(tmp_path / "model")
    said = capsys.readouterr().err
    assert "1 are left out (qa_outputs.weight)" in said
    assert "encoder.pooler" not in said


def test_texts_pairs_and_rows_are_all_inputs(classifier) -> None:
    inputs = ["the cat", ("the cat", "a dog"), {"text": "the cat"}]
    inputs += [{"text": "the cat", "text_b": "a dog"}, ["the cat", "a dog"]]
    single, pair, row, paired_row, listed = classifier.predict(inputs)
    assert single["probabilities"] == pytest.approx(row["probabilities"], abs=1e-5)
    assert pair["probabilities"] == pytest.approx(paired_row["probabilities"], abs=1e-5)
    assert pair["probabilities"] == pytest.approx(listed["probabilities"], abs=1e-5)
    gaps = [
        abs(pair["probabilities"][k] - single["probabilities"][k]) for k in pair["probabilities"]
    ]
    assert max(gaps) > 1e-3


def test_answers_come_one_per_input_in_order(classifier) -> None:
    straight = classifier.predict(TEXTS)
    backwards = classifier.predict(TEXTS[::-1])
    assert len(straight) == len(TEXTS)
    for first, second in zip(straight, reversed(backwards), strict=True):
        assert first["probabilities"] == pytest.approx(second["probabilities"], abs=1e-5)
    assert straight[0]["probabilities"] != pytest.approx(straight[2]["probabilities"], abs=1e-3)


def test_the_task_that_is_named_answers_and_by_default_the_first(pretrained) -> None:
    pairs = [("the cat [MASK]", "a dog [MASK]")]
    assert "label" in pretrained.predict(pairs, task="next_sentence")[0]
    assert pretrained.predict(pairs, task="next-sentence") == pretrained.predict(
        pairs, task="next_sentence"
    )
    assert "masks" in pretrained.predict(["the cat [MASK]"])[0]
    with pytest.raises(
        UsageError, match=r"^this model has no task 'mood'; its tasks are: fill_mask"
    ):
        pretrained.predict(pairs, task="mood")
    with pytest.raises(UsageError, match=r"^this model has no task 1; its tasks are: fill_mask"):
        pretrained.predict(pairs, task=1)


def test_nothing_asked_is_nothing_answered(classifier) -> None:
    assert classifier.predict([]) == []


def test_a_text_longer_than_the_network_is_answered_from_all_of_it(classifier) -> None:
    (first,) = classifier.predict([LONG])
    (second,) = classifier.predict([LONG + "北京 " * 60])
    gaps = [
        abs(first["probabilities"][k] - second["probabilities"][k]) for k in first["probabilities"]
    ]
    assert max(gaps) > 1e-3


def test_a_label_that_comes_along_is_not_looked_at(classifier) -> None:
    inputs = [{"text": "the cat", "label": "unheard of"}, {"text": "the cat"}]
    first, second = classifier.predict(inputs)
    assert first["probabilities"] == pytest.approx(second["probabilities"], abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (5, "input 2 is 5; give a text, a pair of texts, or a row"),
        (None, "input 2 is None"),
        (("a", "b", "c"), "input 2 is"),
        (("a",), "input 2 is"),
        (("a", 5), "input 2: 'text_b'"),
        ("", "input 2: 'text' is empty"),
        (" \n", "input 2: 'text' is empty"),
        ({}, r"input 2: no 'text' \(found nothing\)"),
        ({"sentence": "a"}, r"input 2: no 'text' \(found sentence\)"),
        ({1: "a"}, r"input 2: no 'text' \(found 1\)"),
        ({"text": 7}, "input 2: 'text' is 7, which is no text; write it as \"7\""),
        ("half a \ud83d", "input 2: .*surrogate"),
    ],
)
def test_a_wrong_input_is_named_by_its_number(classifier, wrong: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        classifier.predict(["fine", wrong])


@pytest.mark.parametrize("wrong", ["the cat", {"text": "the cat"}])
def test_a_single_input_is_not_taken_for_a_list(classifier, wrong: object) -> None:
    with pytest.raises(UsageError, match="put the input into a list"):
        classifier.predict(wrong)


def test_a_generator_is_one_sentence_wherever_a_list_is_taken(classifier) -> None:
    calls = (
        classifier.predict,
        classifier.embed,
        classifier.embed_tokens,
        classifier.vector_ranges,
        lambda texts: classifier.classify(texts, labels=["a", "b"]),
        lambda texts: classifier.rank("the cat", texts),
        lambda texts: list(classifier.embed_chunks([texts])),
    )
    for call in calls:
        with pytest.raises(UsageError, match="but this is of type generator; give a list"):
            call(text for text in ("the cat", "a dog"))


def test_matching_asks_for_the_second_text(predictors) -> None:
    (found,) = predictors["match"].predict([("the cat", "a dog")])
    assert found["label"] in ("cold", "mild", "warm")
    with pytest.raises(DataError, match="needs a second text"):
        predictors["match"].predict(["the cat"])


def test_a_model_without_heads_embeds_but_does_not_answer(predictors) -> None:
    bare = predictors["bare"]
    assert bare.embed(TEXTS).shape == (5, 21)
    with pytest.raises(UsageError, match="no task head; fine-tune it first, or use embed"):
        bare.predict(TEXTS)
    with pytest.raises(UsageError, match="no fill-mask head"):
        bare.fill_mask("the [MASK]")


def test_one_mask_gives_its_candidates_best_first(pretrained) -> None:
    found = pretrained.fill_mask("The [MASK] sat on the mat.")
    assert len(found) == 5
    assert all(isinstance(candidate, Candidate) for candidate in found)
    shares = [candidate.probability for candidate in found]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1


def test_several_masks_give_a_list_for_each_in_order(pretrained) -> None:
    first, second = pretrained.fill_mask("The [MASK] sat on the [MASK].", num_candidates=3)
    assert [len(first), len(second)] == [3, 3]
    tokens = windows_of(pretrained, "The [MASK] sat on the [MASK].")[0]
    hidden = torch.tensor(hidden_of(pretrained, tokens))
    places = np.flatnonzero(tokens == pretrained.tokenizer.specials.mask)
    head, pieces = pretrained.model.heads["fill_mask"], pretrained.model.encoder.embeddings.pieces
    with torch.no_grad():
        bent = torch.nn.functional.gelu(head.transform(hidden[places]))
        shares = (head.norm(bent) @ pieces.weight.T + head.bias).softmax(1)
    for candidates, row in zip((first, second), shares, strict=True):
        best = row.topk(3)
        expected = [pretrained.tokenizer.piece(i) for i in best.indices.tolist()]
        assert [c.token for c in candidates] == expected
        assert [c.probability for c in candidates] == pytest.approx(best.values.tolist(), abs=1e-5)


def test_masks_far_into_a_long_text_are_filled(pretrained) -> None:
    found = pretrained.fill_mask(f"{LONG} [MASK] {LONG} [MASK] [MASK]", num_candidates=2)
    assert [len(candidates) for candidates in found] == [2, 2, 2]


def test_as_many_candidates_as_there_are_pieces_sum_to_one(pretrained) -> None:
    size = pretrained.tokenizer.vocab_size
    found = pretrained.fill_mask("the [MASK]", num_candidates=size + 5)
    assert len(found) == size
    assert sum(candidate.probability for candidate in found) == pytest.approx(1, abs=1e-5)


def test_asking_for_more_candidates_changes_no_later_answer(pretrained) -> None:
    before = pretrained.predict(["the [MASK]"])
    pretrained.fill_mask("the [MASK]", num_candidates=11)
    assert pretrained.predict(["the [MASK]"]) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the cat", r"no \[MASK\]"),
        ("", "'text' is empty"),
        (None, "input 1 is None"),
        (7, "input 1 is 7"),
    ],
)
def test_a_text_without_a_mask_is_refused(pretrained, text: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pretrained.fill_mask(text)


@pytest.mark.parametrize("count", [0, -1])
def test_no_candidates_at_all_cannot_be_meant(pretrained, count: int) -> None:
    with pytest.raises(UsageError, match=f"num_candidates is {count}"):
        pretrained.fill_mask("the [MASK]", num_candidates=count)


@pytest.mark.parametrize("count", ["3", 2.5, True, None])
def test_candidates_are_a_whole_number(pretrained, count) -> None:
    with pytest.raises(UsageError, match=f"^num_candidates is {count!r}; give a whole number$"):
        pretrained.fill_mask("the [MASK]", num_candidates=count)
    assert len(pretrained.fill_mask("the [MASK]", num_candidates=np.int64(3))) == 3


@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_are_pooled_by_the_plain_formulas(classifier, pooling) -> None:
    texts = [*TEXTS, LONG]
    found = classifier.embed(texts, pooling=pooling, normalize=False)
    assert found.dtype == np.float32
    for vector, text in zip(found, texts, strict=True):
        np.testing.assert_allclose(vector, plain_vector(classifier, text, pooling), atol=1e-5)


def test_the_long_text_of_these_tests_needs_windows(classifier) -> None:
    assert len(windows_of(classifier, LONG)) > 3
    assert len(windows_of(classifier, TEXTS[0])) == 1


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_vector_is_the_same_alone_and_among_others(classifier, pooling) -> None:
    texts = [*TEXTS, LONG, "", *TEXTS]
    together = classifier.embed(texts, pooling=pooling)
    alone = np.concatenate([classifier.embed([text], pooling=pooling) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.abs(together - alone[::-1]).max() > 1e-2  # the check would see a swap


@pytest.mark.parametrize("pooling", POOLINGS)
def test_normalized_vectors_have_length_one_and_the_same_direction(classifier, pooling) -> None:
    plain = classifier.embed([*TEXTS, LONG], pooling=pooling, normalize=False)
    unit = classifier.embed([*TEXTS, LONG], pooling=pooling)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(
        unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6
    )


@pytest.mark.parametrize("max_length", [3, 5, 31, 66])
def test_a_maximal_length_cuts_and_counts_the_special_pieces(classifier, max_length: int) -> None:
    ids = classifier.tokenizer.ids_of([LONG])[0][: max_length - 2]
    tokens, _ = join_pieces(np.array(ids), None, classifier.tokenizer.specials)
    expected = hidden_of(classifier, tokens).mean(axis=0)
    (found,) = classifier.embed([LONG], normalize=False, max_length=max_length)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_maximal_length_beyond_the_network_is_that_of_the_network(classifier) -> None:
    np.testing.assert_array_equal(
        classifier.embed([LONG], max_length=1000), classifier.embed([LONG], max_length=67)
    )
    assert not np.allclose(classifier.embed([LONG], max_length=67), classifier.embed([LONG]))


def test_a_short_text_is_the_same_with_and_without_a_maximal_length(classifier) -> None:
    texts = TEXTS[:4]
    np.testing.assert_array_equal(classifier.embed(texts), classifier.embed(texts, max_length=40))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_empty_list_gives_no_rows_of_the_right_width(classifier, pooling) -> None:
    found = classifier.embed([], pooling=pooling)
    assert found.shape == (0, 21)
    assert found.dtype == np.float32


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("text", ["", " \n\t", "\x00", "\u200b", "🙂"])
def test_a_text_without_pieces_still_has_a_finite_vector(classifier, pooling, text: str) -> None:
    (found,) = classifier.embed([text], pooling=pooling)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40), max_size=5))
def test_any_text_at_all_has_a_finite_vector(classifier, texts: list[str]) -> None:
    found = classifier.embed(texts)
    assert found.shape == (len(texts), 21)
    assert np.isfinite(found).all()


def test_a_single_text_is_not_taken_for_a_list(classifier) -> None:
    with pytest.raises(UsageError, match="put the text into a list"):
        classifier.embed("the cat")


@pytest.mark.parametrize("wrong", [None, 5, ("a", "b"), b"bytes", "half a \ud83d"])
def test_what_is_no_text_is_named_by_its_number(classifier, wrong: object) -> None:
    with pytest.raises(DataError, match="input 2 is"):
        classifier.embed(["fine", wrong])


@pytest.mark.parametrize("texts", [["the cat"], []])
def test_unknown_pooling_is_refused_even_for_nothing(classifier, texts: list[str]) -> None:
    with pytest.raises(UsageError, match="pooling 'cls' is not known; use mean, first, max"):
        classifier.embed(texts, pooling="cls")


@pytest.mark.parametrize("max_length", [2, 0, -5])
def test_a_maximal_length_without_room_is_refused(classifier, max_length: int) -> None:
    with pytest.raises(UsageError, match=f"max_length is {max_length}; the least is 3"):
        classifier.embed(["the cat"], max_length=max_length)


@pytest.fixture(scope="session")
def described(make_model, tokenizer, machine):
    """Make a predictor whose folder says how to embed."""

    def make(**said) -> Predictor:
        recipe = EmbeddingRecipe(**{"max_length": 31, **said})
        return Predictor(OpenModel(make_model("classify"), tokenizer, None, recipe), machine)

    return make


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalize", [True, False])
def test_what_the_folder_says_is_the_default(classifier, described, pooling, normalize) -> None:
    model = described(pooling=pooling, normalize=normalize)
    texts = [*TEXTS, LONG]
    asked = {"pooling": pooling, "normalize": normalize, "max_length": 31}
    np.testing.assert_array_equal(model.embed(texts), classifier.embed(texts, **asked))
    other = model.embed(texts, pooling="mean", normalize=True, max_length=9)
    np.testing.assert_array_equal(other, classifier.embed(texts, max_length=9))


def test_texts_that_the_folder_cuts_are_counted_once_a_call(described, classifier, capsys) -> None:
    described().embed([LONG, "short", LONG])
    said = "2 of 3 texts are cut after 31 pieces, as the model's folder says"
    assert capsys.readouterr().err.splitlines() == [f"{said}; set max_length to read more or fewer"]
    described().embed(["short", "a " * 29])
    described().embed([LONG], max_length=31)
    classifier.embed([LONG])
    assert capsys.readouterr().err == ""


def test_a_prompt_stands_before_every_text(classifier, described) -> None:
    model = described(prompts={"query": "the dog: "}, default_prompt="query")
    plain = classifier.embed(TEXTS[:4])
    prompted = classifier.embed([f"the dog: {text}" for text in TEXTS[:4]])
    assert np.abs(plain - prompted).max() > 1e-2
    for model_asked, prompt in [
        (model, None),
        (model, "query"),
        (model, "the dog: "),
        (classifier, "the dog: "),
    ]:
        np.testing.assert_array_equal(model_asked.embed(TEXTS[:4], prompt=prompt), prompted)
    np.testing.assert_array_equal(model.embed(TEXTS[:4], prompt=""), plain)
    with pytest.raises(UsageError, match=r"no prompt 'document'; .* are: query "):
        model.embed(TEXTS, prompt="document")
    with pytest.raises(UsageError, match=r"^prompt is 3; give the name of a prompt, or its text$"):
        model.embed(TEXTS, prompt=3)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_prompt_may_be_read_but_not_pooled(described, pooling) -> None:
    model = described(
        pooling=pooling, prompts={"q": "the dog: "}, pools_prompt=False, normalize=False
    )
    (tokens,) = windows_of(model, "the dog: the cat")
    num_prompt = len(windows_of(model, "the dog: ")[0]) - 1
    rest = hidden_of(model, tokens)[num_prompt:]
    expected = {"mean": rest.mean(0), "first": rest[0], "max": rest.max(0)}[pooling]
    (found,) = model.embed(["the cat"], prompt="q")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    (plain,) = model.embed(["the cat"])
    assert np.abs(plain - found).max() > 1e-2


def test_dense_layers_change_the_width_even_of_nothing(described) -> None:
    weight = torch.randn(5, 21, generator=torch.Generator().manual_seed(2))
    model = described(layers=(DenseLayer(weight, None, "identity"),), normalize=False)
    plain = described(normalize=False).embed(TEXTS[:3])
    np.testing.assert_allclose(model.embed(TEXTS[:3]), plain @ weight.numpy().T, atol=1e-5)
    assert model.embed([]).shape == (0, 5)


def test_a_saved_recipe_is_loaded_again(tmp_path: Path, make_model, tokenizer) -> None:
    recipe = EmbeddingRecipe(pooling="max", max_length=31, prompts={"q": "the dog: "})
    model = make_model("classify")
    save_model(tmp_path / "model", model, tokenizer, origin=Origin(), recipe=recipe)
    loaded = bertworks.load(tmp_path / "model")
    assert loaded.recipe == recipe
    assert loaded.predict(TEXTS)  # the task is still there


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**31))
def test_texts_are_pooled_within_their_bounds(lengths: list[int], seed: int) -> None:
    hidden = torch.randn(sum(lengths), 5, generator=torch.Generator().manual_seed(seed))
    layout, parts = Layout.of(tuple(lengths)), hidden.split(lengths)
    expected = {
        "mean": torch.stack([part.mean(0) for part in parts]),
        "first": torch.stack([part[0] for part in parts]),
        "max": torch.stack([part.amax(0) for part in parts]),
    }
    for pooling, vectors in expected.items():
        torch.testing.assert_close(pool_texts(hidden, layout, pooling), vectors)


# Ranking, and labels that were never learned


@pytest.mark.parametrize("name", ["bare", "match"])
@pytest.mark.parametrize(("query", "text"), [("a cat", None), (None, "a cat"), ("a cat", 7)])
def test_only_texts_are_ranked(predictors, name: str, query, text) -> None:
    with pytest.raises(DataError, match=r"input [12] is .*; only texts can be ranked"):
        predictors[name].rank(query, [text])


def test_candidates_are_ranked_by_vectors_or_by_a_model_of_pairs(predictors) -> None:
    query, candidates = TEXTS[0], [*TEXTS[1:], LONG]
    for name in ("bare", "match"):
        model = predictors[name]
        ranked = model.rank(query, candidates)
        scores = [found.score for found in ranked]
        assert scores == sorted(scores, reverse=True)
        assert [candidates[found.place] for found in ranked] == [found.text for found in ranked]
        if name == "bare":
            vectors = model.embed([query, *candidates])
            expected = (vectors[1:] @ vectors[0])[[found.place for found in ranked]]
        else:
            answers = model.predict([(query, found.text) for found in ranked])
            expected = [answer["probabilities"]["warm"] for answer in answers]
        np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert predictors["bare"].rank(query, []) == []
    with pytest.raises(UsageError, match="rank takes a list of candidates"):
        predictors["bare"].rank(query, "one")


@pytest.mark.parametrize(("name", "by"), [("bare", "vectors"), ("pretrained", "cloze")])
def test_texts_get_one_of_the_labels_given(predictors, name: str, by) -> None:
    model = predictors[name]
    labels = {"cat": "the cat", "dog": "a dog", "capital": "北京"}
    answers = model.classify([*TEXTS, LONG], labels=labels)
    assert [list(answer["probabilities"]) for answer in answers] == [list(labels)] * 6
    assert answers == model.classify([*TEXTS, LONG], labels=labels, by=by)
    (alone,) = model.classify(TEXTS[3:4], labels=labels)
    assert alone["probability"] == pytest.approx(answers[3]["probability"], rel=1e-4)
    if by == "vectors":
        cosines = model.embed(TEXTS) @ model.embed(list(labels.values())).T
        assert [answer["label"] for answer in answers[:5]] == [
            list(labels)[place] for place in cosines.argmax(axis=1)
        ]


def test_a_text_that_says_nothing_has_no_leaning_when_calibrated(predictors) -> None:
    for name in ("bare", "pretrained"):
        task = predictors[name].zero_shot(["cat", "dog", "hill"], calibrate=True)
        (nothing,) = predictors[name].answer_examples([TextExample("")], task)
        assert list(nothing["probabilities"].values()) == pytest.approx([1 / 3] * 3, rel=1e-4)


@pytest.mark.parametrize(("name", "by"), [("bare", "vectors"), ("pretrained", "cloze")])
def test_a_pair_is_no_text_to_classify(predictors, name: str, by) -> None:
    with pytest.raises(DataError, match="input 2: zero-shot reads one text, not a pair"):
        predictors[name].classify(["the cat", ("a", "b")], labels=["a", "b"], by=by)


def test_texts_to_classify_are_a_list(predictors) -> None:
    with pytest.raises(UsageError, match="classify takes a list of texts"):
        predictors["bare"].classify("the cat", labels=["a", "b"])


def test_a_folder_of_sentence_transformers_answers_pairs_with_their_cosine(
    make_model, tokenizer, tmp_path: Path
) -> None:
    recipe = EmbeddingRecipe(pooling="max")
    save_model(tmp_path / "m", make_model(), tokenizer, origin=Origin(), recipe=recipe)
    model = bertworks.load(tmp_path / "m", device="cpu")
    first, second = model.embed(TEXTS[:2])
    (answer,) = model.predict([tuple(TEXTS[:2])])
    assert answer == {"score": pytest.approx(float(first @ second), abs=1e-5)}


def test_only_unknown_characters_and_a_word_without_end_are_answered(classifier) -> None:
    unknown, endless = classifier.predict(["\u0e01\u0e02 \u0e03", "a" * 1_000_000])
    for answer in (unknown, endless):
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_a_folder_without_a_tokenizer_is_refused_in_a_sentence(
    tmp_path: Path, make_model, tokenizer
) -> None:
    save_model(tmp_path / "model", make_model("classify"), tokenizer, origin=Origin())
    kept = {"config.json", "model.safetensors"}
    for file in (tmp_path / "model").iterdir():
        if file.name not in kept:
            file.unlink()
    with pytest.raises(ArtifactError, match=r"model holds no tokenizer \(tokenizer.json"):
        bertworks.load(tmp_path / "model")


def test_a_folder_that_says_how_vectors_are_made_answers_pairs(
    tmp_path: Path, make_model, tokenizer
) -> None:
    for pooling in ("max", "weighted"):
        recipe = EmbeddingRecipe(pooling=pooling, max_length=31)
        folder = tmp_path / pooling
        save_model(folder, make_model(), tokenizer, origin=Origin(), recipe=recipe)
        loaded = bertworks.load(folder)
        assert list(loaded.model.tasks) == ["embed"]
        assert loaded.recipe.pooling == pooling
        assert loaded.embed(["the cat"]).shape == (1, 21)


def test_long_examples_are_answered_fewer_at_once(
    predictors, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = predictors["classify"]
    examples = [TextExample("cat " * count, line=count) for count in (1, 1, 9, 9, 2, 1)]
    monkeypatch.setattr(answering, "CHUNK_CHARACTERS", 12)
    for task in (None, model.zero_shot(["cat", "dog"], by="vectors")):
        chunks = list(model.answer_chunks(examples, task))
        assert [len(chunk.pairs) for chunk in chunks] == [3, 1, 2]


def test_a_task_that_writes_nothing_is_named(make_model, tokenizer, machine) -> None:
    opened = OpenModel(make_model("classify", "generate"), tokenizer, None)
    predictor = Predictor(opened, machine)
    assert predictor.writer().name == "generate"
    with pytest.raises(UsageError, match="the task classify writes no texts"):
        predictor.generate(["the cat"], task="classify")
