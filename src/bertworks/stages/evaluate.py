"""evaluate: a fine-tuned model and labelled examples -> a report."""

import heapq
import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import require_content
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.rows import parse_columns, stream_examples
from bertworks.evaluation.report import Page
from bertworks.evaluation.scoring import Judge
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.settings import EvaluateSettings
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.metrics import scikit_learn
from bertworks.tasks.task import Verdict

MOST_PAIRS, MOST_MISTAKES = 30, 20  # that the page shows
MOST_COUNTED = 10_000  # different pairs of gold and answer


def run(settings: EvaluateSettings) -> dict[str, Any]:
    """Score a model and write the answers, the scores and a page that shows them."""
    scikit_learn("metrics")
    refuse_existing(settings.out)
    require_content(settings.data)
    predictor = load(
        settings.model,
        device=settings.machine.device,
        precision=settings.machine.precision,
        threads=settings.machine.threads,
    )
    task = predictor.task
    if KINDS[task.kind].learn is None:
        raise UsageError(
            f"{settings.model} answers {task.name}, which gives no labels to score; "
            "fine-tune it on labelled examples first"
        )
    origin = Origin(
        command=as_command("evaluate", settings),
        settings=as_json(settings),
        inputs={"model": settings.model, "data": settings.data},
    )
    judge, seen, quarantine = Judge(task), _Seen(), Quarantine()
    with saving(settings.out, kind="report", origin=origin) as folder:
        _answer(settings, predictor, folder / "answers.jsonl", judge, seen, quarantine)
        metrics, interval = judge.metrics(), judge.interval()
        result = {"task": task.name, "examples": judge.count, **metrics}
        if interval is not None:
            first = next(iter(metrics))
            result[f"{first}_low"], result[f"{first}_high"] = interval.low, interval.high
        (folder / "scores.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        page = Page(f"Evaluation of {settings.model.name} on {settings.data.name}")
        page.text(f"{judge.count:,} examples.")
        page.table(("metric", "score"), [(name, f"{value:.4f}") for name, value in metrics.items()])
        if interval is not None:
            page.text(f"{first.capitalize()} with its 95 % interval: {interval}.")
        seen.show(page)
        page.heading("Made with")
        page.code(origin.command)
        (folder / "report.html").write_text(page.html(), encoding="utf-8")
        quarantine.write(folder)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    return {"report": str(settings.out), **result, "bad_rows": quarantine.num_bad}


def _answer(
    settings: EvaluateSettings,
    predictor: Predictor,
    out: Path,
    judge: Judge,
    seen: "_Seen",
    quarantine: Quarantine,
) -> None:
    """Answer and judge one example after the other; memory does not grow with the file."""
    examples = stream_examples(
        settings.data,
        quarantine,
        form=KINDS[predictor.task.kind].form,
        columns=parse_columns(settings.columns),
    )
    answers = predictor.answer_stream(examples, where=f"{settings.data} line")
    with (
        out.open("w", encoding="utf-8") as file,
        progress("answering", total=None, unit="texts") as meter,
    ):
        for example, answer in answers:
            verdict = judge.add(example, answer)
            row = {"line": example.line, "gold": verdict.gold, **answer}
            if verdict.score is not None:
                row["score_of_answer"] = verdict.score
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            seen.add(example, verdict)
            meter.advance()
    quarantine.check(remedy="mend the file, or name its columns with --columns")
    if not judge.count:
        raise DataError(f"{settings.data} holds no rows; give a file with examples in it")


@dataclass
class _Seen:
    """What the page shows of the answers: the commonest pairs and the surest mistakes."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    mistakes: list[tuple[float, int, tuple[str, ...]]] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)

    def add(self, example: Any, verdict: Verdict) -> None:
        """Look at one answer."""
        pair = (verdict.gold, verdict.given)
        if pair in self.pairs or len(self.pairs) < MOST_COUNTED:
            self.pairs[pair] += 1
        if verdict.score is None or verdict.score == 1:
            return
        shown = (
            str(example.line),
            verdict.gold,
            verdict.given,
            f"{verdict.certainty:.3f}",
            _short(example),
        )
        entry = (verdict.certainty, -next(self._numbers), shown)
        if len(self.mistakes) < MOST_MISTAKES:
            heapq.heappush(self.mistakes, entry)
        else:
            heapq.heappushpop(self.mistakes, entry)

    def show(self, page: Page) -> None:
        """Add both tables to a page."""
        page.heading("Gold and answer")
        page.table(
            ("gold", "answer", "examples"),
            [(gold, given, str(n)) for (gold, given), n in self.pairs.most_common(MOST_PAIRS)],
        )
        page.heading("Surest mistakes")
        rows = [shown for _, _, shown in sorted(self.mistakes, reverse=True)]
        page.table(("line", "gold", "answer", "probability", "text"), rows)


def _short(example: Any) -> str:
    """Return the texts of an example, cut to what a table can hold."""
    names = ("text", "text_b", "question", "passage")
    texts = [getattr(example, name) for name in names if getattr(example, name, None)]
    whole = " ‖ ".join(texts)
    return whole if len(whole) <= 300 else whole[:299] + "…"
