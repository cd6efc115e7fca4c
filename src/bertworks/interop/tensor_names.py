"""The tensors of Hugging Face's files under our names, and ours under theirs."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError
from bertworks.interop.descriptions import TaskNote, kinds_of
from bertworks.interop.dialect import Dialect, Names
from bertworks.interop.families import DIALECTS
from bertworks.model.config import EncoderConfig

PLACES = "encoder.embeddings.positions.weight"
POOLER = "encoder.pooler."
SCALED = ("score", "multilabel")  # the kinds whose options belong to their weights
NOT_WEIGHTS = ("position_ids", "token_type_ids", "inv_freq")  # buffers


class NamedTensors(Mapping[str, Tensor]):
    """Tensors under names, each read when it is asked for."""

    _parts: Mapping[str, Any]  # by our names: what each is made of

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class RenamedTensors(NamedTensors):
    """Their tensors under our names, joined and cut as ours are; unknown names stay as they are.

    `borrowed` are ours that the files lack, and that start as copies of others.
    """

    def __init__(
        self,
        theirs: Mapping[str, Tensor],
        config: EncoderConfig,
        *,
        tasks: Mapping[str, TaskNote],
        pad_id: int,
    ) -> None:
        dialect = DIALECTS[config.family]
        self._theirs = theirs
        self._skipped = dialect.skipped_places(pad_id)
        self._scales = head_scales(tasks)
        roots = {part.split(".")[0] for parts in dialect.encoder.values() for part in parts}
        found: dict[str, str] = {}
        for name in theirs:
            full = _full_name(name, dialect.prefix, roots)
            if full in found:
                raise ArtifactError(
                    f"{found[full]} and {name} are the same tensor by two names; remove one"
                )
            found[full] = name
        known, biases = names_of(config, tasks), _bias_names(dialect)
        _refuse_untied(theirs, found, dialect, known)
        for tied, untied in biases.items():  # some files have only one of the two
            for given, other in ((tied, untied), (untied, tied)):
                if given in found:
                    found.setdefault(other, found[given])
        self._parts = {
            ours: tuple(found[part] for part in parts)
            for ours, parts in known.items()
            if all(part in found for part in parts)
        }
        self.borrowed = {
            ours: found[theirs]
            for ours, (theirs,) in with_endings(dialect.borrowed).items()
            if theirs in found and ours not in self._parts
        }
        used = {part for parts in self._parts.values() for part in parts}
        copies = (f"{dialect.decoder}.weight", *biases, *biases.values())
        rest = {
            full: name
            for full, name in found.items()
            if name not in used and full not in copies and not full.endswith(NOT_WEIGHTS)
        }
        _refuse_surplus(rest, config)
        self._parts |= {full: (name,) for full, name in rest.items()}
        self._parts |= {ours: (name,) for ours, name in self.borrowed.items()}

    def __getitem__(self, name: str) -> Tensor:
        parts = [self._theirs[part] for part in self._parts[name]]
        if any(part.shape != parts[0].shape for part in parts):
            shapes = ", ".join(f"{n} {list(self._theirs[n].shape)}" for n in self._parts[name])
            raise ArtifactError(f"{shapes} should be of one shape; fetch the folder again")
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        if name in self.borrowed:
            return whole.float().clone()  # two parameters never share their memory
        if name in self._scales:
            factor, shift = self._scales[name]
            return (whole.float() - shift) / factor
        return (whole[self._skipped :] if name == PLACES else whole).float()


def to_hugging_face(
    ours: Mapping[str, Tensor],
    config: EncoderConfig,
    *,
    tasks: Mapping[str, TaskNote],
    pad_id: int,
) -> dict[str, Tensor]:
    """Rename (and split) our parameters into their tensors.

    The heads of tasks that are not named keep our names, and their model its pooler.
    """
    dialect = DIALECTS[config.family]
    known = names_of(config, tasks)
    has_pooler = dialect.classes[kinds_of(tasks)] in dialect.with_pooler or any(
        name.startswith("heads.") and name not in known for name in ours
    )
    if not has_pooler:  # the class refuses it
        ours = {name: ours[name] for name in ours if not name.startswith(POOLER)}
    theirs = rename(ours, config, tasks=tasks, pad_id=pad_id)
    if "heads.fill_mask.decoder" in ours and "fill_mask" in tasks:
        theirs |= {
            tied: theirs[untied].clone()
            for tied, untied in _bias_names(dialect).items()
            if tied != untied
        }
    return theirs


def rename(
    ours: Mapping[str, Tensor],
    config: EncoderConfig,
    *,
    tasks: Mapping[str, TaskNote],
    pad_id: int,
) -> dict[str, Tensor]:
    """Return our parameters as their tensors, each by itself; unknown names stay as they are."""
    known, scales = names_of(config, tasks), head_scales(tasks)
    theirs: dict[str, Tensor] = {}
    for name, tensor in ours.items():
        if name == PLACES:
            num_skipped = DIALECTS[config.family].skipped_places(pad_id)
            tensor = torch.cat([tensor.new_zeros(num_skipped, tensor.shape[1]), tensor])
        if name in scales:
            factor, shift = scales[name]
            tensor = tensor * factor + shift
        parts = known.get(name, (name,))
        theirs |= dict(zip(parts, tensor.chunk(len(parts)), strict=True))
    return theirs


def names_of(config: EncoderConfig, tasks: Mapping[str, TaskNote]) -> dict[str, tuple[str, ...]]:
    """Return our parameters and their tensors, blocks counted out, weights and biases named."""
    dialect = DIALECTS[config.family]
    rows = {
        ours: tuple(dialect.prefix + name for name in theirs)
        for ours, theirs in dialect.encoder.items()
    }
    for kind, name in zip(kinds_of(tasks), tasks, strict=True):
        own = dialect.heads.get(kind, {})
        rows |= {ours.replace(f"heads.{kind}.", f"heads.{name}."): own[ours] for ours in own}
    size = config.sharing.group_size if config.sharing else 1
    found = {}
    for ours, theirs in with_endings(rows).items():
        for i in range(config.num_blocks) if "{i}" in ours else [0]:
            counted = tuple(part.format(i=i, g=i // size, j=i % size) for part in theirs)
            found[ours.format(i=i)] = counted
    if "fill_mask" in tasks and not tasks["fill_mask"].options.get("tied", True):
        found["heads.fill_mask.decoder"] = (f"{dialect.decoder}.weight",)
        found["heads.fill_mask.bias"] = tuple(_bias_names(dialect).values())
    return found


def head_scales(tasks: Mapping[str, TaskNote]) -> dict[str, tuple[float, Tensor]]:
    """Return by what the weights of a head are multiplied, and moved, to be whole by themselves.

    Scores are learned as deviations from a mean, several labels against what they are in general.
    """
    found = {}
    for kind, (name, note) in zip(kinds_of(tasks), tasks.items(), strict=True):
        if kind in SCALED:
            factor = note.options.get("deviation", 1.0)
            shift = note.options.get("mean", note.options.get("prior", 0.0))
            found[f"heads.{name}.output.weight"] = (factor, torch.tensor(0.0))
            found[f"heads.{name}.output.bias"] = (factor, torch.tensor(shift))
    return found


def with_endings(rows: Names) -> dict[str, tuple[str, ...]]:
    """Return a table in which a name without an ending has become its weight and its bias."""
    found = {}
    for ours, theirs in rows.items():
        whole = ours.endswith((".weight", ".bias"))
        for ending in [""] if whole else [".weight", ".bias"]:
            found[ours + ending] = tuple(part + ending for part in theirs)
    return found


def _bias_names(dialect: Dialect) -> dict[str, str]:
    """Return the name of the fill-mask bias beside a tied decoder, and inside an untied one."""
    (tied,) = dialect.heads["fill_mask"]["heads.fill_mask.bias"]
    return {tied: f"{dialect.decoder}.bias"}


def _refuse_untied(
    theirs: Mapping[str, Tensor],
    found: dict[str, str],
    dialect: Dialect,
    known: Mapping[str, tuple[str, ...]],
) -> None:
    """Fail where the config says that a decoder is tied and the file says that it is not."""
    if "heads.fill_mask.decoder" in known:
        return
    pieces = known["encoder.embeddings.pieces.weight"][0]
    for copy, origin in {f"{dialect.decoder}.weight": pieces, **_bias_names(dialect)}.items():
        if copy == origin or copy not in found or origin not in found:
            continue
        if not torch.equal(theirs[found[copy]], theirs[found[origin]]):
            raise ArtifactError(
                f"{found[copy]} differs from {found[origin]}, but config.json ties them; "
                "set tie_word_embeddings to false there to keep the decoder"
            )


def _refuse_surplus(rest: dict[str, str], config: EncoderConfig) -> None:
    """Fail where the file has parts of an encoder that the config does not describe."""
    prefix = DIALECTS[config.family].prefix
    known = {part for parts in names_of(config, {}).values() for part in parts}
    surplus = [name for full, name in rest.items() if full.startswith(prefix) and full not in known]
    if surplus:
        raise ArtifactError(
            f"config.json describes a network without a place for {surplus[0]} "
            f"({len(surplus)} such tensors); config and weights belong to different models"
        )


def _full_name(name: str, prefix: str, roots: set[str]) -> str:
    """Undo the ways in which the same tensor has been called over the years."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )
    return f"{prefix}{name}" if name.split(".")[0] in roots else name
