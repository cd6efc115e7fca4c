"""evaluate: a fine-tuned model and labelled examples -> a report; or a suite -> a table."""

import heapq
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.examples import Example, RelationExample
from bertworks.data.layouts import require_source
from bertworks.data.line_groups import is_intents
from bertworks.data.rows import find_form, parse_columns, stream_examples
from bertworks.evaluation.calibration import Calibration
from bertworks.evaluation.report import Page
from bertworks.evaluation.scoring import Judge
from bertworks.evaluation.statistics import Interval
from bertworks.evaluation.verdicts import TASK, VERDICTS, task_note, verdict_row
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.ranking import refuse_ranking_flags, run_ranking
from bertworks.stages.settings import EvaluateSettings
from bertworks.stages.suite import refuse_flags, run_suite
from bertworks.stages.zero_shot import zero_shot_task
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.metrics import scikit_learn
from bertworks.tasks.task import Task, Verdict
from bertworks.tasks.zero_shot import ByVectors

MOST_PAIRS, MOST_MISTAKES = 30, 20  # that the page shows
MOST_NAMED = 5  # labels in a warning
MOST_COUNTED = 10_000  # different pairs of gold and answer


def run(settings: EvaluateSettings) -> dict[str, Any]:
    """Score a model and write the answers, the scores and a page that shows them."""
    if settings.suites.suite is not None:
        return run_suite(settings)
    refuse_flags(settings.suites)
    if settings.data.is_dir() and not is_intents(settings.data):
        return run_ranking(settings)
    refuse_ranking_flags(settings.ranking)
    scikit_learn("metrics")
    refuse_existing(settings.out)
    require_source(settings.data)
    predictor = load(settings.model, **vars(settings.machine))
    task = _task(settings, predictor)
    origin = Origin(
        command=as_command("evaluate", settings),
        settings=as_json(settings),
        inputs={"model": settings.model, "data": settings.data},
    )
    quarantine = Quarantine()
    with saving(settings.out, kind="report", origin=origin) as folder:
        judge, seen = _score(settings, predictor, task, quarantine, folder)
        page = Page(f"Evaluation of {settings.model.name} on {settings.data.name}")
        page.text(f"{judge.count:,} examples.")
        if not_scored := _not_scored(judge, quarantine):
            page.text(f"{not_scored}.")
        result = {"task": task.name, "examples": judge.count, "bad_rows": quarantine.num_bad}
        result |= _tell_scores(judge, folder, page)
        _write_json(folder / "scores.json", result)
        _write_json(folder / TASK, task_note(task))
        seen.show(page)
        page.heading("Made with")
        page.code(origin.command)
        (folder / "report.html").write_text(page.html(), encoding="utf-8")
        quarantine.write(folder)
    if not_scored:
        say(f"warning: {not_scored}")
    return {"report": str(settings.out), **result}


def _task(settings: EvaluateSettings, predictor: Predictor) -> Task | ByVectors:
    zero_shot = zero_shot_task(predictor, settings.without_training)
    task = zero_shot or predictor.task_named(settings.task)
    if KINDS[task.kind].learn is None:
        raise UsageError(
            f"{settings.model} answers {task.name}, which gives no labels to score; "
            "fine-tune it on labelled examples first"
        )
    return task


def _score(
    settings: EvaluateSettings,
    predictor: Predictor,
    task: Task | ByVectors,
    quarantine: Quarantine,
    folder: Path,
) -> tuple[Judge, "_Seen"]:
    """Answer and judge one example after the other; of each a few numbers stay in memory."""
    judge, seen, columns = Judge(task), _Seen(), parse_columns(settings.columns)
    form = find_form(settings.data, columns, among=KINDS[task.kind].forms(scored=True))
    examples = stream_examples(settings.data, quarantine, form=form, columns=columns)

    def set_aside(example: Example, error: DataError) -> None:
        quarantine.recall(settings.data, example.line, str(error))

    with (
        (folder / "answers.jsonl").open("w", encoding="utf-8") as file,
        (folder / VERDICTS).open("w", encoding="utf-8") as verdicts,
        progress("answering", total=None, unit="texts") as meter,
    ):
        for example, answer in predictor.answer_stream(examples, task, refuse=set_aside):
            meter.advance()
            try:
                verdict = judge.add(example, answer)
            except DataError as error:  # of a label that cannot be chosen
                set_aside(example, error)
                continue
            row = {"line": example.line, "gold": verdict.gold, **answer}
            if verdict.score is not None:
                row["score_of_answer"] = verdict.score
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            told = verdict_row(example, verdict, unit=judge.unit)
            verdicts.write(json.dumps(told, ensure_ascii=False) + "\n")
            seen.add(example, verdict)
    quarantine.check(remedy="mend the file, or name its columns with --columns")
    if not judge.count:
        raise DataError(f"{settings.data} holds no rows; give a file with examples in it")
    return judge, seen


