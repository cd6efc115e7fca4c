"""The suites: public tasks, where their files lie, how they are trained, what others published.

Learning rates, batch sizes and epochs lie mostly in the ranges that the BERT papers searched.
Published figures are percent, and their source stands beside them; one without is left out.
"""

from bertworks.evaluation.suite_task import SIZES, Figures, Metric, Source, SuiteTask, files_of
from bertworks.evaluation.written_suites import SUMMARIZE, TRANSLATE


def _turc(*figures: float, base: float | None = None) -> Figures:
    """Return figures of tiny to medium, and that of base.

    They stand in the README of google-research/bert, for the models of Turc et al. (2019), and in
    Devlin et al. (2019), table 1, where STS-B is scored by Spearman and MRPC by F1.
    """
    found = dict(zip(SIZES, figures, strict=False))
    return found if base is None else {**found, "base": base}


TRAIN_DEV = {"train": "train.tsv", "dev": "dev.tsv"}
LABELLED = {**TRAIN_DEV, "test": "test_labelled.tsv"}
SENTENCES = ("text=sentence1", "text_b=sentence2")
BARE_PAIR = ("text=1", "text_b=2")
A_TENTH = {"dev": 0.1}

# Figures of dev: Devlin et al. (2019), table 5.
GLUE = {
    "cola": SuiteTask(
        kind="classify",
        parts=files_of("glue/CoLA", "text=4", "label=2", **TRAIN_DEV),
        metrics=(Metric("mcc", test=_turc(0.0, 0.0, 27.8, 38.0, base=52.1)),),
    ),
    "sst2": SuiteTask(
        kind="classify",
        parts=files_of("glue/SST-2", "text=sentence", **LABELLED),
        metrics=(
            Metric("accuracy", dev={"base": 92.7}, test=_turc(83.2, 85.9, 89.7, 89.6, base=93.5)),
        ),
    ),
    "mrpc": SuiteTask(
        kind="match",
        parts=files_of(
            "glue/MRPC", "text=#1 String", "text_b=#2 String", "label=Quality", **LABELLED
        ),
        metrics=(
            Metric("f1", test=_turc(81.1, 81.1, 83.4, 86.6, base=88.9)),
            Metric("accuracy", dev={"base": 86.7}, test=_turc(71.1, 71.8, 76.2, 81.6)),
        ),
    ),
    "stsb": SuiteTask(
        kind="score",
        parts={
            **files_of("glue/STS-B", *SENTENCES, "score=score", **TRAIN_DEV),
            "test": (Source("glue/STS-B/test_labelled.tsv", ("text=6", "text_b=7", "score=5")),),
        },
        metrics=(
            Metric("pearson", test=_turc(74.3, 75.4, 78.8, 80.4)),
            Metric("spearman", test=_turc(73.6, 73.3, 77.0, 78.4, base=85.8)),
        ),
    ),
    "rte": SuiteTask(
        kind="match",
        parts=files_of("glue/RTE", *SENTENCES, **TRAIN_DEV),
        metrics=(Metric("accuracy", test=_turc(57.2, 57.9, 61.8, 62.2, base=66.4)),),
    ),
    "wnli": SuiteTask(
        kind="match",
        parts=files_of("glue/WNLI", *SENTENCES, **TRAIN_DEV),
        metrics=(Metric("accuracy", test=_turc(62.3, 62.3, 62.3, 62.3)),),
        remark="dev contradicts train by design: most models answer worse than a constant",
    ),
    "qnli": SuiteTask(
        kind="match",
        parts=files_of("glue/QNLI", "text=question", "text_b=sentence", **TRAIN_DEV),
        metrics=(
            Metric("accuracy", dev={"base": 88.4}, test=_turc(81.5, 84.1, 86.4, 87.7, base=90.5)),
        ),
        epochs=3,
        remark="train is derived from SQuAD, not the official file",
    ),
}

# Devlin et al. (2019), table 2, of dev and without TriviaQA.
SQUAD = {
    "squad1": SuiteTask(
        kind="answer",
        parts=files_of("squad", train="train-v1.1.json", dev="dev-v1.1.json"),
        metrics=(Metric("f1", dev={"base": 88.5}), Metric("exact_match", dev={"base": 80.8})),
        epochs=3,
        longest=384,
        remark="where an answer stands in train was found again by search",
    ),
    "squad2": SuiteTask(
        kind="answer",
        parts=files_of("squad", test="dev-v2.0.json"),
        metrics=(Metric("f1"), Metric("exact_match"), Metric("answerable_f1")),
        model_of="squad1",
        remark="the official dev part, answered by the model of squad1, which always answers",
    ),
}

