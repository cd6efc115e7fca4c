"""Every number that a command takes has its limits, and one beyond them is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from bertworks.cli.commands import COMMANDS
from bertworks.cli.main import parse
from bertworks.core.settings import Ramp, as_json, settings_of

NEEDED = {
    "quickstart": [],
    "clean": ["text", "--out", "o"],
    "learn-vocab": ["text", "--out", "o"],
    "extend-positions": ["--model", "m", "--to", "9", "--out", "o"],
    "tokenize": ["text", "--tokenizer", "t", "--out", "o"],
    "pairs": ["text", "--out", "o"],
    "pretrain": ["shards", "--out", "o"],
    "check": ["data"],
    "finetune": ["--model", "m", "--train", "t", "--dev", "d", "--out", "o"],
    "evaluate": ["--model", "m", "--data", "d", "--out", "o"],
    "predict": ["--model", "m", "--data", "d"],
    "embed": ["--model", "m", "--data", "d"],
    "serve": ["--model", "m"],
    "card": ["--model", "m", "--notes", "n"],
    "export": ["--model", "m", "--to", "hugging-face", "--out", "o"],
}
COUNT, COUNT_OR_ZERO = "a whole number of at least 1", "a whole number of at least 0"
POSITIVE, SHARE = "a number above 0", "a number from 0 to below 1"
WHOLE_SHARE = "a number above 0 and at most 1"
POWER = "a number from -10 to 10"
RAMP = "a number or a ramp A..B"
SHARE_RAMP = f"{RAMP} from 0 to below 1"
# Command and setting -> what it must be, values beyond the limits, values just within them.
LIMITS: dict[tuple[str, str], tuple[str, list[str], list[str]]] = {
    ("quickstart", "steps"): (COUNT, ["0"], ["1"]),
    ("quickstart", "epochs"): (COUNT, ["-1"], ["1"]),
    ("clean", "min_words"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("clean", "max_words"): (COUNT, ["0"], ["1"]),
    ("clean", "min_letters"): (SHARE, ["1", "-0.1"], ["0"]),
    ("clean", "max_digits"): (WHOLE_SHARE, ["0", "1.1"], ["1"]),
    ("clean", "max_symbols"): (WHOLE_SHARE, ["0", "2"], ["1"]),
    ("clean", "max_repeated_lines"): (WHOLE_SHARE, ["0", "-1"], ["1"]),
    ("clean", "max_repeated_words"): (WHOLE_SHARE, ["0", "nan"], ["1"]),
    ("clean", "similarity"): (WHOLE_SHARE, ["0", "1.01"], ["0.01", "1"]),
    ("clean", "permutations"): ("a whole number of at least 16", ["15", "0"], ["16"]),
    ("clean", "workers"): (COUNT, ["0", "-1"], ["1"]),
    ("learn-vocab", "size"): (COUNT, ["0", "-4"], ["1"]),
    ("learn-vocab", "min_count"): (COUNT, ["0", "-7"], ["1"]),
    ("extend-positions", "to"): ("a whole number of at least 8", ["7", "-1"], ["8"]),
    ("extend-positions", "window"): (COUNT, ["0", "-1"], ["1"]),
    ("tokenize", "held_out"): (SHARE, ["1", "1.5", "-0.1", "nan"], ["0", "0.999"]),
    ("tokenize", "workers"): (COUNT, ["0", "-1"], ["1"]),
    ("pairs", "per_document"): (COUNT, ["0", "-1"], ["1"]),
    ("pairs", "shortest"): (COUNT, ["0"], ["1"]),
    ("pairs", "longest"): (COUNT, ["0", "2.5"], ["5"]),
    ("pretrain", "longest"): ("a whole number of at least 8", ["7", "0", "-128"], ["8"]),
    ("pretrain", "steps"): (COUNT, ["0", "-3", "2.5", "1e3"], ["1"]),
    ("pretrain", "short_longest"): ("a whole number of at least 8", ["7", "0"], ["8"]),
    ("pretrain", "short_share"): ("a number above 0 and below 1", ["0", "1"], ["0.5"]),
    ("pretrain", "batch_tokens"): (f"{RAMP} of at least 1", ["0", "-1", "9..0"], ["1", "1..9"]),
    ("pretrain", "accumulate"): (COUNT, ["0", "-1"], ["1"]),
    ("pretrain", "lr"): (POSITIVE, ["0", "-1", "nan", "inf"], ["1e-9"]),
    ("pretrain", "warmup"): (SHARE, ["-0.1", "1", "2"], ["0", "0.99"]),
    ("pretrain", "weight_decay"): ("a number of at least 0", ["-1", "inf"], ["0"]),
    ("pretrain", "clip"): (POSITIVE, ["0", "-1"], ["0.001"]),
    ("pretrain", "spike"): ("a number of 0 or above 1", ["1", "0.5", "-3", "inf"], ["0", "1.1"]),
    ("pretrain", "beta1"): (SHARE, ["1", "-0.1"], ["0"]),
    ("pretrain", "beta2"): (SHARE, ["1", "1.5"], ["0.98"]),
    ("pretrain", "epsilon"): (POSITIVE, ["0", "-1"], ["1e-8"]),
    ("pretrain", "decay"): ("a number above 0 and below 1", ["0", "1"], ["0.5"]),
    ("pretrain", "average"): (SHARE, ["1", "-0.5"], ["0", "0.999"]),
    ("pretrain", "z_loss"): ("a number of at least 0", ["-1"], ["0", "1e-4"]),
    ("pretrain", "probe_every"): (COUNT, ["0", "-5"], ["1"]),
    ("pretrain", "dropout"): (SHARE, ["1", "-1"], ["0"]),
    ("pretrain", "attention_dropout"): (SHARE, ["1", "-1"], ["0"]),
    ("pretrain", "causal_share"): (f"{RAMP} from 0 to 1", ["-0.1", "0..1.1"], ["1", "0..0.5"]),
    ("pretrain", "generator_size"): ("a number above 0 and below 1", ["0", "1"], ["0.5"]),
    ("pretrain", "split_share"): ("a number from 0 to 1", ["-0.1", "1.1"], ["0", "1"]),
    ("pretrain", "repeat_share"): ("a number from 0 to 1", ["-0.1", "1.1"], ["0", "1"]),
    ("pretrain", "mask_rate"): (
        f"{RAMP} above 0 and below 1",
        ["0", "1", "1.5", "0.3..1", "0..0.1"],
        ["0.01", "0.3..0.15"],
    ),
    ("pretrain", "masked_share"): ("a number from 0 to 1", ["-0.1", "1.1"], ["0", "1"]),
    ("pretrain", "random_share"): ("a number from 0 to 1", ["-1", "2", "nan"], ["0", "1"]),
    ("pretrain", "evaluate_every"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("pretrain", "checkpoint_every"): (COUNT_OR_ZERO, ["-2"], ["0"]),
    ("pretrain", "lost_after"): (COUNT, ["0", "-1"], ["1"]),
    ("pretrain", "workers"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("pretrain", "threads"): (COUNT, ["0", "-2"], ["1"]),
    ("check", "rare"): (COUNT, ["0", "-1"], ["1"]),
    ("check", "similarity"): (WHOLE_SHARE, ["0", "1.1"], ["0.5", "1"]),
    ("check", "longest"): ("a whole number of at least 8", ["7", "0"], ["8"]),
    ("finetune", "workers"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("finetune", "epochs"): (COUNT, ["0", "-1"], ["1"]),
    ("finetune", "batch_size"): (COUNT, ["0", "-2"], ["1"]),
    ("finetune", "accumulate"): (COUNT, ["0"], ["1"]),
    ("finetune", "focal"): ("a number of at least 0", ["-1"], ["0", "2"]),
    ("finetune", "vector_temperature"): (POSITIVE, ["0", "-1"], ["0.05"]),
    ("finetune", "stride"): (COUNT, ["0"], ["1"]),
    ("finetune", "max_answer"): (COUNT, ["0", "-3"], ["1"]),
    ("finetune", "lr"): (POSITIVE, ["0", "-0.1"], ["5e-5"]),
    ("finetune", "warmup"): (SHARE, ["1"], ["0"]),
    ("finetune", "weight_decay"): ("a number of at least 0", ["-0.01"], ["0"]),
    ("finetune", "clip"): (POSITIVE, ["0"], ["1"]),
    ("finetune", "beta1"): (SHARE, ["1", "-0.1"], ["0"]),
    ("finetune", "beta2"): (SHARE, ["1", "1.5"], ["0.98"]),
    ("finetune", "epsilon"): (POSITIVE, ["0", "-1"], ["1e-8"]),
    ("finetune", "decay"): ("a number above 0 and below 1", ["0", "1"], ["0.5"]),
    ("finetune", "average"): (SHARE, ["1", "-0.5"], ["0", "0.999"]),
    ("finetune", "temperature"): (POSITIVE, ["0", "-1", "inf"], ["0.5", "5"]),
    ("finetune", "thaw_every"): (POSITIVE, ["0", "-1"], ["0.5", "2"]),
    ("finetune", "layer_decay"): (WHOLE_SHARE, ["0", "1.1"], ["0.95", "1"]),
    ("finetune", "reinit"): (COUNT_OR_ZERO, ["-1"], ["0", "2"]),
    ("finetune", "mixout"): (SHARE, ["1", "-0.1"], ["0", "0.9"]),
    ("finetune", "parameter_dropout"): (SHARE, ["1", "2"], ["0", "0.1"]),
    ("finetune", "r_drop"): ("a number of at least 0", ["-1"], ["0", "5"]),
    ("finetune", "piece_dropout"): (SHARE, ["1", "-0.1"], ["0", "0.1"]),
    ("finetune", "adversary_radius"): (POSITIVE, ["0", "-1"], ["0.5"]),
    ("finetune", "adversary_moves"): (COUNT, ["0"], ["1"]),
    ("finetune", "label_smoothing"): (SHARE_RAMP, ["1", "0.1..1", "-0.1"], ["0", "0.1..0"]),
    ("finetune", "average_last"): (COUNT_OR_ZERO, ["-1"], ["0", "3"]),
    ("finetune", "lora"): (COUNT, ["0"], ["1", "8"]),
    ("finetune", "lora_alpha"): (POSITIVE, ["0", "-2"], ["16"]),
    ("finetune", "patience"): (COUNT, ["0", "-1"], ["1"]),
    ("finetune", "seeds"): (COUNT, ["0", "-2"], ["1"]),
    ("finetune", "dropout"): (SHARE, ["1", "2"], ["0"]),
    ("finetune", "attention_dropout"): (SHARE, ["1", "2"], ["0"]),
    ("finetune", "longest"): ("a whole number of at least 8", ["0", "3"], ["8"]),
    ("finetune", "checkpoint_every"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("finetune", "threads"): (COUNT, ["0"], ["1"]),
    ("evaluate", "limit"): (COUNT, ["0"], ["1"]),
    ("evaluate", "epochs"): (COUNT, ["0"], ["1"]),
    ("evaluate", "seeds"): (COUNT, ["0"], ["1"]),
    ("evaluate", "at_once"): (COUNT, ["0"], ["1"]),
    ("evaluate", "lr"): (POSITIVE, ["0", "-0.1"], ["5e-5"]),
    ("evaluate", "top"): (COUNT, ["0", "-1"], ["1"]),
    ("evaluate", "threads"): (COUNT, ["0"], ["1"]),
    ("predict", "threads"): (COUNT, ["0"], ["1"]),
    ("finetune", "beams"): (COUNT, ["0", "-1"], ["1", "4"]),
    ("finetune", "length_penalty"): (POWER, ["11", "nan"], ["-1", "0.6"]),
    ("finetune", "no_repeat"): (COUNT, ["0"], ["3"]),
    ("finetune", "shortest_reply"): (COUNT, ["0"], ["1"]),
    ("finetune", "longest_reply"): (COUNT, ["0"], ["1"]),
    ("finetune", "decoder_layers"): (COUNT, ["0"], ["1"]),
    ("predict", "beams"): (COUNT, ["0", "-1"], ["1", "4"]),
    ("predict", "length_penalty"): (POWER, ["11", "nan"], ["-1", "0.6"]),
    ("predict", "no_repeat"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("predict", "shortest_reply"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("predict", "longest_reply"): (COUNT, ["0"], ["1"]),
    ("predict", "temperature"): (POSITIVE, ["0", "inf"], ["0.5"]),
    ("predict", "top_k"): (COUNT, ["0"], ["1"]),
    ("predict", "top_p"): (WHOLE_SHARE, ["0", "1.1"], ["1"]),
    ("evaluate", "beams"): (COUNT, ["0", "-1"], ["1", "4"]),
    ("evaluate", "length_penalty"): (POWER, ["11", "nan"], ["-1", "0.6"]),
    ("evaluate", "no_repeat"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("evaluate", "shortest_reply"): (COUNT_OR_ZERO, ["-1"], ["0"]),
    ("evaluate", "longest_reply"): (COUNT, ["0"], ["1"]),
    ("evaluate", "temperature"): (POSITIVE, ["0", "inf"], ["0.5"]),
    ("evaluate", "top_k"): (COUNT, ["0"], ["1"]),
    ("evaluate", "top_p"): (WHOLE_SHARE, ["0", "1.1"], ["1"]),
    ("embed", "threads"): (COUNT, ["0"], ["1"]),
    ("card", "threads"): (COUNT, ["0"], ["1"]),
    ("export", "max_length"): ("a whole number of at least 8", ["7", "0"], ["8"]),
    ("export", "rank"): (COUNT, ["0"], ["1"]),
    ("embed", "max_length"): ("a whole number of at least 8", ["7", "0"], ["8"]),
    ("embed", "dims"): (COUNT, ["0", "-1"], ["1"]),
    ("serve", "port"): ("a whole number from 0 to 65535", ["-1", "65536"], ["0", "65535"]),
    ("serve", "batch_tokens"): (COUNT, ["0"], ["1"]),
    ("serve", "queue_tokens"): (COUNT, ["0", "-1"], ["1"]),
    ("serve", "deadline"): (POSITIVE, ["0", "inf"], ["0.1"]),
    ("serve", "max_items"): (COUNT, ["0"], ["1"]),
    ("serve", "max_body"): (COUNT, ["0"], ["1"]),
    ("serve", "drain"): ("a number of at least 0", ["-1", "inf"], ["0"]),
    ("serve", "wait"): (POSITIVE, ["0", "inf"], ["0.1"]),
    ("serve", "threads"): (COUNT, ["0"], ["1"]),
}


@pytest.mark.parametrize(("name", "setting"), LIMITS)
def test_a_number_beyond_its_limits_is_named_and_nothing_is_begun(
    name: str,
    setting: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted, beyond, _ = LIMITS[name, setting]
    for value in beyond:
        flag = f"--{setting.replace('_', '-')}"
        ended = command(name, *NEEDED[name], flag, value)
        assert ended.refusal(2) == f"{name}: {flag} is {value!r}, but it must be {wanted}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "setting"), LIMITS)
def test_a_number_just_within_its_limits_is_taken(name: str, setting: str) -> None:
    for value in LIMITS[name, setting][2]:
        _, settings, _ = parse([name, *NEEDED[name], f"--{setting.replace('_', '-')}", value])
        found = as_json(settings)[setting]
        (found,) = found if isinstance(found, list) else [found]
        assert Ramp.parse(found) == Ramp.parse(value)


def test_no_number_is_without_limits_but_the_seed_and_what_the_network_limits() -> None:
    numbers = {
        (name, setting.name)
        for name, command in COMMANDS.items()
        for setting in settings_of(command.settings)
        if {int, float, Ramp} & {setting.kind, *get_args(setting.kind)}
        and setting.name not in ("seed", "draw_seed")
    }
    assert numbers - {("embed", "layers")} == LIMITS.keys()


def test_any_whole_number_is_a_seed() -> None:
    for seed in ("-3", "0", str(2**64 + 1)):
        _, settings, _ = parse(["pretrain", "s", "--out", "o", "--seed", seed])
        assert settings.seed == int(seed)
