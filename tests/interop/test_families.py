"""The tables of the families: complete, without collisions, and read in both directions."""

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.core.errors import ArtifactError
from bertworks.core.pieces import SpecialIds
from bertworks.interop.descriptions import (
    TaskNote,
    config_from_hugging_face,
    config_to_hugging_face,
)
from bertworks.interop.families import ALIASES, DIALECTS
from bertworks.interop.hugging_face import is_expressible
from bertworks.interop.tensor_names import names_of
from bertworks.model.config import (
    STYLES,
    Activation,
    Bucketed,
    EncoderConfig,
    Family,
    Local,
    Rotary,
    Sharing,
)
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

SPECIALS = SpecialIds(pad=3, unknown=1, first=0, separator=2, mask=4)
CLASSES = [(family, tasks) for family, dialect in DIALECTS.items() for tasks in dialect.classes]
MODERN = {"model_type": "modernbert", "num_hidden_layers": 6}


def configs_of(family: str) -> st.SearchStrategy[EncoderConfig]:
    """Make descriptions of every network that a family's words can say."""
    dialect = DIALECTS[family]
    own: dict[str, st.SearchStrategy[Any]] = {
        "vocab_size": st.integers(1, 50000),
        "num_layers": st.integers(1, 30),
        "feed_forward_size": st.integers(1, 5000),
        "max_positions": st.integers(1, 8192),
        "num_segments": st.integers(1, 3),
        "activation": st.sampled_from(get_args(Activation)),
        "dropout": st.floats(0, 0.9),
        "attention_dropout": st.floats(0, 0.9),
        "norm_epsilon": st.sampled_from([1e-12, 1e-5]),
    }
    own |= {name: st.just(value) for name, value in dialect.fixed.items()}
    if family == "albert":
        count = st.integers(1, 5)
        own["sharing"] = st.builds(Sharing, num_groups=count, group_size=count)
        own["embedding_size"] = st.integers(1, 50)
    if family == "electra":
        own["embedding_size"] = st.none() | st.integers(200, 300)
    if family == "modernbert":
        base = st.floats(1, 1e6)
        own["positions"] = st.builds(Rotary, base=base, local_base=base)
        every = st.none() | st.integers(2, 9)
        windows = st.integers(1, 4096)
        own["local"] = st.none() | st.builds(Local, window=windows, full_every=every)
    return st.builds(
        lambda heads, half, **fields: EncoderConfig(
            family=family, num_heads=heads, hidden_size=2 * heads * half, **fields
        ),
        st.integers(1, 7),
        st.integers(1, 9),
        **own,
    )


def there_and_back(config: EncoderConfig) -> EncoderConfig:
    theirs = config_to_hugging_face(config, tasks={}, specials=SPECIALS)
    return config_from_hugging_face(json.loads(json.dumps(theirs)))


@pytest.mark.parametrize("family", DIALECTS)
@given(data=st.data())
@settings(max_examples=50)
def test_a_description_survives_the_way_there_and_back(family: str, data) -> None:
    config = data.draw(configs_of(family))
    assert there_and_back(config) == config
    assert is_expressible(config, {}, pad_id=1)


def test_every_family_but_our_own_has_its_tables() -> None:
    assert {*DIALECTS, "bertworks"} == set(get_args(Family))
    assert set(ALIASES.values()) <= set(DIALECTS)


