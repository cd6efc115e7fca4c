"""Hugging Face folders: what is in them, opened and written by the tables of `families`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bertworks.core.artifact import read_object
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.pieces import SpecialIds
from bertworks.core.shipped import shipped_models
from bertworks.interop.bases import find_base, note_base
from bertworks.interop.descriptions import (
    OWN,
    TaskNote,
    config_from_hugging_face,
    config_to_hugging_face,
    kinds_of,
    own_words,
    pad_id_of,
    tasks_from_hugging_face,
    their_config,
)
from bertworks.interop.encoder_decoder import (
    GENERATION,
    PAIR,
    PairTensors,
    is_pair,
    pair_from_hugging_face,
    pair_tensors_to_hugging_face,
    pair_to_hugging_face,
    search_to_hugging_face,
)
from bertworks.interop.families import DIALECTS
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.interop.tensor_names import RenamedTensors, names_of, to_hugging_face
from bertworks.model.config import EncoderConfig
from bertworks.model.difference import Moved, Moves, moves_between
from bertworks.model.weights import (
    DIFFERENCE,
    WEIGHTS,
    TensorFiles,
    find_weights,
    read_pickles,
    write_tensors,
)

CONFIG = "config.json"


@dataclass(frozen=True)
class Folder:
    """What a Hugging Face folder says about its model."""

    path: Path
    config: EncoderConfig
    tasks: dict[str, TaskNote]
    model_type: str
    pad_id: int
    has_own_heads: bool = False  # the heads have our names, and only the encoder theirs

    @property
    def longest(self) -> int:
        """The longest window that its tasks have learned to answer from."""
        ours, reads = self.path / "bertworks.json", self.config.max_positions
        longest = read_object(ours).get("longest", reads) if ours.is_file() else reads
        if type(longest) is not int or longest < 1:
            raise ArtifactError(f"{ours} says longest = {longest!r}; make the folder again")
        return min(longest, reads)

    def tensors(self, *, pickled: bool = False) -> Mapping[str, Tensor]:
        """Return the weights under our names, each read when it is asked for."""
        if (moved := self._moved()) is not None:
            return moved
        theirs = read_pickles(self.path) if pickled else TensorFiles(self.weight_files())
        if self.model_type == OWN:
            return theirs
        if self.model_type == PAIR:
            return PairTensors(theirs, self.config, tasks=self.tasks, pad_id=self.pad_id)
        tasks = {} if self.has_own_heads else self.tasks
        return RenamedTensors(theirs, self.config, tasks=tasks, pad_id=self.pad_id)

    @property
    def num_weights(self) -> int:
        """How many numbers its weights are."""
        return (self._moved() or TensorFiles(self.weight_files())).num_weights

    def weight_files(self) -> list[Path]:
        """Return the files of its weights; pickles are refused."""
        files = find_weights(self.path)
        pickles = sorted(self.path.glob("pytorch_model*.bin"))
        if not files[0].exists() and pickles:
            raise ArtifactError(
                f"{self.path} has its weights as a pickle ({pickles[0].name}), which may run any "
                f"code; if you trust its maker: bertworks import {self.path} --out NEW"
            )
        return files

    def _moved(self) -> Moved | None:
        """Return the weights where they are told against those of another model."""
        own = self.path / DIFFERENCE
        if find_weights(self.path) != [own]:
            return None
        base = open_folder(encoder_folder(find_base(self.path)))
        return Moved(base.tensors(), TensorFiles([own]))


def open_folder(path: Path) -> Folder:
    """Read the description of a model folder, ours or Hugging Face's."""
    if path.is_file():
        holds_it = f" that holds it: {path.parent}" if (path.parent / CONFIG).is_file() else ""
        raise ArtifactError(f"{path} is a file; give the folder of a model{holds_it}")
    if not path.is_dir():
        shipped = ", ".join(shipped_models())
        raise ArtifactError(
            f"there is no model folder {path}; names are not fetched: give a folder on this disk"
            + (f", or a model that comes with bertworks: {shipped}" if shipped else "")
        )
    file = path / CONFIG
    if not file.is_file():
        raise ArtifactError(f"{path} has no {CONFIG}; it is no model folder")
    theirs = read_object(file)
    try:
        if theirs.get("model_type") == PAIR:
            config, tasks, pad_id = pair_from_hugging_face(theirs, path)
            return Folder(path, config, _own_notes(path) or tasks, PAIR, pad_id)
        config = config_from_hugging_face(theirs)
        tasks = _tasks(theirs, path)
        family, pad_id = theirs["model_type"], pad_id_of(theirs)
        return Folder(path, config, tasks, family, pad_id, _is_bare(theirs, config))
    except ArtifactError as error:
        raise ArtifactError(f"{file}: {error}") from error
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, UsageError) as error:
        raise ArtifactError(
            f"{path} has a config.json or bertworks.json of no known form: {error}"
        ) from error


