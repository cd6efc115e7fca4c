"""The data of a suite: official files, read and dealt into the parts that a task is run on."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertworks.core.artifact import ESCAPED, replace_synced
from bertworks.core.errors import DataError
from bertworks.core.file_pairs import is_pair
from bertworks.core.lines import COMPRESSIONS
from bertworks.core.quarantine import Quarantine
from bertworks.core.seeds import derive
from bertworks.data.example_rows import row_of, subject_of
from bertworks.data.rows import parse_columns, read_examples
from bertworks.data.topic_pairs import split_names
from bertworks.evaluation.suite_task import Source, SuiteTask

Parts = dict[str, list[Any]]


@dataclass(frozen=True)
class PartFiles:
    """The parts of a task as files in our own columns."""

    files: dict[str, Path]
    counts: dict[str, int]  # examples of each part
    num_bad: int = 0  # rows that were set aside
    num_left_out: int = 0  # examples of train beyond the limit


def write_parts(
    task: SuiteTask, form: str, *, data: Path, out: Path, limit: int | None = None
) -> PartFiles:
    """Write the parts of a task into a folder; what stands there already is left as it is."""
    note = out / "parts.json"
    if not note.is_file():
        out.mkdir(parents=True, exist_ok=True)
        quarantine = Quarantine()
        parts = gather(task, form, data=data, quarantine=quarantine)
        lines = {
            name: [json.dumps(row_of(example, form=form), ensure_ascii=False) for example in part]
            for name, part in parts.items()
        }
        whole = len(lines.get("train", ()))
        labels = [getattr(example, "label", None) for example in parts.get("train", ())]
        lines["train"] = sample(lines.get("train", []), limit, labels=labels)
        for name, part in lines.items():
            (out / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in part), "utf-8")
        quarantine.write(out)
        counts = {name: len(part) for name, part in lines.items() if part}
        told = {"bad_rows": quarantine.num_bad, "left_out": whole - len(lines["train"])}
        write_at_once(note, json.dumps({"counts": counts, **told}))
    told = json.loads(note.read_text(encoding="utf-8"))
    files = {name: out / f"{name}.jsonl" for name in told["counts"]}
    return PartFiles(files, told["counts"], told["bad_rows"], told["left_out"])


def sample(
    lines: Sequence[str], limit: int | None, *, labels: Sequence[Any] | None = None
) -> list[str]:
    """Return as many lines as asked for, in order, chosen by their hash: files may be sorted.

    Of each label one is taken before all else, since what is never learned cannot be scored.
    """
    order = sorted(range(len(lines)), key=lambda place: derive(0, lines[place]))
    firsts = {labels[place]: place for place in reversed(order)} if labels else {}
    ahead = set(firsts.values())
    chosen = sorted(order, key=lambda place: place not in ahead)[:limit]
    return [lines[place] for place in sorted(chosen)]


def gather(task: SuiteTask, form: str, *, data: Path, quarantine: Quarantine) -> Parts:
    """Return the examples of each part; parts that are missing are split off train."""

    def read(sources: Sequence[Source]) -> list[Any]:
        found = (_read(source, form, data, quarantine) for source in sources)
        return [example for examples in found for example in examples]

    parts = {name: read(sources) for name, sources in task.parts.items()}
    if task.held_out:
        parts = hold_out(parts, task.held_out, subject_of)
    if empty := [name for name, examples in parts.items() if not examples]:
        file = next(iter(task.parts.values()))[0].file
        raise DataError(
            f"{file} has too few examples to split {' and '.join(empty)} off; give the whole set"
        )
    return parts


def hold_out(parts: Parts, shares: Mapping[str, float], key: Callable[[Any], str]) -> Parts:
    """Split shares off train by a hash; examples with the same key stay on one side."""
    keys = list(dict.fromkeys(map(key, parts["train"])))
    dealt = split_names(keys, {"train": 1 - sum(shares.values()), **shares})
    part_of = {name: part for part, names in dealt.items() for name in names}
    split: Parts = {name: [] for name in dealt}
    for example in parts["train"]:
        split[part_of[key(example)]].append(example)
    return parts | split


def find_file(path: Path) -> Path:
    """Return a file, a folder or a pair of files as it is named, or the same file compressed."""
    candidates = [path, *(path.with_name(path.name + suffix) for suffix in COMPRESSIONS)]
    found = next((one for one in candidates if one.exists() or is_pair(one)), None)
    if found is None:
        raise DataError(
            f"there is no {path}, nor the same compressed; get the data set or leave the task out "
            "with --only"
        )
    return found


def write_at_once(path: Path, text: str) -> None:
    """Write a text that is whole or not there."""
    replace_synced(path, text.encode(errors=ESCAPED))


def _read(source: Source, form: str, data: Path, quarantine: Quarantine) -> list[Any]:
    file = find_file(data / source.file)
    examples = read_examples(file, quarantine, form=form, columns=parse_columns(source.columns))
    first, last = (round(share * len(examples)) for share in (source.begin, source.end))
    return examples[first:last]
