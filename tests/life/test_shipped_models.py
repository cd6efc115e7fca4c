"""The models that come with bertworks: whole, told truly, and good for what their cards say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks
from bertworks.core.shipped import PLACE
from bertworks.serving.predictor import Predictor

NAMES = sorted(path.parent.name for path in PLACE.glob("*/manifest.json"))
# What stands behind the mask is among the five likeliest pieces for most of these.
MASKED = {
    "en": {
        "She was born in New [MASK] City.": "york",
        "The war lasted from 1914 [MASK] 1918.": "to",
        "He is the author of several [MASK] and short stories.": "novels",
        "The [MASK] flows through the valley into the sea.": "river",
        "They lived in the United [MASK] of America.": "states",
        "He was the first [MASK] of the United States.": "president",
        "She opened the [MASK] and went into the house.": "door",
        "The film was directed [MASK] a young man.": "by",
        "It is one of the [MASK] cities in the world.": "largest",
        "I do not [MASK] what you mean.": "know",
    },
    "zh": {
        "北京是中国的首[MASK]。": "都",
        "他毕业于北京大[MASK]。": "学",
        "这部电影由他执[MASK]。": "导",
        "第二次世界大[MASK]于1945年结束。": "战",
        "中华人民共和[MASK]成立于1949年。": "国",
        "这本小[MASK]的作者是鲁迅。": "说",
        "他是美国第一任总[MASK]。": "统",
        "这座城[MASK]位于河流的南岸。": "市",
        "他出生[MASK]一个农民家庭。": "于",
        "我不知[MASK]你是什么意思。": "道",
    },
}
NEAR = {
    "en": [
        (
            "A man is playing a guitar.",
            "Someone plays a guitar.",
            "The stock market fell on Monday.",
        ),
        ("The cat sleeps on the sofa.", "A cat is sleeping.", "Water boils at a hundred degrees."),
        ("How old is the earth?", "What is the age of the earth?", "She sings in a choir."),
        ("The ship sank in a storm.", "A storm sank the ship.", "He opened a new restaurant."),
    ],
    "zh": [
        ("一个男人在弹吉他。", "有人正在弹吉他。", "股票市场星期一下跌。"),
        ("猫睡在沙发上。", "一只猫正在睡觉。", "水在一百度沸腾。"),
        ("地球有多少岁？", "地球的年龄是多少？", "她在合唱团里唱歌。"),
        ("这艘船在暴风雨中沉没。", "暴风雨使船沉没。", "他开了一家新餐馆。"),
    ],
}


@pytest.fixture(scope="module", params=NAMES)
def model(request: pytest.FixtureRequest) -> Predictor:
    """Open a model that comes with bertworks by its name."""
    return bertworks.load(request.param, device="cpu")


@pytest.fixture
def language(model: Predictor, request: pytest.FixtureRequest) -> str:
    """Return what the model reads, by its name."""
    return next(one for one in MASKED if f"-{one}" in request.node.callspec.params["model"])


def test_there_are_some_and_the_command_tells_them(command: Any) -> None:
    told = json.loads(command("models", "--json").out)["models"]
    assert [row["name"] for row in told] == NAMES
    assert {row["language"] for row in told} == {"en", "zh"}


def test_masks_are_filled_with_sense(model: Predictor, language: str) -> None:
    if "fill_mask" not in model.model.tasks:
        pytest.skip("made for vectors")
    masked = MASKED[language]
    found = {text: [one.token for one in model.fill_mask(text)] for text in masked}
    right = [text for text, expected in masked.items() if expected in found[text]]
    assert len(right) >= 7, found


def test_texts_that_mean_alike_lie_nearer_than_others(model: Predictor, language: str) -> None:
    for texts in NEAR[language]:
        first, alike, other = model.embed(list(texts))
        assert first @ alike > first @ other


def test_transformers_opens_what_export_makes_of_it(
    model: Predictor, language: str, request: pytest.FixtureRequest, command: Any, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    name = request.node.callspec.params["model"]
    out = tmp_path / "theirs"
    ended = command("export", "--model", name, "--to", "hugging-face", "--out", out)
    assert ended.code == 0, ended.err
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    theirs = transformers.AutoModel.from_pretrained(out).eval()
    text = NEAR[language][0][0]
    with torch.no_grad():
        hidden = theirs(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    vector = hidden.mean(0).numpy()
    own = model.embed([text], pooling="mean", normalize=False)[0]
    assert np.allclose(own, vector, atol=1e-4)
