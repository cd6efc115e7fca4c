"""Hugging Face's folders of an encoder with a decoder, in the words of the family of both."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertworks.core.artifact import read_object
from bertworks.core.errors import ArtifactError
from bertworks.core.pieces import SpecialIds
from bertworks.interop.descriptions import (
    TaskNote,
    config_from_hugging_face,
    kinds_of,
    pad_id_of,
    their_config,
)
from bertworks.interop.dialect import PLAIN_ENCODER
from bertworks.interop.families import DIALECTS
from bertworks.interop.tensor_names import POOLER, NamedTensors, RenamedTensors, rename
from bertworks.model.config import EncoderConfig

PAIR = "encoder-decoder"  # their model_type of the two together
KIND = "generate"
GENERATION = "generation_config.json"
# What a decoder may have in common with the encoder so that two whole networks say it.
TOLD = ("copied", "shared")
READS = {"is_decoder": True, "add_cross_attention": True}
# Their key -> how we search, and by how much theirs is more: they count the piece that all begin
# with.
SEARCH = {
    "num_beams": ("beams", 0),
    "length_penalty": ("length_penalty", 0),
    "no_repeat_ngram_size": ("no_repeat", 0),
    "min_length": ("least", 1),
    "max_length": ("most", 1),
}
LEAST = {"num_beams": 1, "max_length": 2, "max_new_tokens": 1}
NEW = {"min_new_tokens": ("least", 0), "max_new_tokens": ("most", 0)}
# Their keys that change what is written and are not known here, and what each is where it does not.
UNKNOWN: dict[str, Any] = {
    "do_sample": False,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "sequence_bias": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "guidance_scale": 1.0,
}


def pair_from_hugging_face(
    theirs: dict[str, Any], path: Path
) -> tuple[EncoderConfig, dict[str, TaskNote], int]:
    """Return our description of their encoder, what its decoder is, and the id of the padding."""
    read, written = (_part(theirs, name) for name in ("encoder", "decoder"))
    config = config_from_hugging_face(read)
    if any(written.get(key) is not value for key, value in READS.items()):
        raise ArtifactError(f"the decoder lacks {READS}, without which it reads nothing")
    if written.get("tie_word_embeddings") is False:
        raise ArtifactError(
            "tie_word_embeddings of the decoder is false; only decoders that name pieces by their "
            "vectors are known"
        )
    if KIND not in DIALECTS[config.family].heads:
        raise ArtifactError(f"of the family {config.family!r} no decoders are known")
    decoder = config_from_hugging_face({**written, **PLAIN_ENCODER})
    _refuse_unlike(config, decoder)
    options = {
        "decoder": "shared" if theirs.get("tie_encoder_decoder") else "copied",
        "decoder_layers": _own_layers(config, decoder.num_layers),
        "writing": _search_from_hugging_face(theirs, path),
    }
    pad_id = theirs.get("pad_token_id")
    return config, {KIND: TaskNote(options=options)}, pad_id_of(read) if pad_id is None else pad_id


def pair_to_hugging_face(
    config: EncoderConfig, *, tasks: Mapping[str, TaskNote], specials: SpecialIds
) -> dict[str, Any]:
    """Return their description of our encoder and its decoder."""
    theirs = their_config(config, pad_id=specials.pad)
    layers = decoder_config(config, tasks).num_layers
    decoder = {**their_config(replace(config, num_layers=layers), pad_id=specials.pad), **READS}
    return {
        "model_type": PAIR,
        "architectures": ["EncoderDecoderModel"],
        "is_encoder_decoder": True,
        "encoder": theirs,
        "decoder": decoder,
        "dtype": "float32",
        **_pieces(specials),
    }


def search_to_hugging_face(
    config: EncoderConfig, *, tasks: Mapping[str, TaskNote], specials: SpecialIds
) -> dict[str, Any]:
    """Return their generation_config.json: how answers are looked for."""
    (note,) = tasks.values()
    writing = note.options.get("writing", {})
    told = {key: writing[ours] + more for key, (ours, more) in SEARCH.items() if ours in writing}
    if "max_length" in told:  # theirs would go on behind the last place, and fail
        told["max_length"] = min(told["max_length"], config.max_positions)
    return {**_pieces(specials), **told}


def refuse_other_ends(folder: Path, specials: SpecialIds) -> None:
    """Stop where answers are to begin or end with other pieces than texts do."""
    said = _said(read_object(folder / "config.json"), folder)
    for key, own in (
        ("decoder_start_token_id", specials.first),
        ("eos_token_id", specials.separator),
    ):
        if said.get(key) not in (None, own, [own]):
            raise ArtifactError(
                f"{folder}: {key} is {said[key]!r}; only answers that begin and end as texts do, "
                f"here with {own}, are known"
            )


def is_pair(config: EncoderConfig, tasks: Mapping[str, TaskNote]) -> bool:
    """Tell whether a model is an encoder with a decoder that their classes know."""
    if kinds_of(tasks) != (KIND,) or config.family not in DIALECTS:
        return False
    (note,) = tasks.values()
    return KIND in DIALECTS[config.family].heads and note.options.get("decoder") in TOLD


def decoder_config(config: EncoderConfig, tasks: Mapping[str, TaskNote]) -> EncoderConfig:
    """Return the description of a decoder as of a network by itself."""
    (note,) = tasks.values()
    return replace(config, num_layers=note.options.get("decoder_layers") or config.num_layers)


class PairTensors(NamedTensors):
    """The tensors of their encoder and decoder under our names."""

    def __init__(
        self,
        theirs: Mapping[str, Tensor],
        config: EncoderConfig,
        *,
        tasks: Mapping[str, TaskNote],
        pad_id: int,
    ) -> None:
        (name,), (note,) = tasks, tasks.values()
        read = RenamedTensors(_Part(theirs, "encoder."), config, tasks={}, pad_id=pad_id)
        self._parts: dict[str, tuple[Mapping[str, Tensor], str]] = {
            one: (read, one) for one in read
        }
        decoder, written = decoder_config(config, tasks), _Part(theirs, "decoder.")
        renamed = RenamedTensors(written, decoder, tasks=tasks, pad_id=pad_id)
        for one in renamed:
            if one.startswith(POOLER):
                continue
            is_shared = one.startswith("encoder.") and note.options.get("decoder") == "shared"
            if is_shared:
                _refuse_unequal(one, read, renamed)
            else:
                self._parts[_in_head(one, name)] = (renamed, one)

    def __getitem__(self, name: str) -> Tensor:
        tensors, own = self._parts[name]
        return tensors[own]


def pair_tensors_to_hugging_face(
    ours: Mapping[str, Tensor],
    config: EncoderConfig,
    *,
    tasks: Mapping[str, TaskNote],
    pad_id: int,
) -> dict[str, Tensor]:
    """Rename our parameters into the tensors of their encoder and decoder."""
    (name,), (note,) = tasks, tasks.values()
    read = {one: tensor for one, tensor in ours.items() if one.startswith("encoder.")}
    written = {_of_head(one, name): ours[one] for one in ours if one.startswith(f"heads.{name}.")}
    if note.options["decoder"] == "shared":
        own = {one: tensor for one, tensor in read.items() if not one.startswith(POOLER)}
        written |= {one: tensor.detach().clone() for one, tensor in own.items()}
    prefix = DIALECTS[config.family].prefix
    encoder = rename(read, config, tasks={}, pad_id=pad_id)
    decoder = rename(written, decoder_config(config, tasks), tasks=tasks, pad_id=pad_id)
    return {
        **{f"encoder.{one.removeprefix(prefix)}": tensor for one, tensor in encoder.items()},
        **{f"decoder.{one}": tensor for one, tensor in decoder.items()},
    }


class _Part(NamedTensors):
    """The tensors under a prefix, without it."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str) -> None:
        self._tensors = tensors
        self._parts = {n.removeprefix(prefix): n for n in tensors if n.startswith(prefix)}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._parts[name]]


