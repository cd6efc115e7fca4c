"""The objectives of pre-training: which there are, which a family has, and how much each weighs."""

from collections.abc import Mapping, Sequence

from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp, suggestion
from bertworks.model.config import Family

# In the order in which a model keeps its tasks; each with its usual weight.
WEIGHTS: dict[str, float] = {
    "fill_mask": 1.0,
    "next_sentence": 1.0,
    "sentence_order": 1.0,
    "replaced_token": 50.0,
    "next_piece": 1.0,
}
LEARNED_ALONE = {"fill_mask", "replaced_token"}  # the others need one of these beside them
OF_FAMILY: Mapping[Family, tuple[str, ...]] = {
    "bert": ("fill_mask", "next_sentence"),
    "bertworks": ("fill_mask", "next_sentence"),
    "albert": ("fill_mask", "sentence_order"),
    "electra": ("replaced_token",),
}


def read_objectives(words: Sequence[str], family: Family) -> dict[str, Ramp]:
    """Return the weight of each objective, from words such as `fill_mask` or `fill_mask=1..0.5`.

    Without words they are those that the family was published with.
    """
    found: dict[str, Ramp] = {}
    for word in words or OF_FAMILY.get(family, ("fill_mask",)):
        name, _, weight = word.partition("=")
        if name not in WEIGHTS:
            known = ", ".join(WEIGHTS)
            hint = "; put spaces between them" if "," in name else suggestion(name, WEIGHTS)
            raise UsageError(f"there is no objective {name!r}; the objectives are {known}{hint}")
        if name in found:
            raise UsageError(f"the objective {name} is given twice; give it once")
        found[name] = _read_weight(name, weight) if "=" in word else _usual(name)
    if "replaced_token" in found:
        found.setdefault("fill_mask", _usual("fill_mask"))  # its generator's
    _refuse_impossible(found)
    return {name: found[name] for name in WEIGHTS if name in found}


def _usual(name: str) -> Ramp:
    return Ramp(WEIGHTS[name], WEIGHTS[name])


def _read_weight(name: str, weight: str) -> Ramp:
    try:
        ramp = Ramp.parse(weight)
    except ValueError:
        ramp = Ramp(-1, -1)
    if min(ramp.start, ramp.end) < 0:
        raise UsageError(
            f"the weight of {name} is {weight!r}, but it must be a number of at least 0, or two "
            "as A..B"
        )
    return ramp


def _refuse_impossible(found: Mapping[str, Ramp]) -> None:
    if "fill_mask" not in found:
        given = ", ".join(found)
        raise UsageError(f"the objectives {given} need fill_mask beside them; add it")
    if not any(ramp.end for ramp in found.values()):
        raise UsageError(
            "no objective has a weight above 0 in the end, so nothing would be learned; raise one"
        )
    if {"next_piece", "replaced_token"} <= found.keys():
        raise UsageError(
            "next_piece and replaced_token cannot be trained together: the one leaves texts as "
            "they are, the other changes them; choose one of them"
        )
