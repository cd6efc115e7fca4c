"""Steps that are recorded write what plain ones write."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from bertworks.core.batch import Batch
from bertworks.data.packing import Features, flatten
from bertworks.model import recall
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.model.decoder import Continuation, Decoder, Draft
from bertworks.model.encoder import Encoder, initialize
from bertworks.model.heads import PieceHead
from bertworks.model.replay import Play, Replayed, replayed, still_place
from bertworks.model.sampling import Chance, write_sampled
from bertworks.model.search import Search, write_best

SHAPE = {"vocab_size": 23, "hidden_size": 16, "num_layers": 2, "num_heads": 2,
         "feed_forward_size": 24, "max_positions": 64}  # fmt: skip
FIRST, END = 1, 2
LENGTHS = (5, 1, 9, 9, 3, 7, 2, 6)
STILL = torch.device("cpu")
Drafting = Callable[[torch.device | None], Any]


class Tape(TorchDispatchMode):
    """Records operations, and does them again on the same tensors, as a GPU does."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, result))
        return result

    def play(self) -> None:
        for func, args, kwargs, before in self.done:
            after = func(*args, **kwargs)
            for old, new in zip(*(tree_flatten(x)[0] for x in (before, after)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Recorder:
    """Makes records of a draft, and counts them."""

    def __init__(self, draft: Draft | Continuation) -> None:
        self.draft = draft
        self.num_records = self.num_played = 0

    def __call__(self, step: Play) -> Play:
        self.num_records += 1
        with Tape() as tape:
            result = step()
        column = self.draft.page.column
        assert column is not None
        column -= 1  # for a GPU does not compute what it records

        def play() -> Tensor:
            self.num_played += 1
            tape.play()
            return result

        return play


def draw_batch(*, with_prefix: bool) -> Batch:
    random = np.random.default_rng(0)
    texts = [random.integers(5, SHAPE["vocab_size"], size=length) for length in LENGTHS]
    return flatten(
        [Features(text, np.zeros_like(text), prefix=len(text) if with_prefix else None)
         for text in texts]
    )  # fmt: skip


def make_draft(style: str, kind: str, *, room: int) -> Drafting:
    config = EncoderConfig(**{**STYLES[style], **SHAPE})
    encoder = Encoder(config).eval()
    head = PieceHead(config, target="x") if kind == "prefix" else Decoder(config, target="x")
    for seed, part in enumerate((encoder, head)):
        initialize(part, seed=seed, deviation=0.35)
    head.eval()
    batch = draw_batch(with_prefix=kind == "prefix")

    def begin(still_on: torch.device | None) -> Draft | Continuation:
        if isinstance(head, PieceHead):
            read = batch.beginnings()
            return Continuation(encoder, head, read, room=room, still_on=still_on)
        return Draft(head, encoder, encoder(batch), batch.layout, room=room, still_on=still_on)

    return begin


def best_of(draft: Any, search: Search, begin: Sequence[int]) -> list[tuple[list[int], float]]:
    prompt = torch.tensor(begin).expand(len(LENGTHS), -1)
    return [(own.tokens, own.score) for found in write_best(draft, prompt, search) for own in found]


@pytest.fixture(autouse=True)
def few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "FIRST_COLUMNS", 4)
    monkeypatch.setattr(recall, "ALIGNED", 2)


@torch.no_grad()
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("begin", [(FIRST,), (FIRST, 7, 9)])
@pytest.mark.parametrize(
    ("style", "kind"), [("bert", "decoder"), ("modern", "decoder"), ("modern", "prefix")]
)
def test_a_record_writes_what_plain_steps_write(
    style: str, kind: str, begin: tuple[int, ...], beams: int
) -> None:
    drafting = make_draft(style, kind, room=len(begin) + 16)
    searches = [Search(end=end, most=17, beams=beams) for end in range(3, SHAPE["vocab_size"])]
    answers = [best_of(drafting(None), search, begin) for search in searches]
    most_varied = max(range(len(searches)), key=lambda n: len({len(own) for own, _ in answers[n]}))
    search, expected = searches[most_varied], answers[most_varied]
    still = drafting(STILL)
    recorder = Recorder(still)
    found = best_of(Replayed(still, record=recorder), search, begin)
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    scores = [score for _, score in expected]
    assert [score for _, score in found] == pytest.approx(scores, abs=1e-4)
    assert recorder.num_records >= 2  # for the page grew, and texts were done
    assert recorder.num_played > 2 * recorder.num_records
    assert len({len(tokens) for tokens, _ in expected}) > 1  # texts end at other steps


@torch.no_grad()
def test_a_record_that_hangs_on_the_host_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_open = recall.Page.open

    def by_the_host(page: recall.Page, tokens: Tensor) -> Tensor:
        plain_open(page, tokens)
        return torch.full_like(tokens, page.length)

    search = Search(end=END, most=17, beams=3)
    drafting = make_draft("modern", "decoder", room=17)
    expected = best_of(drafting(None), search, (FIRST,))
    monkeypatch.setattr(recall.Page, "open", by_the_host)
    still = drafting(STILL)
    assert best_of(Replayed(still, record=Recorder(still)), search, (FIRST,)) != expected
    plainly = best_of(Replayed(drafting(STILL), record=lambda step: step), search, (FIRST,))
    assert [tokens for tokens, _ in plainly] == [tokens for tokens, _ in expected]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["decoder", "prefix"])