TNEWS = SuiteTask(
    kind="classify",
    parts=files_of("topics/tnews", "text=1", "label=2", **TRAIN_DEV),
    metrics=(Metric("accuracy", test={"base": 56.6}),),  # README of CLUEbenchmark/CLUE
    epochs=3,
)
CLUENER = SuiteTask(
    kind="tag",
    parts=files_of("tagging/cluener", train="train.json", dev="dev.json"),
    metrics=(Metric("f1", test={"base": 78.8}),),  # README of CLUEbenchmark/CLUENER2020
)
CLUE = {
    "tnews": TNEWS,
    "afqmc": SuiteTask(
        kind="match",
        parts=files_of("pairs/afqmc", *BARE_PAIR, "label=3", **TRAIN_DEV),
        metrics=(Metric("accuracy", test={"base": 73.7}),),  # README of CLUEbenchmark/CLUE
        epochs=3,
    ),
    "ocnli": SuiteTask(
        kind="match",
        parts=files_of("pairs/ocnli", *SENTENCES, train="train.10k.json", dev="dev.json"),
        # README of CLUEbenchmark/OCNLI, means of five runs on the whole train part
        metrics=(Metric("accuracy", dev={"base": 74.5}, test={"base": 72.2}),),
        remark="train is a fifth of the official one",
    ),
    "cluener": CLUENER,
    "chnsenticorp": SuiteTask(
        kind="classify",
        parts=files_of("sentiment/chnsenticorp", "text=1", "label=2", **TRAIN_DEV),
        # README of ymcui/Chinese-BERT-wwm, means of ten runs
        metrics=(Metric("accuracy", dev={"base": 94.3}, test={"base": 94.7}),),
        epochs=3,
    ),
    "cmrc": SuiteTask(
        kind="answer",
        parts=files_of("qa-zh/cmrc2018", train="trial.json", dev="dev.json"),
        # README of ymcui/Chinese-BERT-wwm, means of ten runs on the whole train part
        metrics=(Metric("f1", dev={"base": 84.0}), Metric("exact_match", dev={"base": 64.4})),
        epochs=3,
        remark="trained on the trial part, a tenth of the official train",
    ),
}

TWITTER = "tagging/broad-twitter-corpus"
SEGMENTED = "tagging/segmentation-zh"
TAGS = {
    "ewt": SuiteTask(
        kind="tag",
        parts=files_of(
            "tagging/ud-english-ewt",
            "tags=upos",
            train="en_ewt-ud-train.conllu",
            dev="en_ewt-ud-dev.conllu",
            test="en_ewt-ud-test.conllu",
        ),
        metrics=(Metric("accuracy"),),
    ),
    "twitter": SuiteTask(
        kind="tag",
        parts={
            "train": (
                *(Source(f"{TWITTER}/{section}.conll") for section in "abeg"),
                Source(f"{TWITTER}/h.conll", end=0.5),
            ),
            "dev": (Source(f"{TWITTER}/h.conll", begin=0.5),),
            "test": (Source(f"{TWITTER}/f.conll"),),
        },
        metrics=(Metric("f1"),),
    ),
    "wikiann": SuiteTask(
        kind="tag",
        parts={
            "train": (Source("tagging/wikiann-en/train.tsv"),),
            "dev": (Source("tagging/wikiann-en/dev.tsv", end=0.5),),
            "test": (Source("tagging/wikiann-en/dev.tsv", begin=0.5),),
        },
        metrics=(Metric("f1"),),
        remark="test is the second half of the official dev part",
    ),
    "cluener": CLUENER,
    "msra": SuiteTask(
        kind="tag",
        parts=files_of("tagging/msra-ner", train="train.txt", test="test.txt"),
        metrics=(Metric("f1"),),
        epochs=3,
        held_out=A_TENTH,
    ),
    "resume": SuiteTask(
        kind="tag",
        parts=files_of(
            "tagging/resume-ner",
            train="train.char.bmes",
            dev="dev.char.bmes",
            test="test.char.bmes",
        ),
        metrics=(Metric("f1"),),
        epochs=5,
    ),
    "segmentation": SuiteTask(
        kind="tag",
        parts=files_of(
            SEGMENTED,
            train="peoplesdaily-199801_train.txt",
            dev="peoplesdaily-199801_dev.txt",
            test="pku_test_gold.utf8",
        ),
        metrics=(Metric("f1"),),
        remark="train is a sample of People's Daily, test that of PKU in SIGHAN 2005",
    ),
}


def _intents(folder: str, *, intent: float, slots: float, whole: float | None = None) -> SuiteTask:
    """Return a task of utterances with the figures of Chen et al. (2019) for Joint BERT."""
    return SuiteTask(
        kind="intent_slots",
        parts=files_of(f"intent-slots/{folder}", train="train", dev="valid", test="test"),
        metrics=(
            Metric("whole_accuracy", test={} if whole is None else {"base": whole}),
            Metric("intent_accuracy", test={"base": intent}),
            Metric("slot_f1", test={"base": slots}),
        ),
        epochs=10,
    )


