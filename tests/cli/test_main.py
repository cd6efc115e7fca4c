"""The command line: help, flags and recipes, results, and what is said when something is wrong."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bertworks
from bertworks.cli.commands import COMMANDS
from bertworks.cli.main import parse
from bertworks.core.artifact import read_manifest
from bertworks.core.settings import Ramp, Setting, as_command, settings_of
from bertworks.stages.setting_groups import DropoutSettings
from bertworks.stages.settings import (
    FinetuneSettings,
    MachineSettings,
    ObjectiveSettings,
    PretrainSettings,
)
from bertworks.stages.text_settings import ExtendVocabSettings

TEXT = "The cat sat on the mat.\nA dog ran over the hill.\n\nParis is a city.\n" * 3
SOURCES = Path(bertworks.__file__).parents[1]
Run = Callable[..., Any]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Write a few lines to learn from."""
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def row_of(setting: Setting, help_text: str) -> str:
    """Return the part of a help text that speaks of one setting."""
    name = f"  {setting.name.upper()} " if setting.is_positional else f"  {setting.flag}"
    (row,) = [part for part in help_text.split("\n") if part.startswith((f"{name} ", f"{name},"))]
    if "  " not in row.strip():  # a long flag stands on a line of its own
        row += help_text.split(row)[1].split("\n  -")[0]
    return " ".join(row.split())


# Help


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_setting_with_its_meaning_and_default(name: str, command: Run) -> None:
    ended = command(*name.split(), "--help")
    assert (ended.code, ended.err) == (0, "")
    kind = COMMANDS[name].settings
    assert str(kind.__doc__) in ended.out
    for setting in settings_of(kind):
        row = row_of(setting, ended.out)
        assert setting.help in row
        if setting.default is MISSING and not setting.is_positional:
            assert row.endswith("(required)")
        elif setting.default not in (MISSING, None, ()):
            assert row.endswith(f"[{setting.default}]")
        assert all(word in row for word in setting.choices)
    for flag in ("--recipe", "--json", "--help"):
        assert flag in ended.out


def test_what_must_be_given_stands_in_the_usage(command: Run) -> None:
    first = command("evaluate", "--help").out.splitlines()[0]
    for flag in ("--model PATH", "--data PATH", "--out PATH"):
        assert flag in first
    assert command("pretrain", "--help").out.startswith("usage: bertworks pretrain SHARDS --out")


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_overview_lists_every_command(words: list[str], command: Run) -> None:
    ended = command(*words)
    assert (ended.code, ended.err) == (0, "")
    for name, listed in COMMANDS.items():
        assert f"  {name} " in ended.out
        assert str(listed.settings.__doc__) in ended.out


@pytest.mark.parametrize("words", [["vocab"], ["vocab", "--help"], ["vocab", "-h"]])
def test_a_group_lists_its_commands_and_no_others(words: list[str], command: Run) -> None:
    ended = command(*words)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("usage: bertworks vocab COMMAND")
    for name, listed in COMMANDS.items():
        assert (f"  {name} " in ended.out) == name.startswith("vocab ")
        assert (str(listed.settings.__doc__) in ended.out) == name.startswith("vocab ")


def test_the_version_is_that_of_the_package(command: Run) -> None:
    assert command("--version").out == f"{bertworks.__version__}\n"