@pytest.mark.parametrize(("family", "tasks"), CLASSES)
@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_of_every_class_has_a_row_and_no_two_rows_collide(
    family: str, tasks: tuple[str, ...], tied: bool, small
) -> None:
    made = [
        make_task(name, ("a", "b"), **({"tied": tied} if name == "fill_mask" else {}))
        for name in tasks
    ]
    groups = {"sharing": Sharing(num_groups=2, group_size=3)} if family == "albert" else {}
    with torch.device("meta"):
        model = TaskModel(small(family, **groups), made)
    names = names_of(model.config, {task.name: TaskNote((), task.options) for task in made})
    ours = {name for name, _ in model.named_parameters()}
    dialect, architecture = DIALECTS[family], DIALECTS[family].classes[tasks]
    if architecture not in dialect.with_pooler:
        ours = {name for name in ours if not name.startswith("encoder.pooler.")}
    assert ours <= names.keys()
    theirs = [part for parts in names.values() for part in parts]
    assert len(theirs) == len(set(theirs))
    assert not [name for name in theirs if "{" in name]


@pytest.mark.parametrize("family", DIALECTS)
def test_the_rows_that_no_parameter_has_are_biases_and_what_a_network_lacks(
    family: str, small
) -> None:
    with torch.device("meta"):
        model = TaskModel(small(family), [])
    names = names_of(model.config, {}).keys() - dict(model.named_parameters()).keys()
    absent = {
        "bert": set(),
        "roberta": set(),
        "albert": set(),
        "electra": set(),
        "distilbert": {"encoder.embeddings.segments.weight"},
        "mpnet": {"encoder.embeddings.segments.weight"},
        # It has no biases, and its first block no norm.
        "modernbert": {name for name in names if name.endswith(".bias")}
        | {"encoder.blocks.0.mixer_norm.weight"},
    }
    assert names == absent[family]


@pytest.mark.parametrize("family", DIALECTS)
def test_poolers_are_those_of_classes_that_are_known(family: str) -> None:
    dialect = DIALECTS[family]
    assert dialect.with_pooler <= set(dialect.classes.values())
    for tasks in dialect.classes:
        assert all(name in dialect.heads for name in tasks if name != "embed")


# Our fields where the config of a family says nothing, as published.
DEFAULTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"vocab_size": 50265, "max_positions": 510},
    "distilbert": {"num_layers": 6, "num_segments": 0},
    "albert": {
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_heads": 64,
        "feed_forward_size": 16384,
        "sharing": Sharing(),
        "activation": "gelu_tanh",
        "dropout": 0.0,
        "attention_dropout": 0.0,
    },
    "electra": {
        "embedding_size": 128,
        "hidden_size": 256,
        "num_heads": 4,
        "feed_forward_size": 1024,
    },
    "mpnet": {
        "vocab_size": 30527,
        "max_positions": 510,
        "num_segments": 0,
        "positions": Bucketed(),
    },
    "modernbert": {
        **STYLES["modernbert"],
        "num_layers": 22,
        "feed_forward_size": 1152,
        "max_positions": 8192,
    },
}


@pytest.mark.parametrize("family", DIALECTS)
def test_keys_that_are_absent_or_null_mean_the_published_default(family: str) -> None:
    expected = EncoderConfig(**{"family": family, **DEFAULTS[family]})
    assert config_from_hugging_face({"model_type": family}) == expected
    nothing = dict.fromkeys(DIALECTS[family].keys)
    assert config_from_hugging_face({"model_type": family, **nothing}) == expected


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        (family, key, value)
        for family, dialect in DIALECTS.items()
        for key, value in dialect.expected.items()
    ],
)
def test_a_key_with_another_value_than_the_known_one_is_refused(
    family: str, key: str, value: object, their_words
) -> None:
    theirs = their_words(family)
    assert theirs[key] == value
    other = (not value) if isinstance(value, bool) else 7 if isinstance(value, int) else "other"
    with pytest.raises(ArtifactError, match=rf"{key} is {other!r}; .* only networks with"):
        config_from_hugging_face({**theirs, key: other})


@pytest.mark.parametrize(("family", "skipped"), [("roberta", 3 + 1), ("mpnet", 2), ("bert", 0)])
def test_places_may_be_counted_behind_some_that_are_never_used(
    family: str, skipped: int, their_words
) -> None:
    theirs = their_words(family)
    assert theirs["max_position_embeddings"] == 53 + skipped
    del theirs["pad_token_id"]
    assert config_from_hugging_face(theirs).max_positions == 53 + skipped - min(skipped, 2)


