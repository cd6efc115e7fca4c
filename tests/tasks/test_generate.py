"""Texts that are written: what is asked for, what begins a decoder, and how answers are written."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.core.device import Machine
from bertworks.core.errors import DataError, TrainingError, UsageError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import SourceExample
from bertworks.data.packing import flatten
from bertworks.model.config import EncoderConfig
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.generate import LONG_TARGET, SEARCH, Generate, learn_texts
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.r_drop import losses_of_two_passes

WAYS = ("copied", "shared", "fresh", "prefix")
SOURCES = ["cat", "the cat sat", "北京 dog läuft", "dog dog dog hill mat", "the the cat !"]
SHORT = {"most": 12}


def examples() -> list[SourceExample]:
    return [SourceExample(text, line=n) for n, text in enumerate(SOURCES, 1)]


@pytest.fixture
def make_model(config: EncoderConfig) -> Callable[..., TaskModel]:
    """Draw a network that writes; far from zero, so that it does not always write the same."""

    def make(task: Generate, **changes: Any) -> TaskModel:
        return TaskModel(replace(config, **changes), [task], seed=5, deviation=0.3).eval()

    return make


@pytest.fixture
def write(tokenizer: Tokenizer, machine: Machine) -> Callable[..., list[str]]:
    def write(model: TaskModel, task: Generate, given: list[SourceExample]) -> list[str]:
        windows = windows_of(task, given, tokenizer, longest=67)
        answers = Answerer(model, task, tokenizer, machine).answer(given, windows)
        return [answer["text"] for answer in answers]

    return write


def test_each_piece_of_a_target_asks_for_the_next(tokenizer: Tokenizer) -> None:
    example = SourceExample("the cat", ("dog sat", "another"), line=4)
    (window,) = Generate().features(example, tokenizer, longest=67)
    first, end = tokenizer.specials.first, tokenizer.specials.separator
    (pieces,) = tokenizer.ids_of(["dog sat"])
    assert window.reply.tolist() == [first, *pieces]
    assert window.goals["generate"].values.tolist() == [*pieces, end]
    assert window.tokens.tolist() == [first, *tokenizer.ids_of(["the cat"])[0], end]
    assert window.example == 4


@pytest.mark.parametrize("way", ["fresh", "prefix"])
def test_what_looks_like_a_special_piece_is_written_as_text(way: Any, tokenizer: Tokenizer) -> None:
    task = Generate(decoder=way, writing=SHORT)
    end, name = tokenizer.specials.separator, tokenizer.names.separator
    assert end in tokenizer.ids_of([f"dog {name} sat"])[0]
    (window,) = task.features(SourceExample("the cat", (f"dog {name} sat",)), tokenizer, longest=67)
    *pieces, last = window.goals["generate"].values.tolist()
    assert last == end
    assert not {*tokenizer.specials.as_tuple()} - {tokenizer.specials.unknown} & {*pieces}
    assert tokenizer.ids_of(["sat"])[0][0] in pieces


def test_an_answer_begins_with_text_that_is_known(tokenizer: Tokenizer) -> None:
    for odd in ("\ud800", 7):
        with pytest.raises(UsageError, match="give the text that answers begin with"):
            Generate().asked(begin=odd)
    with pytest.raises(UsageError, match="the tokenizer does not know all of it"):
        Generate().asked(begin="漢").begun(tokenizer)
    assert Generate().asked(begin="dog").begun(tokenizer) == tokenizer.ids_of(["dog"])[0]


def test_a_network_that_goes_on_writing_sees_the_source_whole(tokenizer: Tokenizer) -> None:
    example = SourceExample("the cat", ("dog sat",))
    (window,) = Generate(decoder="prefix", writing=SHORT).features(example, tokenizer, longest=67)
    first, end = tokenizer.specials.first, tokenizer.specials.separator
    source, target = tokenizer.ids_of(["the cat", "dog sat"])
    assert window.tokens.tolist() == [first, *source, end, *target]
    assert window.prefix == 1 + len(source)
    goal = window.goals["generate"]
    assert goal.values.tolist() == [*target, end]
    assert [window.tokens[place] for place in goal.at] == [end, *target]
    assert window.segments.tolist() == [0] * window.prefix + [1] * (len(target) + 1)


@pytest.mark.parametrize("way", WAYS)
def test_a_source_that_fills_its_room_is_read_and_one_piece_more_is_refused(
    way: Any, tokenizer: Tokenizer
) -> None:
    task = Generate(decoder=way, writing=SHORT)
    room = task.room(tokenizer, longest=67)
    assert room == (67 - 1 - 12 if way == "prefix" else 65)
    assert task.features(SourceExample("cat " * room), tokenizer, longest=67)
    with pytest.raises(DataError, match=f"{room + 1} pieces, but {room} are read"):
        task.features(SourceExample("cat " * (room + 1)), tokenizer, longest=67)


def test_a_target_of_which_the_tokenizer_knows_nothing_is_refused(tokenizer: Tokenizer) -> None:
    for way in WAYS:
        task = Generate(decoder=way, writing=SHORT)
        with pytest.raises(DataError, match="the target holds nothing that the tokenizer knows"):
            task.features(SourceExample("the cat", ("\u200b",)), tokenizer, longest=67)


def test_without_a_target_nothing_is_asked_for(tokenizer: Tokenizer) -> None:
    for way in WAYS:
        task = Generate(decoder=way, writing=SHORT)
        (window,) = task.features(SourceExample("the cat"), tokenizer, longest=67)
        assert np.asarray(window.goals["generate"].values).tolist() == [IGNORE]


def test_a_source_beyond_the_network_is_refused_and_a_long_target_is_told(
    tokenizer: Tokenizer,
) -> None:
    long = SourceExample("cat " * 100, ("dog",))
    with pytest.raises(DataError, match="the source has 100 pieces, but 65 are read"):
        Generate().features(long, tokenizer, longest=67)
    with pytest.raises(DataError, match="but 54 are read; shorten it, lower --longest-reply"):
        Generate(decoder="prefix", writing=SHORT).features(long, tokenizer, longest=67)
    (window,) = Generate(writing=SHORT).features(
        SourceExample("dog", ("cat " * 30,)), tokenizer, longest=67
    )
    assert window.note.losses == (LONG_TARGET,)
    values = window.goals["generate"].values
    assert len(values) == len(window.reply) == 12
    assert tokenizer.specials.separator not in values  # for it does not end there


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", [{}, {"beams": 3}, {"temperature": 1.5, "draw_seed": 4}])
def test_what_is_written_does_not_depend_on_neighbors(
    way: str, how: dict[str, Any], make_model, write
) -> None:
    task = Generate(decoder=way, writing=SHORT)
    model, asked = make_model(task), task.asked(**how)
    together = write(model, asked, examples())
    assert together == [write(model, asked, [own])[0] for own in examples()]
    assert len({*together}) > 1


@pytest.mark.parametrize("way", WAYS)
def test_gold_beside_a_source_does_not_show_in_its_answer(way: str, make_model, write) -> None:
    task = Generate(decoder=way, writing=SHORT)
    model = make_model(task)
    with_gold = [replace(own, targets=("hill mat dog",)) for own in examples()]
    for asked in (task, task.asked(draw_seed=4)):
        assert write(model, asked, with_gold) == write(model, asked, examples())


@pytest.mark.parametrize("way", WAYS)
def test_a_cached_step_says_what_the_network_says_of_the_whole(
    way: str, make_model, tokenizer: Tokenizer
) -> None:
    task = Generate(decoder=way, writing=SHORT)
    model = make_model(task)
    given = [replace(own, targets=("the dog sat",)) for own in examples()]
    windows = [task.features(own, tokenizer, longest=67)[0] for own in given]
    batch = flatten(windows)
    begin = tokenizer.specials.separator if way == "prefix" else tokenizer.specials.first
    (target,) = tokenizer.ids_of(["the dog sat"])
    with torch.inference_mode():
        whole = model.logits(batch, "generate").unflatten(0, (len(given), -1))
        draft = task._draft(model, batch, room=9)
        for place, token in enumerate([begin, *target]):
            stepped = draft.step(torch.full((len(given),), token))
            torch.testing.assert_close(stepped, whole[:, place], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_answers_begin_as_they_are_told_to(way: str, make_model, write) -> None:
    task = Generate(decoder=way, writing=SHORT)
    texts = write(make_model(task), task.asked(begin="the hill"), examples())
    assert all(text.startswith("the hill") for text in texts)


def test_answers_have_at_least_and_at_most_so_many_pieces(
    make_model, write, tokenizer: Tokenizer
) -> None:
    task = Generate(writing={"most": 5, "least": 4})
    texts = write(make_model(task), task, examples())
    assert all(len(pieces) <= 5 for pieces in tokenizer.ids_of(texts))


def test_an_answer_never_leaves_the_places_that_the_network_knows(make_model, write) -> None:
    task = Generate(writing={"most": 1000, "least": 60})
    assert write(make_model(task), task, examples())  # 67 are known
    with pytest.raises(UsageError, match="shorten --begin"):
        write(make_model(task), task.asked(begin="cat " * 80), examples())


def test_a_decoder_begins_as_the_encoder_does(config: EncoderConfig) -> None:
    kept = {"copied": "encoder.blocks.0.mixer.qkv.weight", "shared": None, "fresh": None}
    head = "output.transform.weight"
    for way, source in kept.items():
        task = Generate(decoder=way)
        names = dict(task.head(config).named_parameters())
        block = "blocks.0.mixer.qkv.weight"
        assert (block in names) == (way != "shared")
        if source:
            assert task.source_of(block) == source
        assert task.source_of(head) == (
            None if way == "fresh" else "heads.fill_mask.transform.weight"
        )
    assert Generate(decoder="prefix").source_of("bias") == "heads.fill_mask.bias"


def test_the_loss_is_summed_and_smoothed(make_model, tokenizer: Tokenizer) -> None:
    task = Generate(writing=SHORT)
    model = make_model(task)
    given = [SourceExample("the cat", ("dog sat",)), SourceExample("dog", ("the",))]
    batch = flatten([task.features(own, tokenizer, longest=67)[0] for own in given])
    logits, target = model.judged(batch)["generate"]
    sharp = task.loss(logits, target)
    chances = logits.log_softmax(-1)
    gold = chances.gather(1, target.values[:, None]).sum()
    torch.testing.assert_close(sharp, -gold)
    soft = task.loss(logits, target.smoothed(0.2))
    torch.testing.assert_close(soft, 0.8 * -gold - 0.2 * chances.mean(-1).sum())


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"beams": 2, "temperature": 1.0}, "not both"),
        ({"beams": 0}, "beams is 0; the least is 1"),
        ({"beams": 2.5}, "beams is 2.5; give a whole number"),
        ({"top_k": "3"}, "top_k is '3'; give a whole number"),
        ({"longest_reply": 0}, "longest_reply is 0; the least is 1"),
        ({"length_penalty": 1000.0}, "length_penalty is 1000.0; it must lie from -10 to 10"),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
        ({"begin": 5}, "begin is 5; give the text"),
        ({"shortest_reply": 9, "longest_reply": 5}, "at least 9 pieces"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"temperature": "hot"}, "temperature is 'hot'; give a number"),
        ({"length_penalty": True}, "length_penalty is True; give a number"),
        ({"draw_seed": 0.5}, "draw_seed is 0.5; give a whole number"),
        ({"warmth": 1}, "texts are not written by 'warmth'; what is known: beams, no_repeat, "),
    ],
)
def test_what_cannot_be_asked_for_is_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Generate().asked(**how)


def test_what_is_drawn_needs_no_beams_though_they_are_saved() -> None:
    saved = Generate(writing={"beams": 4})
    assert saved.asked(temperature=0.5).width == 1
    assert saved.asked(length_penalty=2).width == 4
    with pytest.raises(UsageError, match="or found by 4 beams, not both"):
        saved.asked(temperature=0.5, beams=4)


def test_flags_become_options_that_are_saved() -> None:
    options = learn_texts([], decoder="shared", beams=4, longest_reply=50)
    assert options["decoder"] == "shared"
    assert options["writing"] == {"beams": 4, "most": 50}  # what is not said may be known already
    assert Generate(**options).options["writing"] == SEARCH | options["writing"]
    with pytest.raises(UsageError, match="at least 51 pieces"):
        learn_texts([], shortest_reply=51, longest_reply=50)


def test_what_cannot_be_written_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(UsageError, match="at least 60 pieces are asked for, but at most 50"):
        Generate(writing={"most": 50, "least": 60})


def test_a_network_without_attention_cannot_write(config: EncoderConfig) -> None:
    for changes in ({"mixer": "mean"}, {"positions": None}):
        with pytest.raises(UsageError, match="choose another --model or --size"):
            Generate().head(replace(config, **changes))


def test_a_fill_mask_head_lends_what_names_the_pieces(config: EncoderConfig) -> None:
    lender = dict(TaskModel(config, [FillMask()]).named_parameters())
    names = dict(Generate().head(config).named_parameters())
    found = {name: Generate().source_of(name) for name in names}
    assert all(source in lender for name, source in found.items() if "readings" not in name)


def test_a_network_that_reads_its_answers_needs_room_for_both(tokenizer: Tokenizer) -> None:
    task, example = Generate(decoder="prefix"), SourceExample("the cat", ("dog",))
    with pytest.raises(UsageError, match=r"67 pieces leave no room for a source.*--longest-reply"):
        task.features(example, tokenizer, longest=67)
    begun = Generate(decoder="prefix", writing=SHORT).asked(begin="the cat sat")
    long = SourceExample("cat " * 52)
    with pytest.raises(DataError, match="has 52 pieces, but 51 are read"):
        begun.features(long, tokenizer, longest=67)


def test_a_beginning_with_unknown_pieces_is_refused(make_model, write) -> None:
    task = Generate(writing=SHORT)
    with pytest.raises(UsageError, match="answers cannot begin with 'the ☃'"):
        write(make_model(task), task.asked(begin="the ☃"), examples())


def test_drawing_from_a_broken_network_is_an_error(make_model, write) -> None:
    task = Generate(writing=SHORT)
    model = make_model(task)
    torch.nn.init.constant_(model.heads["generate"].output.bias, float("nan"))
    for asked in (task, task.asked(draw_seed=2)):
        with pytest.raises(TrainingError, match="no answer has a finite chance"):
            write(model, asked, examples())


def test_the_loss_has_slopes_of_slopes_as_two_passes_want_them(
    make_model, tokenizer: Tokenizer
) -> None:
    task = Generate(writing=SHORT)
    example = SourceExample("the cat", ("dog sat",))
    batch = flatten(task.features(example, tokenizer, longest=67))
    losses = losses_of_two_passes(make_model(task, dropout=0.3).train(), batch, weight=2.0)
    losses["generate"].backward()  # which needs the logits as they were