def write_folder(
    path: Path,
    config: EncoderConfig,
    tensors: Mapping[str, Tensor],
    *,
    tasks: Mapping[str, TaskNote],
    specials: SpecialIds,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write `config.json`, `model.safetensors` and `bertworks.json` into a folder.

    Where no other library knows the tasks, it knows at least the encoder.
    """
    ours = {"tasks": {name: note.as_json(name) for name, note in tasks.items()}, **(extra or {})}
    (path / "bertworks.json").write_text(_dump(ours), encoding="utf-8")
    if is_pair(config, tasks) and is_expressible(config, {}, pad_id=specials.pad):
        _write_pair(path, config, tensors, tasks=tasks, specials=specials)
        return
    told = tasks if is_expressible(config, tasks, pad_id=specials.pad) else {}
    if not is_expressible(config, told, pad_id=specials.pad):
        (path / CONFIG).write_text(_dump(own_words(config)), encoding="utf-8")
        write_tensors(path / WEIGHTS, dict(tensors))
        return
    theirs = config_to_hugging_face(config, tasks=told, specials=specials)
    (path / CONFIG).write_text(_dump(theirs), encoding="utf-8")
    named = to_hugging_face(tensors, config, tasks=told, pad_id=specials.pad)
    write_tensors(path / WEIGHTS, named)


def keep_difference(path: Path, base: Path, *, rank: int | None) -> Moves:
    """Turn the weights of a folder that is being saved into how far they are from a base's."""
    before = open_folder(encoder_folder(base)).tensors()
    moves = moves_between(before, open_folder(path).tensors(), rank=rank)
    note_base(path, base)
    write_tensors(path / DIFFERENCE, moves.own)
    (path / WEIGHTS).unlink()
    return moves


def _write_pair(
    path: Path,
    config: EncoderConfig,
    tensors: Mapping[str, Tensor],
    *,
    tasks: Mapping[str, TaskNote],
    specials: SpecialIds,
) -> None:
    theirs = pair_to_hugging_face(config, tasks=tasks, specials=specials)
    (path / CONFIG).write_text(_dump(theirs), encoding="utf-8")
    search = search_to_hugging_face(config, tasks=tasks, specials=specials)
    (path / GENERATION).write_text(_dump(search), encoding="utf-8")
    named = pair_tensors_to_hugging_face(tensors, config, tasks=tasks, pad_id=specials.pad)
    write_tensors(path / WEIGHTS, named)


def is_expressible(config: EncoderConfig, tasks: Mapping[str, TaskNote], *, pad_id: int) -> bool:
    """Tell whether the words of the config's family say all of the network."""
    if encoder_obstacle(config, pad_id=pad_id) is not None:
        return False
    dialect = DIALECTS[config.family]
    if kinds_of(tasks) not in dialect.classes:
        return False
    if any(note.options.get("crf") for note in tasks.values()):
        return False  # their classes know no scores between labels
    theirs = [part for parts in names_of(config, tasks).values() for part in parts]
    if len(theirs) != len(set(theirs)):
        return False  # two of the task heads would have the same name
    poolings = {
        note.options.get("pooling")
        for name, note in tasks.items()
        if (note.kind or name) != "embed"
    }
    return poolings <= {None, "first", *dialect.poolings.values()}


def encoder_obstacle(config: EncoderConfig, *, pad_id: int) -> str | None:
    """Return why the words of the config's family do not say all of the encoder, or None."""
    if config.family == OWN:
        mixer = "" if config.mixer == "attention" else f" (its mixer is {config.mixer})"
        return f"it is of no published family{mixer}"
    dialect = DIALECTS[config.family]
    if not config.num_segments and "type_vocab_size" in dialect.keys:
        return f"the classes of {config.family} read a segment of every token, and it has none"
    if dialect.only_pad_id not in (None, pad_id):
        return (
            f"the classes of {config.family} take piece {dialect.only_pad_id} for padding, and its "
            f"vocabulary has that as piece {pad_id} (learn-vocab --kind byte-bpe puts it there)"
        )
    try:
        is_said = config_from_hugging_face(their_config(config, pad_id=pad_id)) == config
    except (ArtifactError, AttributeError, AssertionError):
        is_said = False
    return None if is_said else f"the words of {config.family} do not say all of its shape"


def _tasks(theirs: dict[str, Any], path: Path) -> dict[str, TaskNote]:
    """Return the tasks by `bertworks.json`, or else by the class that saved the folder."""
    own = _own_notes(path)
    if own is not None:
        return own
    return {} if theirs["model_type"] == OWN else tasks_from_hugging_face(theirs)


def _own_notes(path: Path) -> dict[str, TaskNote] | None:
    """Return the tasks by `bertworks.json`; None: there is none."""
    ours = path / "bertworks.json"
    if not ours.is_file():
        return None
    tasks = read_object(ours).get("tasks")
    if not isinstance(tasks, dict):
        raise ArtifactError(f"{ours} names no tasks; make the folder again")
    return {
        name: TaskNote(tuple(note["labels"]), dict(note["options"]), note.get("kind", ""))
        for name, note in tasks.items()
    }


def _is_bare(theirs: dict[str, Any], config: EncoderConfig) -> bool:
    """Tell whether a config names the class of an encoder without any head."""
    dialect = DIALECTS.get(config.family)
    return dialect is not None and theirs.get("architectures") == [dialect.classes[()]]


def _dump(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)
