"""The tensors of Hugging Face's files under our names, and ours under theirs."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError
from bertworks.interop.descriptions import TaskNote
from bertworks.interop.dialect import Dialect
from bertworks.interop.families import DIALECTS
from bertworks.model.config import EncoderConfig

PLACES = "encoder.embeddings.positions.weight"
POOLER = "encoder.pooler."
NOT_WEIGHTS = ("position_ids", "token_type_ids", "inv_freq")  # buffers


class RenamedTensors(Mapping[str, Tensor]):
    """Their tensors under our names, joined and cut as ours are; unknown names stay as they are."""

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
        found = {_full_name(name, dialect): name for name in theirs}
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
        used = {part for parts in self._parts.values() for part in parts}
        copies = (f"{dialect.decoder}.weight", *biases, *biases.values())
        rest = {
            full: name
            for full, name in found.items()
            if name not in used and full not in copies and not full.endswith(NOT_WEIGHTS)
        }
        _refuse_surplus(rest, config)
        self._parts |= {full: (name,) for full, name in rest.items()}

    def __getitem__(self, name: str) -> Tensor:
        parts = [self._theirs[part] for part in self._parts[name]]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return (whole[self._skipped :] if name == PLACES else whole).float()

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def to_hugging_face(
    ours: Mapping[str, Tensor],
    config: EncoderConfig,
    *,
    tasks: Mapping[str, TaskNote],
    pad_id: int,
) -> dict[str, Tensor]:
    """Rename (and split) our parameters into their tensors."""
    dialect = DIALECTS[config.family]
    known = names_of(config, tasks)
    architecture = dialect.classes.get(tuple(tasks))
    theirs: dict[str, Tensor] = {}
    for name, tensor in ours.items():
        is_surplus = architecture is not None and architecture not in dialect.with_pooler
        if name.startswith(POOLER) and is_surplus:
            continue  # the class refuses it
        if name == PLACES:
            skipped = tensor.new_zeros(dialect.skipped_places(pad_id), tensor.shape[1])
            tensor = torch.cat([skipped, tensor])
        parts = known.get(name, (name,))
        theirs |= dict(zip(parts, tensor.chunk(len(parts)), strict=True))
    if "heads.fill_mask.decoder" in ours:
        theirs |= {
            tied: theirs[untied].clone()
            for tied, untied in _bias_names(dialect).items()
            if tied != untied
        }
    return theirs


def names_of(config: EncoderConfig, tasks: Mapping[str, TaskNote]) -> dict[str, tuple[str, ...]]:
    """Return our parameters and their tensors, blocks counted out, weights and biases named."""
    dialect = DIALECTS[config.family]
    rows = {
        ours: tuple(dialect.prefix + name for name in theirs)
        for ours, theirs in dialect.encoder.items()
    }
    for task in tasks:
        rows |= dialect.heads.get(task, {})
    size = config.sharing.group_size if config.sharing else 1
    found = {}
    for ours, theirs in rows.items():
        for i in range(config.num_blocks) if "{i}" in ours else [0]:
            whole = ours.endswith((".weight", ".bias"))
            for ending in [""] if whole else [".weight", ".bias"]:
                counted = (part.format(i=i, g=i // size, j=i % size) for part in theirs)
                found[ours.format(i=i) + ending] = tuple(part + ending for part in counted)
    if "fill_mask" in tasks and not tasks["fill_mask"].options.get("tied", True):
        found["heads.fill_mask.decoder"] = (f"{dialect.decoder}.weight",)
        found["heads.fill_mask.bias"] = tuple(_bias_names(dialect).values())
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
    decoder = found.get(f"{dialect.decoder}.weight")
    pieces = found.get(known["encoder.embeddings.pieces.weight"][0])
    if "heads.fill_mask.decoder" in known or decoder is None or pieces is None:
        return
    if not torch.equal(theirs[decoder], theirs[pieces]):
        raise ArtifactError(
            f"{decoder} differs from {pieces}, but config.json ties them; "
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


def _full_name(name: str, dialect: Dialect) -> str:
    """Undo the ways in which the same tensor has been called over the years."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )
    roots = {part.split(".")[0] for parts in dialect.encoder.values() for part in parts}
    return f"{dialect.prefix}{name}" if name.split(".")[0] in roots else name
