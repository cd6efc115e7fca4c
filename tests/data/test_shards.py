"""Shards give back every piece, sentence, document and mark that was written."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import ArtifactError
from bertworks.core.pieces import SpecialIds
from bertworks.core.seeds import random_at
from bertworks.data.shards import Shards, ShardWriter, TokenizedDocuments

MakeShards = Callable[..., Shards]
BY_TEXT = {"words": "text"}
SENTENCES = st.lists(st.integers(min_value=5, max_value=96), min_size=1, max_size=7)
DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=5), min_size=1, max_size=9)


def documents_of(shards: Shards) -> list[list[list[int]]]:
    """Read the documents back sentence by sentence."""
    return [
        [
            shards.tokens(shards.sentence_starts[s], shards.sentence_starts[s + 1]).tolist()
            for s in range(first, last)
        ]
        for first, last in zip(shards.document_starts, shards.document_starts[1:], strict=False)
    ]


@settings(max_examples=40)  # each writes files
@given(DOCUMENTS, st.integers(min_value=1, max_value=40), st.data())
def test_what_was_written_is_read_from_any_number_of_parts(
    make_shards: MakeShards, documents: list[list[list[int]]], size: int, data: st.DataObject
) -> None:
    held_out = data.draw(st.sets(st.integers(min_value=0, max_value=len(documents) - 1)))
    shards = make_shards(documents, held_out=tuple(held_out), tokens_per_part=size)
    assert documents_of(shards) == documents
    assert set(np.flatnonzero(shards.is_held_out)) == held_out
    assert shards.num_tokens == sum(len(s) for document in documents for s in document)
    for first, last in zip(shards.document_starts, shards.document_starts[1:], strict=False):
        start, end = shards.sentence_starts[first], shards.sentence_starts[last]
        expected = [piece % 3 != 0 for piece in shards.tokens(start, end)]
        assert shards.begins_word(np.arange(start, end)).tolist() == expected
    places = random_at(3, "places").permutation(shards.num_tokens)
    pieces = np.array([piece for document in documents for s in document for piece in s])
    assert shards.begins_word(places).tolist() == (pieces[places] % 3 != 0).tolist()


def test_a_document_lies_in_one_part(make_shards: MakeShards) -> None:
    documents = [[[7] * 5] * 3, [[8] * 11], [[9] * 2] * 2, [[10] * 13]]
    shards = make_shards(documents, tokens_per_part=16)
    parts = json.loads((shards.folder / "shards.json").read_text())["parts"]
    assert [part["tokens"] for part in parts] == [26, 17]
    assert [part["documents"] for part in parts] == [2, 2]


def test_the_description_counts_everything(make_shards: MakeShards, specials: SpecialIds) -> None:
    shards = make_shards([[[7, 8, 9], [5]], [[6, 6]], [[11]]], held_out=(1,), tokens_per_part=3)
    description = json.loads((shards.folder / "shards.json").read_text())
    counts = {key: description[key] for key in ("tokens", "sentences", "documents")}
    assert counts == {"tokens": 7, "sentences": 4, "documents": 3}
    assert description["held_out_documents"] == 1
    assert (shards.vocab_size, shards.specials) == (97, specials)


def test_shards_written_before_separators_were_counted_still_open(
    make_shards: MakeShards, specials: SpecialIds
) -> None:
    shards = make_shards([[[7, 8, 9], [5]]])
    path = shards.folder / "shards.json"
    description = json.loads(path.read_text())
    del description["specials"]["num_between"]
    path.write_text(json.dumps(description))
    assert Shards(shards.folder).specials == specials


def test_the_description_says_how_words_were_found(make_shards: MakeShards) -> None:
    shards = make_shards([[[7, 8, 9], [5]]])
    path = shards.folder / "shards.json"
    assert json.loads(path.read_text())["words"] == shards.words == "text"
    older = {key: value for key, value in json.loads(path.read_text()).items() if key != "words"}
    path.write_text(json.dumps(older))
    assert Shards(shards.folder).words == "pieces"  # what the marks told before it was a choice


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, "uint16"), (2**16 + 1, "uint32")])
def test_the_largest_piece_fits(make_shards: MakeShards, vocab_size: int, dtype: str) -> None:
    shards = make_shards([[[5, vocab_size - 1]]], vocab_size=vocab_size)
    assert documents_of(shards) == [[[5, vocab_size - 1]]]
    assert shards.tokens(0, 2).dtype == dtype


def test_chunks_of_documents_may_be_empty(
    tmp_path: Path, specials: SpecialIds, tokenize: Callable[..., TokenizedDocuments]
) -> None:
    empty = tokenize([], held_out=[])
    with saving(tmp_path / "shards", kind="shards", origin=Origin()) as folder:
        writer = ShardWriter(
            folder, specials=specials, vocab_size=97, words=BY_TEXT, tokens_per_part=3
        )
        for chunk in (empty, tokenize([[[7, 8, 9]], [[5]]], held_out=[False, True]), empty, empty):
            writer.add(chunk)
        description = writer.finish()
    assert len(description["parts"]) == 1
    assert documents_of(Shards.open(tmp_path / "shards")) == [[[7, 8, 9]], [[5]]]


def test_chunks_do_not_show_in_the_shards(
    tmp_path: Path, specials: SpecialIds, tokenize: Callable[..., TokenizedDocuments]
) -> None:
    documents = [[[7, 8, 9], [5]], [[6, 6]], [[11]]]
    written = []
    for name, cuts in (("a", [documents]), ("b", [documents[:2], documents[2:]])):
        (tmp_path / name).mkdir()
        writer = ShardWriter(tmp_path / name, specials=specials, vocab_size=97, words=BY_TEXT)
        for chunk in cuts:
            writer.add(tokenize(chunk, held_out=[False] * len(chunk)))
        writer.finish()
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]


@given(st.lists(SENTENCES, min_size=2, max_size=9), st.data())
@settings(max_examples=25)  # each writes files
def test_a_writer_goes_on_where_another_was_killed(
    tmp_path_factory: pytest.TempPathFactory,
    specials: SpecialIds,
    tokenize: Callable[..., TokenizedDocuments],
    texts: list[list[int]],
    data: st.DataObject,
) -> None:
    chunks = [tokenize([[text]], held_out=[False]) for text in texts]
    begun = ShardWriter(
        tmp_path_factory.mktemp("begun"), specials=specials, vocab_size=97, words=BY_TEXT
    )
    known = data.draw(st.integers(0, len(chunks) - 1))
    for chunk in chunks[:known]:
        begun.add(chunk)
    parts = [dict(part) for part in begun.parts]
    sizes = {path: path.stat().st_size for path in begun.folder.iterdir()}
    begun.add(chunks[-1])  # which nobody will know of
    for path in begun.folder.iterdir():
        os.truncate(path, sizes.get(path, 0))
    again = ShardWriter(begun.folder, specials=specials, vocab_size=97, words=BY_TEXT, parts=parts)
    for chunk in chunks[known:]:
        again.add(chunk)
    again.finish()
    assert documents_of(Shards(begun.folder)) == [[text] for text in texts]
    expected = np.concatenate([chunk.begins_word for chunk in chunks])
    assert Shards(begun.folder).begins_word(np.arange(len(expected))).tolist() == expected.tolist()
    words = begun.folder / "words-00000.bin"
    assert words.read_bytes() == np.packbits(expected).tobytes()


def test_shards_travel_as_a_path(make_shards: MakeShards) -> None:
    shards = make_shards([[[7] * 999] * 101])
    pickled = pickle.dumps(shards)
    assert len(pickled) < 1000 < shards.num_tokens
    opened = pickle.loads(pickled)
    assert opened.folder == shards.folder
    assert documents_of(opened) == documents_of(shards)


def test_pieces_are_mapped_and_cannot_be_changed(make_shards: MakeShards) -> None:
    pieces = make_shards([[[7, 8, 9]]]).tokens(0, 3)
    assert isinstance(pieces, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        pieces[0] = 5


def test_a_damaged_part_is_noticed_before_it_is_used(make_shards: MakeShards) -> None:
    folder = make_shards([[[7, 8, 9]], [[5]]], tokens_per_part=3).folder
    for path in sorted(folder.glob("*-0000?.bin")):
        whole = path.read_bytes()
        path.write_bytes(bytes([whole[0] ^ 4]) + whole[1:])
        with pytest.raises(ArtifactError, match=f"{path.name} is damaged"):
            Shards.open(folder)
        path.write_bytes(whole[:-1])
        with pytest.raises(ArtifactError, match=f"{path.name} has .* bytes"):
            Shards.open(folder)
        path.write_bytes(whole)
    Shards.open(folder)


def test_another_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is no shards folder"):
        Shards(tmp_path)
    with saving(tmp_path / "other", kind="tokenizer", origin=Origin()):
        pass
    with pytest.raises(ArtifactError, match="holds a tokenizer, but shards are needed"):
        Shards.open(tmp_path / "other")