INTENTS = {
    "atis": _intents("atis", intent=97.5, slots=96.1),
    "snips": _intents("snips", intent=98.6, slots=97.0, whole=92.8),
}


def _aspects(folder: str, *, accuracy: float, f1: float) -> SuiteTask:
    """Return a task of aspects with the figures of Song et al. (2019) for BERT-SPC."""
    return SuiteTask(
        kind="aspect",
        parts=files_of(f"aspects/{folder}", train="train.txt", test="test.txt"),
        metrics=(Metric("accuracy", test={"base": accuracy}), Metric("f1", test={"base": f1})),
        epochs=5,
        batch_size=16,
        held_out=A_TENTH,
    )


ASPECTS = {
    "restaurants": _aspects("restaurants", accuracy=84.5, f1=77.0),
    "laptops": _aspects("laptops", accuracy=79.0, f1=75.0),
}

TOPICS = {
    "newsgroups20": SuiteTask(
        kind="classify",
        parts=files_of(
            "topics/newsgroups20",
            "text=text",
            "label=group",
            train="train.jsonl",
            test="test.jsonl",
        ),
        metrics=(Metric("accuracy"), Metric("f1")),
        held_out=A_TENTH,
        remark="all header lines but the subject are removed, and that is not read",
    ),
    "imdb": SuiteTask(
        kind="classify",
        parts=files_of(
            "sentiment/imdb",
            "text=text",
            "label=label",
            train="train_8000.jsonl",
            test="test_2000.jsonl",
        ),
        metrics=(Metric("accuracy"),),
        epochs=3,
        batch_size=16,
        held_out=A_TENTH,
        remark="balanced samples of 8,000 and 2,000 reviews of the official 25,000 and 25,000",
    ),
    "sms": SuiteTask(
        kind="classify",
        parts=files_of("spam/sms", "text=2", "label=1", train="SMSSpamCollection.tsv"),
        metrics=(Metric("f1"), Metric("accuracy")),
        held_out={"dev": 0.1, "test": 0.2},
    ),
    "languages": SuiteTask(
        kind="classify",
        parts=files_of("langid/tatoeba", "text=1", "label=2", train="train.tsv", test="test.tsv"),
        metrics=(Metric("accuracy"),),
        epochs=2,
        batch_size=64,
        held_out={"dev": 0.02},
        remark="98 languages",
    ),
    "tnews": TNEWS,
}

SICK = {
    "train": "SICK_train.txt",
    "dev": "SICK_trial.txt",
    "test": "SICK_test_annotated.txt",
}
SICK_PAIR = ("text=sentence_A", "text_b=sentence_B")
STS = {
    f"sts{year}": SuiteTask(
        kind="embed",
        parts=files_of("pairs/sts12-16", *SENTENCES, "score=score", test=f"sts20{year}.tsv"),
        metrics=(Metric("spearman"),),
        model_of="sick_vectors",
        remark="all pairs as one, by the vectors of sick_vectors"
        + ("; train and test, without MSRvid" if year == 12 else ""),
    )
    for year in (12, 13, 14, 15, 16)
}
PAIRS = {
    "sick": SuiteTask(
        kind="score",
        parts=files_of("pairs/sick", *SICK_PAIR, "score=relatedness_score", **SICK),
        metrics=(Metric("pearson"), Metric("spearman")),
    ),
    "sick_entailment": SuiteTask(
        kind="match",
        parts=files_of("pairs/sick", *SICK_PAIR, "label=entailment_judgment", **SICK),
        metrics=(Metric("accuracy"),),
    ),
    "zh_stsb": SuiteTask(
        kind="score",
        parts=files_of(
            "pairs/zh-stsb",
            *BARE_PAIR,
            "score=3",
            train="train.tsv",
            dev="dev.tsv",
            test="test.tsv",
        ),
        metrics=(Metric("pearson"), Metric("spearman")),
    ),
    "sick_vectors": SuiteTask(
        kind="embed",
        parts=files_of("pairs/sick", *SICK_PAIR, "score=relatedness_score", **SICK),
        metrics=(Metric("spearman"),),
        remark="each sentence alone becomes a vector, and their cosine is scored",
    ),
    **STS,
    "cranfield": SuiteTask(
        kind=None,
        parts={"test": (Source("retrieval/cranfield"),)},
        metrics=(Metric("ndcg@10"), Metric("recall@10")),
        model_of="sick_vectors",
        remark="by the vectors of sick_vectors",
    ),
}


SUITES: dict[str, dict[str, SuiteTask]] = {
    "glue": GLUE,
    "squad": SQUAD,
    "clue": CLUE,
    "tags": TAGS,
    "intents": INTENTS,
    "aspects": ASPECTS,
    "topics": TOPICS,
    "pairs": PAIRS,
    "translate": TRANSLATE,
    "summarize": SUMMARIZE,
}