def _not_scored(judge: Judge, quarantine: Quarantine) -> str | None:
    """Return one sentence about the rows that the scores do not speak of, or None."""
    summary = quarantine.summary()
    if summary is None:
        return None
    return f"the scores are of {judge.count} of {judge.count + quarantine.num_bad} rows; {summary}"


def _tell_scores(judge: Judge, folder: Path, page: Page) -> dict[str, Any]:
    """Write what the answers come to into files and onto a page, and return it in short."""
    result = _show_scores(judge, page)
    if labels := _label_rows(judge):
        _write_json(folder / "labels.json", labels)
        _show_labels(labels, page)
    if calibration := judge.calibration():
        result |= {"ece": calibration.ece, "brier": calibration.brier}
        if (interval := judge.brier_interval()) is not None:
            result["intervals"].append(_range("brier", interval))
        _write_json(folder / "calibration.json", asdict(calibration))
        _show_calibration(calibration, page)
    return result


def _show_scores(judge: Judge, page: Page) -> dict[str, Any]:
    """Add the scores of all answers with their intervals to a page, and return them."""
    metrics, found = judge.metrics(), judge.intervals()
    if not found:
        say("warning: all examples are about one text, so the scores have no intervals")
    page.table(
        ("metric", "score", "from", "to (95 %)"),
        [(name, _number(value), *_bounds(found.get(name))) for name, value in metrics.items()],
    )
    return {**metrics, "intervals": [_range(name, one) for name, one in found.items()]}


def _range(name: str, interval: Interval) -> dict[str, Any]:
    return {"score": name, "low": interval.low, "high": interval.high}


def _label_rows(judge: Judge) -> dict[str, dict[str, float | None]]:
    """Return the scores of each label; one that does not occur has none."""
    found, intervals = judge.by_label(), judge.label_intervals()
    absent = [label for label, row in found.items() if not row["support"]]
    if absent:
        named = ", ".join(absent[:MOST_NAMED]) + ", ..." * (len(absent) > MOST_NAMED)
        say(f"warning: no example has the label {named}; it has no scores, and 0 in a macro mean")
    rows: dict[str, dict[str, float | None]] = {}
    for label, row in found.items():
        interval = intervals.get(label)
        rows[label] = {
            **{name: None if label in absent else value for name, value in row.items()},
            "support": row["support"],
            "f1_low": interval.low if interval else None,
            "f1_high": interval.high if interval else None,
        }
    return rows


def _show_labels(labels: dict[str, dict[str, float | None]], page: Page) -> None:
    page.heading("Labels")
    columns = tuple(name.replace("_", " ") for name in next(iter(labels.values())))
    rows = [(label, *map(_number, row.values())) for label, row in labels.items()]
    page.table(("label", *columns), rows)


def _show_calibration(calibration: Calibration, page: Page) -> None:
    page.heading("Chances and right answers")
    page.text(
        f"Expected calibration error {calibration.ece:.4f}, Brier score {calibration.brier:.4f}."
    )
    rows = [
        (_number(one.chance), _number(one.right), _number(one.count)) for one in calibration.bins
    ]
    page.table(("mean chance", "share that is right", "answers"), rows)


def _bounds(interval: Interval | None) -> tuple[str, str]:
    return (_number(interval.low), _number(interval.high)) if interval else ("none", "none")


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


def _write_json(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")


@dataclass
class _Seen:
    """What the page shows of the answers: the commonest pairs and the surest mistakes."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    mistakes: list[tuple[float, float, int, tuple[str, ...]]] = field(default_factory=list)
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
        entry = (1 - verdict.score, verdict.certainty, -next(self._numbers), shown)
        if len(self.mistakes) < MOST_MISTAKES:
            heapq.heappush(self.mistakes, entry)
        else:
            heapq.heappushpop(self.mistakes, entry)

    def show(self, page: Page) -> None:
        """Add both tables to a page; pairs that hardly come twice are no sight."""
        common = self.pairs.most_common(MOST_PAIRS)
        if len(common) < MOST_PAIRS or common[0][1] > 2:
            page.heading("Gold and answer")
            rows = [(gold, given, str(n)) for (gold, given), n in common]
            page.table(("gold", "answer", "examples"), rows)
        page.heading("Worst answers, the surest first")
        worst = [entry[-1] for entry in sorted(self.mistakes, reverse=True)]
        columns = ["line", "gold", "answer", "certainty", "text"]
        if all(entry[1] == 1 for entry in self.mistakes):  # the model does not say how sure it is
            columns.remove("certainty")
            worst = [(*shown[:3], *shown[4:]) for shown in worst]
        page.table(columns, worst)


def _short(example: Any) -> str:
    """Return the texts of an example, cut to what a table can hold."""
    names = ("text", "text_b", "question", "passage")
    texts = [getattr(example, name) for name in names if getattr(example, name, None)]
    if isinstance(example, RelationExample):
        places = (example.text[slice(*place)] for place in (example.first, example.second))
        texts = [*places, *texts]
    whole = " ‖ ".join(texts)
    return whole if len(whole) <= 300 else whole[:299] + "…"
