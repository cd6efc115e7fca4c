"""A documents folder: parts of equal number, the same bytes however they were written."""

import gzip
import json
from pathlib import Path

import pytest

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import ArtifactError
from bertworks.corpus import documents
from bertworks.corpus.documents import DocumentsWriter, document_files

TEXTS = [(f"Text {number}.\n北京 🌍 \u0301", f"file-{number % 3}.txt") for number in range(17)]


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "DOCUMENTS_PER_PART", 7)


def read(file: Path) -> list[tuple[str, str]]:
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    return [(row["text"], row["source"]) for row in rows]


def test_parts_hold_all_documents_in_order(tmp_path: Path) -> None:
    with saving(tmp_path / "out", kind="documents", origin=Origin()) as folder:
        DocumentsWriter(folder).add(TEXTS)
    parts = [read(file) for file in document_files(tmp_path / "out")]
    assert [len(part) for part in parts] == [7, 7, 3]
    assert [document for part in parts for document in part] == TEXTS


def test_another_writer_goes_on_and_leaves_the_same_bytes(tmp_path: Path) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = DocumentsWriter(tmp_path / "whole")
    for first, last in ((0, 5), (5, 5), (5, 16), (16, 17)):
        whole.add(TEXTS[first:last])
        DocumentsWriter(tmp_path / "parts", num_written=first).add(TEXTS[first:last])
    assert whole.num_written == 17
    for file in sorted((tmp_path / "whole").iterdir()):
        assert file.read_bytes() == (tmp_path / "parts" / file.name).read_bytes()


def test_a_damaged_or_other_folder_is_refused(tmp_path: Path) -> None:
    with saving(tmp_path / "out", kind="documents", origin=Origin()) as folder:
        DocumentsWriter(folder).add(TEXTS)
    part = tmp_path / "out" / "documents-00001.jsonl.gz"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="documents-00001"):
        document_files(tmp_path / "out")
    with saving(tmp_path / "other", kind="shards", origin=Origin()):
        pass
    with pytest.raises(ArtifactError, match="holds shards, but documents are needed"):
        document_files(tmp_path / "other")


def test_where_a_document_comes_from_need_not_be_unicode(tmp_path: Path) -> None:
    DocumentsWriter(tmp_path).add([("einé", "字\udcff.txt")])
    (part,) = tmp_path.iterdir()
    row = json.loads(gzip.decompress(part.read_bytes()).decode())
    assert row == {"text": "einé", "source": "字\udcff.txt"}
