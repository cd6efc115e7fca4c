"""From raw English text to answers, by the commands as a person types them."""

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bertworks

Run = Callable[..., Any]
TOPICS = {
    "kitchen": ["bread", "soup", "oven", "plate", "spoon", "salt", "knife", "butter"],
    "garden": ["tree", "flower", "seed", "spade", "grass", "rain", "hedge", "bird"],
    "office": ["desk", "paper", "phone", "meeting", "printer", "chair", "report", "screen"],
}


def sentence(topic: str, chance: random.Random) -> str:
    """Make a sentence about one topic."""
    first, second, third = chance.sample(TOPICS[topic], 3)
    return f"The {first} is near the {second}, and we need the {third}."


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, process: Run) -> dict[str, Any]:
    """Live the whole life once, each part in a process of its own."""
    folder = tmp_path_factory.mktemp("english")
    chance = random.Random(11)
    documents = [
        " ".join(sentence(topic, chance) for _ in range(chance.randint(3, 6)))
        for topic in chance.choices(list(TOPICS), k=150)
    ]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    for name, count in (("train", 160), ("dev", 40), ("test", 60)):
        rows = [(sentence(topic, chance), topic) for topic in chance.choices(list(TOPICS), k=count)]
        lines = "".join(f"{text}\t{label}\n" for text, label in rows)
        (folder / f"{name}.tsv").write_text(f"text\tlabel\n{lines}")

    def run(*words: Any) -> dict[str, Any]:
        ended = process(*words, "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    place = {name: folder / name for name in ("tok", "shards", "model", "tuned", "report")}
    made = {
        "vocabulary": run("learn-vocab", folder / "text.txt", "--out", place["tok"], "--size", 200),
        "shards": run(
            *("tokenize", folder / "text.txt", "--tokenizer", place["tok"]),
            *("--out", place["shards"], "--held-out", 0.1),
        ),
        "model": run(
            *("pretrain", place["shards"], "--out", place["model"], "--size", "2x64"),
            *("--longest", 40, "--steps", 300, "--batch-tokens", 768, "--lr", 0.004),
            *("--dropout", 0, "--evaluate-every", 100),
        ),
        "tuned": run(
            *("finetune", "--model", place["model"], "--out", place["tuned"]),
            *("--train", folder / "train.tsv", "--dev", folder / "dev.tsv"),
            *("--epochs", 8, "--batch-size", 16, "--lr", 0.001),
        ),
        "scores": run(
            *("evaluate", "--model", place["tuned"], "--data", folder / "test.tsv"),
            *("--out", place["report"]),
        ),
    }
    return {"folder": folder, **made}


def test_pretraining_learns_what_belongs_together(life: dict[str, Any]) -> None:
    losses = [
        row["evaluation"]["fill_mask_loss"]
        for line in (life["folder"] / "model" / "log.jsonl").read_text().splitlines()
        if "evaluation" in (row := json.loads(line))
    ]
    guessing = np.log(life["vocabulary"]["pieces"])
    assert losses[-1] == min(losses)
    assert losses[-1] < guessing / 2


def test_the_tuned_model_knows_the_topics_of_texts_it_never_saw(life: dict[str, Any]) -> None:
    assert life["tuned"]["task"] == "classify"
    assert life["scores"]["examples"] == 60
    (interval,) = [row for row in life["scores"]["intervals"] if row["score"] == "accuracy"]
    assert interval["low"] > 0.7


def test_a_service_of_pipes_and_the_python_interface_answer_alike(
    life: dict[str, Any], process: Run
) -> None:
    chance = random.Random(23)
    texts = [sentence(topic, chance) for topic in TOPICS]
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    ended = process("predict", "--model", life["folder"] / "tuned", "--data", "-", stdin=stdin)
    piped = [json.loads(line) for line in ended.out.splitlines()]
    answers = bertworks.load(life["folder"] / "tuned").predict(texts)
    assert [answer["label"] for answer in answers] == list(TOPICS)
    for row, answer in zip(piped, answers, strict=True):
        assert row["label"] == answer["label"]
        assert row["probability"] == pytest.approx(answer["probability"], abs=1e-5)


def test_masks_are_filled_with_words_of_the_same_topic(life: dict[str, Any]) -> None:
    model = bertworks.load(life["folder"] / "model")
    for topic, others in (("kitchen", ("soup", "spoon")), ("garden", ("tree", "rain"))):
        text = f"The [MASK] is near the {others[0]}, and we need the {others[1]}."
        assert model.fill_mask(text)[0].token in TOPICS[topic]
    assert model.fill_mask("The desk is [MASK] the chair.")[0].token == "near"


def test_texts_of_one_topic_are_neighbours(life: dict[str, Any]) -> None:
    chance = random.Random(5)
    topics = [topic for topic in TOPICS for _ in range(8)]
    model = bertworks.load(life["folder"] / "tuned")
    vectors = model.embed([sentence(topic, chance) for topic in topics])
    likeness = vectors @ vectors.T - 2 * np.eye(len(topics))
    nearest = [topics[index] for index in likeness.argmax(axis=1)]
    assert np.mean([a == b for a, b in zip(nearest, topics, strict=True)]) > 0.9