def test_what_is_drawn_from_a_record_is_what_is_drawn_plainly(kind: str) -> None:
    search, chance = Search(end=END, most=14), Chance(temperature=1.3)
    drafting = make_draft("modern", kind, room=search.most)
    prompt = torch.full((len(LENGTHS), 1), FIRST)
    names = [str(number) for number in range(len(LENGTHS))]
    expected = write_sampled(drafting(None), prompt, search, chance, names=names)
    still = drafting(STILL)
    recorded = Replayed(still, record=Recorder(still))
    found = write_sampled(recorded, prompt, search, chance, names=names)
    assert [own[0].tokens for own in found] == [own[0].tokens for own in expected]


@torch.no_grad()
def test_texts_that_are_done_stay_until_half_are() -> None:
    still = make_draft("bert", "decoder", room=9)(STILL)
    recorder = Recorder(still)
    draft, tokens = Replayed(still, record=recorder), torch.full((8,), FIRST)
    draft.step(tokens)
    draft.step(tokens)
    assert (recorder.num_records, still.num_answers) == (1, 8)
    left = torch.tensor([0, 2, 3, 5, 7])
    draft.keep(left, left)
    assert draft.step(tokens[:5]).shape == (5, SHAPE["vocab_size"])
    assert (recorder.num_records, still.num_answers) == (1, 8)
    left = torch.tensor([1, 2, 4])
    draft.keep(left, left)
    assert still.num_answers == 3
    draft.step(tokens[:3])
    assert (recorder.num_records, recorder.num_played) == (1, 2)


def test_steps_are_recorded_on_a_gpu_alone() -> None:
    gpu = torch.device("cuda")
    assert still_place(gpu) is gpu
    draft = make_draft("bert", "decoder", room=9)(still_place(torch.device("cpu")))
    assert replayed(draft) is draft


@pytest.mark.gpu
@torch.no_grad()
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", ["decoder", "prefix"])
def test_a_gpu_that_replays_writes_what_it_writes_plainly(gpu, kind: str, beams: int) -> None:
    config = EncoderConfig(**{**STYLES["modern"], **SHAPE, "hidden_size": 64})
    encoder = Encoder(config).eval()
    head = PieceHead(config, target="x") if kind == "prefix" else Decoder(config, target="x")
    for seed, part in enumerate((encoder, head)):
        initialize(part, seed=seed, deviation=0.35)
        part.eval().to(gpu.device)
    batch = draw_batch(with_prefix=kind == "prefix").to(gpu.device)
    search = Search(end=END, most=17, beams=beams)
    prompt = torch.full((len(LENGTHS), 1), FIRST, device=gpu.device)
    found = []
    for wrapped in (lambda draft: draft, replayed):
        how: dict[str, Any] = {"room": 17, "still_on": gpu.device}
        if isinstance(head, PieceHead):
            draft: Any = Continuation(encoder, head, batch.beginnings(), **how)
        else:
            draft = Draft(head, encoder, encoder(batch), batch.layout, **how)
        if wrapped is not replayed:
            widen = draft.widen if isinstance(draft, Continuation) else draft.page.widen
            while draft.page.num_columns < 32:
                widen()
        found.append([own[0].tokens for own in write_best(wrapped(draft), prompt, search)])
    assert found[0] == found[1]
