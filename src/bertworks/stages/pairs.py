"""pairs: text -> texts that belong together, to learn vectors from."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.seeds import derive, random_at
from bertworks.core.settings import as_command, as_json
from bertworks.corpus.read import find_files, read_documents
from bertworks.corpus.text_pairs import PairMaker, Texts
from bertworks.stages.text_settings import PairsSettings

COLUMNS = ("text", "text_b")


def run(settings: PairsSettings) -> dict[str, Any]:
    """Take texts from every document, and write them as rows that finetune reads."""
    if settings.shortest > settings.longest:
        raise UsageError(
            f"--shortest {settings.shortest} is more than --longest {settings.longest}; lower it"
        )
    refuse_existing(settings.out)
    files, quarantine = find_files(settings.text), Quarantine()
    origin = Origin(
        command=as_command("pairs", settings),
        settings=as_json(settings),
        seed=settings.seed,
        inputs={str(file): file for file in files},
    )
    with saving(settings.out, kind="pairs", origin=origin) as folder:
        num_documents = num_rows = 0
        with (folder / "pairs.jsonl").open("w", encoding="utf-8") as file:
            for rows in _draw(files, quarantine, settings):
                lines = [dict(zip(COLUMNS, texts, strict=False)) for texts in rows]
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
                num_documents, num_rows = num_documents + 1, num_rows + len(rows)
        quarantine.check()
        if not num_rows:
            raise DataError(
                f"the text holds no sentences of {settings.shortest} to {settings.longest} words "
                "that could be taken; give more text or other limits"
            )
        quarantine.write(folder)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    return {
        "pairs": str(settings.out / "pairs.jsonl"),
        "documents": num_documents,
        "rows": num_rows,
        "bad_rows": quarantine.num_bad,
    }


def _draw(
    files: list[Path], quarantine: Quarantine, settings: PairsSettings
) -> Iterator[list[Texts]]:
    """Yield what is taken from each document; what was there already is passed over."""
    maker = PairMaker(
        settings.kind, settings.per_document, shortest=settings.shortest, longest=settings.longest
    )
    seen: set[int] = set()
    with progress("taking pairs", total=None, unit="MB") as meter:
        for number, document in enumerate(read_documents(files, quarantine)):
            drawn = maker.draw(document, random_at(settings.seed, "pairs", number))
            taken = []
            for texts in drawn:
                own = {derive(0, text) for text in texts}  # a number, however long a text
                if not own & seen:
                    taken.append(texts)
                    seen |= own
            yield taken
            meter.advance(document.num_bytes / 1e6)
