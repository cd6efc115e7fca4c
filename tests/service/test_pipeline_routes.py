"""Hugging Face's own client, unmodified."""

import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from bertworks.service.http_app import AppSettings, make_app
from bertworks.service.models import Models

TEXT = "The cat sat on the mat."
ASKED = {"question": "Who sat?", "context": TEXT}
MANY = {"candidate_labels": ["a", "b"], "multi_label": True}


@pytest.fixture(scope="module")
def ask(address):
    """Make Hugging Face's client of a path."""
    return lambda path, at=address: InferenceClient(model=f"{at}{path}", token="none")


@pytest.fixture(scope="module")
def serve_writer(model_folder, serve_app):
    """Serve a model that writes, and no other."""
    models = Models.open([str(model_folder("generate"))])
    with serve_app(make_app(models, AppSettings())) as address:
        yield address
    models.stop(1.0)


@pytest.fixture(scope="module")
def of(ask):
    """Make Hugging Face's client of a model and a task."""
    return lambda model, task: ask(f"/models/{model}/pipeline/{task}")


def test_vectors_are_read(ask, of, served_models) -> None:
    expected = served_models.get().predictor.embed([TEXT], normalize=True)
    for client in (ask("/"), ask("/pipeline/feature-extraction"), ask("/embed")):
        np.testing.assert_allclose(client.feature_extraction(TEXT), expected, atol=1e-5)
    short = of("classify", "feature-extraction").feature_extraction(TEXT, dimensions=5)
    assert short.shape == (1, 5)


def test_texts_are_compared(ask) -> None:
    for path in ("/", "/similarity", "/pipeline/sentence-similarity"):
        scores = ask(path).sentence_similarity("the cat", other_sentences=["北京", "the cat"])
        assert scores[1] == pytest.approx(1, abs=1e-5)


def test_labels_are_read(of, served_models) -> None:
    found = of("classify", "text-classification").text_classification(TEXT)
    (expected,) = served_models.get("classify").predictor.predict([TEXT])
    assert found[0].label == expected["label"]
    assert found[0].score == pytest.approx(expected["probability"], abs=1e-5)
    best = of("classify", "text-classification").text_classification(TEXT, top_k=1)
    assert len(best) == 1


def test_spans_are_read(of, served_models) -> None:
    found = of("tag", "token-classification").token_classification(TEXT)
    (expected,) = served_models.get("tag").predictor.predict([TEXT])
    assert [one.word for one in found] == [span["text"] for span in expected["spans"]]
    assert all(TEXT[one.start : one.end] == one.word for one in found)
    assert found[0].entity_group == expected["spans"][0]["label"]


def test_answers_are_read(of, served_models) -> None:
    asked = {"question": "Who sat?", "context": TEXT}
    found = of("answer", "question-answering").question_answering(**asked)
    (expected,) = served_models.get("answer").predictor.predict(
        [{"question": "Who sat?", "passage": TEXT}]
    )
    assert found.answer == expected["answer"]
    assert TEXT[found.start : found.end] == found.answer
    several = of("answer", "question-answering").question_answering(**asked, top_k=4)
    wanted = [one["answer"] for one in expected["candidates"][:4]]
    assert [one.answer for one in several] == wanted
    assert len(wanted) == 4


def test_masks_are_filled(ask, of, served_models) -> None:
    text = "The [MASK] sat on the mat."
    expected = served_models.get().predictor.fill_mask(text, num_candidates=3)
    for client in (ask("/"), of("fill_mask", "fill-mask")):
        found = client.fill_mask(text, top_k=3)
        assert [one.token_str for one in found] == [one.token for one in expected]
        assert found[0].sequence == text.replace("[MASK]", expected[0].token)
        assert [one.token for one in found] == [one.id for one in expected]


def test_labels_that_were_never_learned_are_read(ask) -> None:
    for path in ("/", "/pipeline/zero-shot-classification"):
        found = ask(path).zero_shot_classification(TEXT, ["cat", "dog"])
        assert sorted(one.label for one in found) == ["cat", "dog"]
        assert found[0].score >= found[1].score


def test_a_template_has_its_place_where_the_client_puts_it(of, served_models) -> None:
    asked = {"candidate_labels": ["cat", "dog"], "hypothesis_template": "This speaks of {}."}
    found = of("classify", "zero-shot-classification").zero_shot_classification(TEXT, **asked)
    (expected,) = served_models.get("classify").predictor.classify(
        [TEXT], labels=["cat", "dog"], template="This speaks of {label}."
    )
    assert {one.label: one.score for one in found} == pytest.approx(
        expected["probabilities"], abs=1e-5
    )


def test_texts_that_are_written_are_read(of, ask, served_models, serve_writer) -> None:
    (expected,) = served_models.get("generate").predictor.predict([TEXT])
    translation, summary = of("generate", "translation"), of("generate", "summarization")
    assert translation.translation(TEXT).translation_text == expected["text"]
    assert summary.summarization(TEXT).summary_text == expected["text"]
    assert of("generate", "text-generation").text_generation(TEXT) == expected["text"]
    root = ask("/", serve_writer)
    assert root.translation(TEXT).translation_text == expected["text"]
    assert root.summarization(TEXT).summary_text == expected["text"]
    assert root.text_generation(TEXT) == expected["text"]