def test_a_padding_piece_behind_all_places_is_refused(their_words) -> None:
    theirs = their_words("roberta")
    with pytest.raises(ArtifactError, match="max_positions is -"):
        config_from_hugging_face({**theirs, "pad_token_id": 60})


@pytest.mark.parametrize("size", [10, 24])
def test_electra_widens_only_what_is_narrow(size: int, their_words) -> None:
    theirs = their_words("electra")
    found = config_from_hugging_face({**theirs, "embedding_size": size})
    assert found.embedding_size == (10 if size == 10 else None)


@pytest.mark.parametrize(
    ("given", "local"),
    [
        ({}, Local(window=64, full_every=3)),
        ({"local_attention": 10}, Local(window=5, full_every=3)),
        ({"global_attn_every_n_layers": 2}, Local(window=64, full_every=2)),
        ({"global_attn_every_n_layers": 1}, None),
        ({"layer_types": ["full_attention"] * 6}, None),
        ({"layer_types": ["sliding_attention"] * 6}, Local(window=64)),
        (
            {"layer_types": ["full_attention", *["sliding_attention"] * 5]},
            Local(window=64, full_every=6),
        ),
        (
            {"layer_types": ["full_attention", "sliding_attention"] * 3},
            Local(window=64, full_every=2),
        ),
    ],
)
def test_both_ways_of_saying_which_layers_are_local_are_read(
    given: dict[str, Any], local: Local | None
) -> None:
    assert config_from_hugging_face({**MODERN, **given}).local == local


@pytest.mark.parametrize(
    "kinds",
    [
        ["sliding_attention", *["full_attention"] * 5],
        ["full_attention"] * 5,
        ["full_attention", "full_attention", *["sliding_attention"] * 4],
        ["linear_attention"] * 6,
    ],
)
def test_layers_that_follow_no_rule_are_refused(kinds: list[str]) -> None:
    with pytest.raises(ArtifactError, match=r"layer_types \[.* follow no rule"):
        config_from_hugging_face({**MODERN, "layer_types": kinds})


@pytest.mark.parametrize(
    ("given", "positions"),
    [
        ({}, Rotary(base=160_000.0)),
        (
            {"global_rope_theta": 7.0, "local_rope_theta": 5.0},
            Rotary(base=7.0, local_base=5.0),
        ),
        (
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 7.0},
                    "sliding_attention": {"rope_theta": 5.0},
                }
            },
            Rotary(base=7.0, local_base=5.0),
        ),
    ],
)
def test_both_ways_of_saying_how_places_turn_are_read(
    given: dict[str, Any], positions: Rotary
) -> None:
    assert config_from_hugging_face({**MODERN, **given}).positions == positions


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 7.0}}},
            "rotary positions of the kind .*'yarn'",
        ),
        (
            {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
            "rotary positions of the kind .*'linear'",
        ),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}},
            r"rope_parameters \{.* name no kinds of layers",
        ),
        ({"embedding_dropout": 0.1}, "embedding_dropout differs from mlp_dropout"),
        ({"mlp_dropout": 0.1}, "embedding_dropout differs from mlp_dropout"),
    ],
)
def test_what_is_said_of_a_modern_network_and_not_known_here_is_refused(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArtifactError, match=message):
        config_from_hugging_face({**MODERN, **given})


def test_one_rate_of_dropout_may_be_said_twice() -> None:
    said = {**MODERN, "embedding_dropout": 0.25, "mlp_dropout": 0.25, "rope_scaling": None}
    assert config_from_hugging_face(said).dropout == 0.25


def test_a_network_that_is_not_expressible_is_not_said_wrongly(small) -> None:
    config = replace(small("bert"), gated=True)
    assert there_and_back(config) != config
