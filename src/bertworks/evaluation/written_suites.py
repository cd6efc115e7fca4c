"""The suites of texts to write: translations and summaries, with what copying scores.

What copying scores is told by `bertworks evaluate`, of the test part.
"""

from dataclasses import replace

from bertworks.evaluation.suite_task import Metric, SuiteTask, files_of

BARE_PARTS = {part: f"{part}.tsv" for part in ("train", "dev", "test")}
JSONL_PARTS = {part: f"{part}.jsonl" for part in ("train", "dev", "test")}
FROM_ENGLISH, FROM_CHINESE = ("source=1", "target=2"), ("source=2", "target=1")
BY_ROUGE = ("rougeL", "rouge1", "rouge2")


def _written(folder: str, *columns: str, by: tuple[str, ...], **names: str) -> SuiteTask:
    """Return a task of texts to write; a decoder that begins anew needs more than fine-tuning."""
    return SuiteTask(
        kind="generate",
        parts=files_of(folder, *columns, **names),
        metrics=tuple(map(Metric, by)),
        epochs=15,
        batch_size=64,
        lr=3e-4,
    )


def _translation(folder: str, *columns: str, **names: str) -> SuiteTask:
    return _written(f"translation/{folder}", *columns, by=("bleu", "chrf"), **names)


def _tatoeba(*columns: str) -> SuiteTask:
    bare = _translation("tatoeba-en-zh", *columns, train="train.tsv", test="test.tsv")
    remark = "Chinese in both scripts; copying scores below 1 BLEU"
    return replace(bare, held_out={"dev": 0.03}, remark=remark)


def _python_docs(*columns: str) -> SuiteTask:
    bare = _translation("python-docs-en-zh", *columns, **BARE_PARTS)
    return replace(bare, remark="full of mark-up: copying alone scores 25 to 28 BLEU")


TRANSLATE = {
    "multi30k": _translation(
        "multi30k-en-de", train="train.en-de", dev="val.en-de", test="test_2016_flickr.en-de"
    ),
    "tatoeba_zh_en": _tatoeba(*FROM_CHINESE),
    "tatoeba_en_zh": _tatoeba(*FROM_ENGLISH),
    "python_docs_en_zh": _python_docs(*FROM_ENGLISH),
    "python_docs_zh_en": _python_docs(*FROM_CHINESE),
}

SUMMARIZE = {
    "arxiv_title": replace(
        _written(
            "summarization/arxiv-title",
            "source=abstract",
            "target=title",
            by=BY_ROUGE,
            **JSONL_PARTS,
        ),
        remark="the first sentence of the abstract scores 26.7 ROUGE-L",
    ),
    "scitldr": replace(
        _written("summarization/scitldr-a", by=BY_ROUGE, **JSONL_PARTS),
        remark="abstracts only; the first sentence scores 23.0 ROUGE-L, best of several references",
    ),
}