def _in_head(name: str, task: str) -> str:
    """Return what a tensor of a network by itself is called as part of a head."""
    return name.replace("encoder.", f"heads.{task}.", 1) if name.startswith("encoder.") else name


def _of_head(name: str, task: str) -> str:
    """Return what a parameter of a head would be called in a network by itself."""
    own = name.removeprefix(f"heads.{task}.")
    return name if own.startswith(("readings.", "output.")) else f"encoder.{own}"


def _part(theirs: dict[str, Any], name: str) -> dict[str, Any]:
    part = theirs.get(name)
    if not isinstance(part, dict):
        raise ArtifactError(f"it describes no {name}; fetch the folder again")
    return part


def _own_layers(config: EncoderConfig, num_layers: int) -> int | None:
    return None if num_layers == config.num_layers else num_layers


def _refuse_unlike(encoder: EncoderConfig, decoder: EncoderConfig) -> None:
    """Fail where a decoder is another network than the encoder in more than its layers."""
    free = ("num_layers", "dropout", "attention_dropout")
    ours, own = asdict(encoder), asdict(decoder)
    unlike = [name for name in ours if name not in free and ours[name] != own[name]]
    if unlike:
        name = unlike[0]
        raise ArtifactError(
            f"{name} of the decoder is {own[name]!r} and of the encoder {ours[name]!r}; here the "
            "two differ in the number of layers only"
        )


def _refuse_unequal(name: str, read: Mapping[str, Tensor], written: Mapping[str, Tensor]) -> None:
    """Fail where two tensors that should be one differ."""
    if name in read and not read[name].equal(written[name]):
        raise ArtifactError(
            f"{name} of the decoder is another than the encoder's, but the two are said to be "
            "shared; set tie_encoder_decoder to false in config.json to keep both"
        )


def _search_from_hugging_face(theirs: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return how answers are looked for, as far as a folder says so."""
    said = _said(theirs, path)
    for key, neutral in UNKNOWN.items():
        if said.get(key) not in (None, neutral, []):
            raise ArtifactError(
                f"answers are to be written with {key} = {said[key]!r}, which is not known here; "
                f"remove it from config.json and {GENERATION} of a copy to do without"
            )
    found = {}
    for key, (ours, more) in (SEARCH | NEW).items():
        if (value := said.get(key)) is not None:
            _require_number(key, value)
            found[ours] = max(value - more, 0) if more else value
    return found


def _require_number(key: str, value: Any) -> None:
    """Stop where a key that says how answers are looked for says what cannot be."""
    is_real = key == "length_penalty"
    is_number = isinstance(value, int | float if is_real else int) and not isinstance(value, bool)
    least = LEAST.get(key, 0)
    if not is_number or (not is_real and value < least):
        wanted = "a number" if is_real else f"a whole number of at least {least}"
        raise ArtifactError(
            f"{key} is {value!r}, but it must be {wanted}; mend it in {GENERATION} or config.json "
            "of a copy"
        )


def _said(theirs: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return what a folder says about writing, where the newer of two files counts."""
    file = path / GENERATION
    return {**theirs, **(read_object(file) if file.is_file() else {})}


def _pieces(specials: SpecialIds) -> dict[str, int]:
    return {
        "decoder_start_token_id": specials.first,
        "bos_token_id": specials.first,
        "eos_token_id": specials.separator,
        "pad_token_id": specials.pad,
    }
