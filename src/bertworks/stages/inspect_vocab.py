"""vocab inspect: text and a tokenizer -> how well they suit each other."""

import json
from typing import Any

from bertworks.core.artifact import Origin, check_artifact, refuse_existing, saving
from bertworks.core.errors import DataError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.corpus.read import find_files, read_documents
from bertworks.stages.text_settings import InspectVocabSettings
from bertworks.tokenizer.inspect import Inspection
from bertworks.tokenizer.tokenizer import Tokenizer


def run(settings: InspectVocabSettings) -> dict[str, Any]:
    """Count what the tokenizer makes of the text, and write a report if one is wanted."""
    if settings.out is not None:
        refuse_existing(settings.out)
    files = find_files(settings.text)
    check_artifact(settings.tokenizer, "tokenizer", "model")
    inspection = Inspection(Tokenizer.open(settings.tokenizer))
    quarantine = Quarantine()
    with progress("inspecting", total=None, unit="MB") as meter:
        for document in read_documents(files, quarantine):
            inspection.add(document.text)
            meter.advance(document.num_bytes / 1e6)
    quarantine.check()
    if not quarantine.num_good:
        raise DataError(f"{settings.text[0]} holds no text; give a file with text in it")
    if quarantine.num_bad:
        say(f"warning: {quarantine.num_bad} rows were not read; the first: {quarantine.rows[0]}")
    result = {**inspection.summary(), "bad_rows": quarantine.num_bad}
    if settings.out is None:
        return result
    origin = Origin(
        command=as_command("vocab inspect", settings),
        settings=as_json(settings),
        inputs={"tokenizer": settings.tokenizer, **{str(file): file for file in files}},
    )
    with saving(settings.out, kind="report", origin=origin) as folder:
        text = json.dumps(result, indent=1, ensure_ascii=False)
        (folder / "inspection.json").write_text(text, encoding="utf-8")
        unused = "".join(f"{piece}\n" for piece in inspection.unused())
        (folder / "unused.txt").write_text(unused, encoding="utf-8")
        quarantine.write(folder)
    return {"report": str(settings.out), **result}