def test_help_of_all_commands_brings_in_nothing_heavy() -> None:
    code = f"""
import sys
from bertworks.cli.main import main
for words in [["--help"], *([*name.split(), "--help"] for name in {list(COMMANDS)})]:
    try:
        main(words)
    except SystemExit as ended:
        assert ended.code == 0
heavy = ["torch", "numpy", "tokenizers", "safetensors", "sklearn", "rich"]
sys.stderr.write(" ".join(name for name in heavy if name in sys.modules) or "nothing")
import torch
sys.stderr.write(" but torch" if "torch" in sys.modules else "")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCES)},
    )
    assert done.stderr == "nothing but torch"


# What cannot be meant


def test_an_unknown_command_is_named_with_the_likely_one(command: Run) -> None:
    said = command("pretran", "shards").refusal(2)
    assert "no command 'pretran' (did you mean pretrain?)" in said
    assert "see bertworks --help" in said
    assert "did you mean" not in command("xyzzy").refusal(2)


def test_an_unknown_command_of_a_group_is_named_with_the_likely_one(command: Run) -> None:
    said = command("vocab", "inspekt", "text").refusal(2)
    assert said == (
        "there is no command 'vocab inspekt' (did you mean vocab inspect?); "
        "see bertworks vocab --help"
    )
    assert "did you mean vocab shrink?" in command("vocab-shrink").refusal(2)
    said = command("vocab", "shrink", "t", "--model", "m", "--outt", "o").refusal(2)
    assert said.startswith("vocab shrink does not know '--outt' (did you mean --out?)")
    assert said.endswith("see bertworks vocab shrink --help")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pretrain", "sh", "--out", "o", "--stepz", "3"], "'--stepz' (did you mean --steps?)"),
        (["pretrain", "sh", "--out", "o", "--ste", "3"], "'--ste' (did you mean --steps?)"),
        (["pretrain", "sh", "again", "--out", "o"], "'again'"),
        (["predict", "--model", "m", "--data", "d", "-q"], "'-q'"),
        (["tokenize", "t", "--tokenizer", "k", "--out", "o", "--cased"], "'--cased'"),
    ],
)
def test_an_unknown_flag_is_named_with_the_likely_one(
    words: list[str], said: str, command: Run
) -> None:
    sentence = command(*words).refusal(2)
    assert sentence.startswith(f"{words[0]} does not know {said}")
    assert sentence.endswith(f"see bertworks {words[0]} --help")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pretrain", "--steps"], "--steps: expected one argument"),
        (["evaluate", "--columns"], "--columns: expected at least one argument"),
        (["finetune", "--fresh=yes"], "ignored explicit argument 'yes'"),
        (["pretrain"], "pretrain needs SHARDS and --out"),
        (["learn-vocab", "--out", "o"], "learn-vocab needs TEXT"),
        (["finetune", "--train", "t"], "finetune needs --model and --out"),
        (["pretrain", "s", "--out", "o", "--steps", "ten"], "steps is 'ten', but it must be a wh"),
        (["pretrain", "s", "--out", "o", "--device", "tpu"], "must be auto or cpu or cuda"),
        (["pretrain", "s", "--out", ""], "out is '', but it must be a path"),
    ],
)
def test_a_missing_or_wrong_value_is_one_sentence(
    words: list[str], said: str, command: Run
) -> None:
    assert said in command(*words).refusal(2)


@pytest.mark.parametrize(
    "words", ["a b --out o --size 9", "--out o a b --size 9", "a --out o --size 9 b"]
)
def test_files_may_stand_before_between_and_behind_the_flags(words: str) -> None:
    _, settings, _ = parse(["learn-vocab", *words.split()])
    assert (settings.text, settings.out, settings.size) == ((Path("a"), Path("b")), Path("o"), 9)


# Recipes and flags


def test_flags_win_over_the_recipe_and_the_recipe_over_defaults(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        "[pretrain]\nsteps = 7\nlr = 0.5\nobjectives = ['fill_mask']\nbatch-tokens = '99..33'\n"
    )
    words = ["pretrain", "sh", "--out", "o", "--recipe", str(recipe)]
    _, settings, _ = parse(words)
    assert (settings.steps, settings.lr, settings.batch_tokens) == (7, 0.5, Ramp(99, 33))
    assert settings.objective.objectives == ("fill_mask",)
    _, settings, _ = parse([*words, "--steps", "3", "--objectives", "replaced_token"])
    assert (settings.steps, settings.lr) == (3, 0.5)
    assert settings.objective.objectives == ("replaced_token",)
    assert settings.mask_rate == PretrainSettings(Path("s"), out=Path("o")).mask_rate


def test_a_recipe_can_hold_a_whole_command(text: Path, command: Run) -> None:
    recipe, out = text.with_name("all.toml"), text.with_name("tok")
    table = f"[learn-vocab]\ntext = [{json.dumps(str(text))}]\nout = {json.dumps(str(out))}\n"
    recipe.write_text(f"{table}size = 70\ncased = true\n")
    assert command("learn-vocab", "--recipe", recipe).code == 0
    settings = read_manifest(out)["settings"]
    assert (settings["size"], settings["cased"], settings["min_count"]) == (70, True, 2)


def test_the_table_of_a_command_of_two_words_has_a_hyphen(tmp_path: Path, command: Run) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[vocab-extend]\nwords = ['a b', 'c']\nwords-file = 'w.txt'\n")
    words = ["vocab", "extend", "--model", "m", "--out", "o", "--recipe", str(recipe)]
    name, settings, _ = parse(words)
    assert name == "vocab extend"
    assert (settings.words, settings.words_file) == (("a b", "c"), Path("w.txt"))
    recipe.write_text("[vocab-extend]\nwordz = ['a']\n")
    assert "[vocab-extend] has no setting 'wordz' (did you mean words?)" in command(*words).refusal(
        2
    )
    recipe.write_text("[vocab]\nwords = ['a']\n")
    assert "'vocab' at its top, which is no command" in command(*words).refusal(2)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[pretrain]\nstepz = 3", "[pretrain] has no setting 'stepz' (did you mean steps?)"),
        ("[pretrain]\nsteps = 'ten'", "[pretrain]: steps is 'ten', but it must be a whole number"),
        ("[pretrain]\nsteps = 2.5", "steps is 2.5, but it must be a whole number"),
        ("[pretrain]\nsteps = true", "steps is True, but it must be a whole number"),
        ("[pretrain]\nsteps = 0", "must be a whole number of at least 1"),
        ("[pretrain]\nlr = nan", "lr is nan, but it must be a number above 0"),
        ("[pretrain]\nsteps = inf", "steps is inf, but it must be a whole number"),
        ("[pretrain]\nobjectives = [1]", "objectives is 1, but it must be a word"),
        ("[pretrain]\nmask_rate = '0.3..1'", "must be a number or a ramp A..B above 0 and below 1"),
        ("[pretrain]\nout = ['a', 'b']", "out is ['a', 'b'], but it must be a path"),
        ("[pretrain]\nresume = 'always'", "must be never or auto"),
        ("[pretrian]\nsteps = 3", "'pretrian' at its top, which is no command (did you mean pret"),
        ("steps = 3", "'steps' at its top, which is no command"),
        ("[finetune]\nepochs = 3", "has no table [pretrain]"),
        ("pretrain = 3", "has no table [pretrain]"),
        ("[pretrain\nsteps = 3", "is not TOML"),
        ("[pretrain]\nsteps = 3\nsteps = 4", "is not TOML"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_named(
    table: str, said: str, tmp_path: Path, command: Run
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(table)
    sentence = command("pretrain", "sh", "--out", "o", "--recipe", recipe).refusal(2)
    assert str(recipe) in sentence
    assert said in sentence


# Results


def test_json_is_one_object_on_standard_output_and_all_else_is_said_elsewhere(
    text: Path, command: Run, process: Run
) -> None:
    with text.open("ab") as file:
        file.write(b"\xff no text\n" + b"fine\n" * 20)
    words = ["learn-vocab", text, "--size", "70"]
    ended = process(*words, "--out", text.with_name("one"), "--json")
    assert ended.code == 0
    assert ended.out.count("\n") == 1
    assert json.loads(ended.out) == {
        "tokenizer": str(text.with_name("one")),
        "pieces": read_manifest(text.with_name("one"))["settings"]["size"],
        "bad_rows": 1,
    }
    assert "reading: " in ended.err
    assert "text.txt line 13: not UTF-8" in ended.err
    plain = command(*words, "--out", text.with_name("two"))
    assert plain.out == f"tokenizer: {text.with_name('two')}\npieces: 70\nbad rows: 1\n"


def test_exit_codes_tell_success_failure_and_bad_use(text: Path, process: Run) -> None:
    out = text.with_name("out")
    assert process("learn-vocab", text, "--out", out, "--size", "70").code == 0
    assert "exists already" in process("learn-vocab", text, "--out", out).refusal(2)
    gone = process("learn-vocab", text.with_name("gone"), "--out", text.with_name("new"))
    assert "there is no file" in gone.refusal(1)
    assert "no setting" not in process("learn-vocab", "--sise", "7").refusal(2)


def test_a_reader_that_has_seen_enough_gets_no_complaint(text: Path) -> None:
    words = [sys.executable, "-m", "bertworks", "learn-vocab", text, "--size", "70", "--out"]
    started = subprocess.Popen(
        [*words, text.with_name("tok")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(SOURCES)},
    )
    assert started.stdout is not None
    assert started.stderr is not None
    started.stdout.close()
    said = started.stderr.read().decode()
    assert started.wait() == 1
    started.stderr.close()
    assert said.replace("reading: ", "").count("\n") == 2, said
    assert "Error" not in said


def test_a_full_standard_output_is_one_sentence(text: Path) -> None:
    words = [sys.executable, "-m", "bertworks", "learn-vocab", text, "--size", "70", "--out"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*words, text.with_name("tok"), "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={"PYTHONPATH": str(SOURCES)},
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("bertworks: [Errno 28] No space left on device")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't"),
        type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory."),
    ],
)
def test_too_little_memory_is_one_sentence(
    error: Exception, text: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **told: Any) -> None:
        raise error

    monkeypatch.setattr("bertworks.cli.main._run", fail)
    out = ["--out", text.parent / "out"]
    sentence = command("learn-vocab", text, *out).refusal(1)
    assert sentence == "the memory is full; give it less data at once"
    words = ["finetune", "--model", text, "--train", text, "--dev", text, *out]
    sentence = command(*words).refusal(1)
    assert sentence.startswith("the memory is full; lower --batch-size, or raise --accumulate, or")
    monkeypatch.setattr("bertworks.cli.main.is_of_memory", lambda error: False)
    with pytest.raises(type(error)):
        command("learn-vocab", text, "--out", text.parent / "out")


def test_a_place_that_cannot_be_is_one_sentence(text: Path, command: Run) -> None:
    (text.parent / "mine.toml").mkdir()
    for words in (
        ["quickstart", "--out", text / "inside"],
        ["learn-vocab", text, "--out", text / "inside"],
        ["learn-vocab", text / "inside", "--out", text.with_name("tok")],
    ):
        command(*words).refusal(1)
    command("quickstart", "--recipe", text.parent / "mine.toml").refusal(2)
    assert sorted(path.name for path in text.parent.iterdir()) == ["mine.toml", "text.txt"]


# The command that runs it again

names = st.text(st.characters(min_codepoint=33, max_codepoint=0x4E2D, exclude_characters="-\x7f"))
paths = names.filter(lambda name: name.strip() and "\0" not in name).map(Path)
objectives = st.builds(
    ObjectiveSettings,
    objectives=st.lists(st.sampled_from(["fill_mask", "next_piece=1..0.5"]), max_size=2).map(tuple),
    causal_share=st.floats(0.001, 1).map(lambda share: Ramp(share, share)),
)
machines = st.builds(
    MachineSettings,
    device=st.sampled_from(["auto", "cpu", "cuda"]),
    threads=st.none() | st.integers(1, 99),
)


def is_run_again(name: str, settings: Any) -> bool:
    """Tell whether the written command, read by a shell, stands for the same settings."""
    first, *words = shlex.split(as_command(name, settings))
    assert first == "bertworks"
    return parse(words) == (name, settings, False)


@given(
    st.builds(
        PretrainSettings,
        paths,
        out=paths,
        steps=st.integers(1, 10**9),
        lr=st.floats(1e-12, 1e12),
        mask_rate=st.builds(Ramp, st.floats(0.001, 0.999), st.floats(0.001, 0.999)),
        objective=objectives,
        seed=st.integers(-(10**30), 10**30),
        machine=machines,
    )
)
def test_the_command_of_a_pretraining_stands_for_the_same_settings(
    settings: PretrainSettings,
) -> None:
    assert is_run_again("pretrain", settings)


rates = st.none() | st.floats(0, 0.99)


@given(
    st.builds(
        FinetuneSettings,
        model=paths,
        train=paths,
        dev=paths,
        out=paths,
        task=st.sampled_from(["classify", "match", None]),
        columns=st.lists(names.map(lambda name: f"text={name}"), max_size=3).map(tuple),
        dropping=st.builds(DropoutSettings, dropout=rates, attention_dropout=rates),
        fresh=st.booleans(),
        machine=machines,
    )
)
def test_the_command_of_a_finetuning_stands_for_the_same_settings(
    settings: FinetuneSettings,
) -> None:
    assert is_run_again("finetune", settings)


@given(
    st.builds(
        ExtendVocabSettings,
        model=paths,
        out=paths,
        words=st.lists(names.filter(str.strip), max_size=3).map(tuple),
        words_file=st.none() | paths,
    )
)
def test_the_command_of_two_words_stands_for_the_same_settings(
    settings: ExtendVocabSettings,
) -> None:
    assert as_command("vocab extend", settings).startswith("bertworks vocab extend --model ")
    assert is_run_again("vocab extend", settings)


def test_a_setting_that_the_command_forgot_would_be_noticed() -> None:
    settings = PretrainSettings(Path("s"), out=Path("o"), steps=5)
    words = shlex.split(as_command("pretrain", replace(settings, steps=6)))[1:]
    assert parse(words) != ("pretrain", settings, False)
    assert "steps" in {item.name for item in fields(settings)}


def test_results_are_utf_8_in_every_locale(tmp_path: Path) -> None:
    name = os.fsencode("北京.txt")
    (tmp_path / os.fsdecode(name)).write_text("A river. A boat.\n" * 9)
    for encoding in ("ascii", "latin-1", "utf-8"):
        out = encoding.encode() + name
        ran = subprocess.run(
            [sys.executable, "-m", "bertworks", "learn-vocab", name, "--out", out, "--size", "60"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(SOURCES), "PYTHONIOENCODING": encoding},
            capture_output=True,
        )
        assert ran.returncode == 0, ran.stderr
        assert out in ran.stdout
