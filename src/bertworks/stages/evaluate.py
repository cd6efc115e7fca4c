"""evaluate: a fine-tuned model and labelled examples -> a report."""

import json
from collections import Counter
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.examples import Example, parse_columns, read_examples
from bertworks.evaluation.report import Page
from bertworks.evaluation.scoring import Scores, score_answers
from bertworks.serving.predictor import load
from bertworks.stages.settings import EvaluateSettings
from bertworks.tasks.metrics import scikit_learn


def run(settings: EvaluateSettings) -> dict[str, Any]:
    """Score a model and write the answers, the scores and a page that shows them."""
    scikit_learn("metrics")
    refuse_existing(settings.out)
    quarantine = Quarantine()
    examples = read_examples(settings.data, quarantine, columns=parse_columns(settings.columns))
    predictor = load(
        settings.model,
        device=settings.machine.device,
        precision=settings.machine.precision,
        threads=settings.machine.threads,
    )
    task = predictor.task
    if not task.labels:
        raise UsageError(
            f"{settings.model} answers {task.name}, which gives no labels to score; "
            "fine-tune it on labelled examples first"
        )
    answers = predictor.answer_examples(examples, where=f"{settings.data} line")
    scores = score_answers(task, answers, examples)
    origin = Origin(
        command=as_command("evaluate", settings),
        settings=as_json(settings),
        inputs={"model": settings.model, "data": settings.data},
    )
    result = {"task": task.name, "examples": len(examples), **scores.metrics}
    if scores.accuracy is not None:
        result["accuracy_low"], result["accuracy_high"] = scores.accuracy.low, scores.accuracy.high
    with saving(settings.out, kind="report", origin=origin) as folder:
        (folder / "scores.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        rows = [
            {"line": e.line, "gold": e.label, **a} for e, a in zip(examples, answers, strict=True)
        ]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / "answers.jsonl").write_text("".join(lines), encoding="utf-8")
        page = _page(settings, examples, scores, origin)
        (folder / "report.html").write_text(page, encoding="utf-8")
        quarantine.write(folder)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    return {"report": str(settings.out), **result, "bad_rows": quarantine.num_bad}


def _page(
    settings: EvaluateSettings, examples: list[Example], scores: Scores, origin: Origin
) -> str:
    page = Page(f"Evaluation of {settings.model.name} on {settings.data.name}")
    page.text(f"{len(examples):,} examples.")
    page.table(
        ("metric", "score"), [(name, f"{value:.4f}") for name, value in scores.metrics.items()]
    )
    if scores.accuracy is not None:
        page.text(f"Accuracy with its 95 % interval: {scores.accuracy}.")
    pairs = Counter((e.label, a["label"]) for e, a in zip(examples, scores.answers, strict=True))
    page.heading("Gold label and answer")
    page.table(
        ("gold", "answer", "examples"),
        [(str(gold), given, str(n)) for (gold, given), n in pairs.most_common(30)],
    )
    page.heading("Surest mistakes")
    wrong = [(a, e) for a, e in zip(scores.answers, examples, strict=True) if a["label"] != e.label]
    wrong.sort(key=lambda pair: -pair[0]["probability"])
    rows = [
        (str(e.line), str(e.label), a["label"], f"{a['probability']:.3f}", _short(e))
        for a, e in wrong[:20]
    ]
    page.table(("line", "gold", "answer", "probability", "text"), rows)
    page.heading("Made with")
    page.code(origin.command)
    return page.html()


def _short(example: Example) -> str:
    whole = example.text if example.text_b is None else f"{example.text} ‖ {example.text_b}"
    return whole if len(whole) <= 300 else whole[:299] + "…"
