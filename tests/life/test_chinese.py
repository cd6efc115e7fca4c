"""From raw Chinese text to answers: characters, sentences, labels and masks."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bertworks

Run = Callable[..., Any]
THINGS = [
    "这家饭店的菜",
    "那个酒店的房间",
    "新买的手机",
    "昨天看的电影",
    "老师讲的课",
    "网上的服务",
]
GOOD = ["非常好", "特别满意", "很干净", "十分精彩", "让人喜欢"]
BAD = ["非常差", "特别失望", "很糟糕", "十分无聊", "让人讨厌"]
LABELS = {"好评": GOOD, "差评": BAD}
ENDS = {"好评": "下次还会再来。", "差评": "以后不会再来！"}


def review(label: str, chance: random.Random) -> str:
    """Make a short review of one sentence."""
    return f"{chance.choice(THINGS)}{chance.choice(LABELS[label])}。"


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, command: Run) -> dict[str, Any]:
    """Live the whole life once on made-up reviews."""
    folder = tmp_path_factory.mktemp("中文")
    chance = random.Random(7)
    documents = [
        "".join(review(label, chance) for _ in range(chance.randint(3, 6))) + ENDS[label]
        for label in chance.choices(list(LABELS), k=200)
    ]
    with (folder / "语料.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": d}, ensure_ascii=False) + "\n" for d in documents)
    for name, count in (("训练", 160), ("验证", 40), ("测试", 60)):
        rows = [(review(label, chance), label) for label in chance.choices(list(LABELS), k=count)]
        lines = "".join(f"{label},{text}\n" for text, label in rows)
        (folder / f"{name}.csv").write_text(f"标签,评论\n{lines}", encoding="utf-8")

    def run(*words: Any) -> dict[str, Any]:
        ended = command(*words, "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    names = ["--columns", "text=评论", "label=标签"]
    place = {name: folder / name for name in ("词表", "分片", "模型", "分类", "报告")}
    made = {
        "vocabulary": run(
            *("learn-vocab", folder / "语料.jsonl", "--out", place["词表"], "--size", 300)
        ),
        "shards": run(
            *("tokenize", folder / "语料.jsonl", "--tokenizer", place["词表"]),
            *("--out", place["分片"], "--held-out", 0.1, "--workers", 1),
        ),
        "model": run(
            *("pretrain", place["分片"], "--out", place["模型"], "--size", "2x64"),
            *("--longest", 32, "--steps", 400, "--batch-tokens", 768, "--lr", 0.006),
            *("--dropout", 0, "--warmup", 0.05),
        ),
        "tuned": run(
            *("finetune", "--model", place["模型"], "--out", place["分类"], *names),
            *("--train", folder / "训练.csv", "--dev", folder / "验证.csv"),
            *("--epochs", 8, "--batch-size", 16, "--lr", 0.001),
        ),
        "scores": run(
            *("evaluate", "--model", place["分类"], "--data", folder / "测试.csv", *names),
            *("--out", place["报告"]),
        ),
    }
    return {"folder": folder, "documents": documents, **made}


def test_no_character_of_the_text_is_unknown(life: dict[str, Any]) -> None:
    model = bertworks.load(life["folder"] / "模型")
    for document in life["documents"][:20]:
        ids = model.tokenizer.ids_of([document])[0]
        assert model.tokenizer.specials.unknown not in ids
        assert len(ids) == len(document)
        assert model.tokenizer.text_of(ids).replace(" ", "") == document


def test_sentences_are_found_by_chinese_punctuation(life: dict[str, Any]) -> None:
    written = sum(document.count("。") + document.count("！") for document in life["documents"])
    assert life["shards"]["sentences"] == written
    assert life["shards"]["documents"] == 200


def test_the_tuned_model_tells_praise_from_blame(life: dict[str, Any]) -> None:
    assert life["tuned"]["task"] == "classify"
    assert life["scores"]["examples"] == 60
    (interval,) = [row for row in life["scores"]["intervals"] if row["score"] == "accuracy"]
    assert interval["low"] > 0.7
    report = (life["folder"] / "报告" / "report.html").read_text(encoding="utf-8")
    assert "差评" in report


def test_answers_are_written_as_they_are_spoken(
    life: dict[str, Any], tmp_path: Path, command: Run
) -> None:
    data, out = tmp_path / "问题.jsonl", tmp_path / "回答.jsonl"
    data.write_text('{"text": "老师讲的课十分精彩。"}\n{"text": "新买的手机很糟糕。"}\n')
    words = ["predict", "--model", life["folder"] / "分类", "--data", data, "--out", out]
    assert command(*words).code == 0
    text = out.read_text(encoding="utf-8")
    assert [json.loads(line)["label"] for line in text.splitlines()] == ["好评", "差评"]
    assert '"label": "好评"' in text


def test_a_hidden_character_is_found_from_its_neighbours(
    life: dict[str, Any], command: Run
) -> None:
    model = bertworks.load(life["folder"] / "模型")
    assert model.fill_mask("这家饭[MASK]的菜非常好。")[0].token == "店"
    assert model.fill_mask("昨天看的电[MASK]十分无聊。")[0].token == "影"
    stdin = '{"text": "老[MASK]讲的课让人喜欢。"}\n'.encode()
    ended = command("predict", "--model", life["folder"] / "模型", "--data", "-", stdin=stdin)
    assert json.loads(ended.out)["masks"][0][0]["token"] == "师"