def test_texts_are_written_in_the_ways_that_the_client_names(of, served_models) -> None:
    predictor = served_models.get("generate").predictor
    (expected,) = predictor.generate([TEXT], beams=3, longest_reply=6, no_repeat=2)
    way = {"num_beams": 3, "max_new_tokens": 6, "no_repeat_ngram_size": 2, "do_sample": False}
    found = of("generate", "translation").translation(TEXT, generate_parameters=way)
    assert found.translation_text == expected
    drawn = {"temperature": 1.5, "top_k": 30, "top_p": 0.9}
    (expected,) = predictor.generate([TEXT], draw_seed=4, longest_reply=6, **drawn)
    writer, asked = of("generate", "text-generation"), {**drawn, "seed": 4, "max_new_tokens": 6}
    assert writer.text_generation(TEXT, **asked) == expected
    (likeliest,) = predictor.generate([TEXT], longest_reply=6)
    assert writer.text_generation(TEXT, **asked, do_sample=False) == likeliest
    (bold,) = predictor.generate([TEXT], temperature=1.0, longest_reply=6)
    assert writer.text_generation(TEXT, do_sample=True, max_new_tokens=6) == bold


def test_a_text_that_is_too_long_is_cut_unless_the_client_says_not_to(of) -> None:
    client, way = of("generate", "summarization"), {"generate_parameters": {"max_length": 3}}
    assert client.summarization("the cat " * 99, **way).summary_text
    with pytest.raises(HfHubHTTPError, match="413"):
        client.summarization("the cat " * 99, truncation="do_not_truncate", **way)


def test_the_client_is_told_what_is_wrong(ask, of) -> None:
    with pytest.raises(HfHubHTTPError, match="404"):
        ask("/pipeline/nothing").feature_extraction(TEXT)
    with pytest.raises(HfHubHTTPError, match="422"):
        of("classify", "token-classification").token_classification(TEXT)


@pytest.mark.parametrize(
    ("task", "body"),
    [
        ("feature-extraction", {"inputs": {"a": 1}}),
        ("feature-extraction", {"inputs": [1]}),
        ("sentence-similarity", {"inputs": "a"}),
        ("question-answering", {"inputs": "a"}),
        ("question-answering", {"inputs": {"question": 3, "context": []}}),
        ("question-answering", {"inputs": ASKED, "parameters": {"max_answer_len": 3}}),
        ("question-answering", {"inputs": ASKED, "parameters": {"handle_impossible_answer": True}}),
        ("fill-mask", {"inputs": "a [MASK]", "parameters": {"top_k": "many"}}),
        ("fill-mask", {"inputs": "a"}),
        ("zero-shot-classification", {"inputs": "a"}),
        ("zero-shot-classification", {"inputs": "a", "parameters": {"candidate_labels": 3}}),
        ("zero-shot-classification", {"inputs": "a", "parameters": {"candidate_labels": [3]}}),
        ("zero-shot-classification", {"inputs": "a", "parameters": MANY}),
        ("fill-mask", {"inputs": "a [MASK]", "parameters": {"targets": ["cat"]}}),
        ("token-classification", {"inputs": "a", "parameters": {"aggregation_strategy": "none"}}),
        ("token-classification", {"inputs": [["a", 3]]}),
        ("text-classification", {"inputs": [[]]}),
        ("translation", {"inputs": [["a", "b"]]}),
        ("translation", {"inputs": "a", "parameters": {"src_lang": "en", "tgt_lang": "de"}}),
        ("translation", {"inputs": "a", "parameters": {"generate_parameters": {"beam": 3}}}),
        ("translation", {"inputs": "a", "parameters": {"generate_parameters": {"num_beams": "4"}}}),
        ("translation", {"inputs": "a", "parameters": {"generate_parameters": {"do_sample": 3}}}),
        ("text-generation", {"inputs": "a", "stream": True}),
        ("text-generation", {"inputs": "a", "parameters": {"return_full_text": True}}),
        ("text-generation", {"inputs": "a", "parameters": {"stop": ["."]}}),
        ("text-generation", {"inputs": "a", "parameters": {"max_new_tokens": 257}}),
    ],
)
def test_inputs_that_a_task_does_not_read_are_refused(client, task: str, body: dict) -> None:
    model = {"token-classification": "tag", "text-classification": "classify"}.get(task)
    model = "generate" if task in ("translation", "text-generation") else model
    model = model or ("answer" if task == "question-answering" else "fill_mask")
    answer = client.post(f"/models/{model}/pipeline/{task}", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] in ("bad_value", "cannot_do")


@pytest.mark.parametrize(
    ("model", "task"), [("fill_mask", "fill-mask"), ("tag", "token-classification")]
)
@pytest.mark.parametrize(
    "inputs", [{"text": "a [MASK]"}, [{"text": "a [MASK]"}], [["a [MASK]", "b"]]]
)
def test_what_is_shown_in_the_answer_must_be_a_text(client, model: str, task: str, inputs) -> None:
    answer = client.post(f"/models/{model}/pipeline/{task}", json={"inputs": inputs})
    assert answer.status_code == 422
    assert "only texts can be read here" in answer.json()["error"]["message"]
