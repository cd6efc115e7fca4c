"""Attention on the GPU: every kernel against the published formula, forward and backward."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bertworks.core.batch import Layout
from bertworks.data.packing import flatten
from bertworks.model import gpu_attention
from bertworks.model.attention import Across, Sight, attend, attend_plainly
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.model.encoder import Encoder, initialize
from bertworks.model.gpu_attention import UNSEEN, Look, attend_on_gpu
from bertworks.model.positions import Turn, rotate

HEADS, HEAD_SIZE = 2, 32
SMALL_TILES = {
    "FORWARD": {"QUERIES": 32, "KEYS": 16},
    "BACKWARD_QUERIES": {"QUERIES": 32, "KEYS": 16},
    "BACKWARD_KEYS": {"QUERIES": 16, "KEYS": 32},
}
ALL, NEAR, WIDE, BEFORE, JUST_BEFORE = (UNSEEN, UNSEEN), (7, 7), (40, 40), (UNSEEN, 0), (7, 0)
# Texts of one token, of exactly one tile, of a token more, and of several.
LENGTHS = {
    ("short", "cpu"): (5, 1, 16, 17, 128),
    ("short", "cuda"): (5, 1, 16, 17, 128, 40),
    ("long", "cpu"): (5, 1, 32, 17, 70),
    ("long", "cuda"): (5, 1, 64, 65, 17, 300),
}


@pytest.fixture(params=["short", "long"])
def lengths(
    request: pytest.FixtureRequest, place, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, ...]:
    """Take one of the two ways for all texts, however long, in small tiles where that is slow."""
    if request.param == "long":
        monkeypatch.setattr(gpu_attention, "LONGEST_TILE", 0)
    if place.device.type == "cpu":
        for name, sizes in SMALL_TILES.items():
            monkeypatch.setattr(gpu_attention, name, sizes)
    return LENGTHS[request.param, place.device.type]


def make_look(
    place, lengths: tuple[int, ...], reach: tuple[int, int] = ALL, *, size: int = 0
) -> Look:
    """Lay texts end to end, turned where the size of a head is given."""
    layout = Layout.of(lengths)
    positions = Sight(layout).before.squeeze(-1).to(place.device)
    turn = Turn.of(positions, max(lengths), head_size=size, base=100.0) if size else None
    return Look(layout.to(place.device), turn, reach)


def gather(qkv: Tensor, look: Look, mask: Tensor | None = None) -> Tensor:
    """Attend by the published formula; a mask [H, T, longest] says what is left of the weights."""
    q, k, v = qkv.unbind(1)
    if look.turn is not None:
        q, k = rotate(q, look.turn.by_token), rotate(k, look.turn.by_token)
    gathered, start = [], 0
    for length in look.layout.lengths:
        rows, places = slice(start, start + length), torch.arange(length, device=qkv.device)
        scores = torch.einsum("qhk,phk->hqp", q[rows], k[rows]) / qkv.shape[-1] ** 0.5
        ahead = places - places.unsqueeze(1)
        is_seen = (-ahead <= look.reach[0]) & (ahead <= look.reach[1])
        weights = scores.masked_fill(~is_seen, float("-inf")).softmax(-1)
        if mask is not None:
            weights = weights * mask[:, rows, :length]
        gathered.append(torch.einsum("hqp,phk->qhk", weights, v[rows]))
        start += length
    return torch.cat(gathered)


def ours(look: Look, *, dropout: float = 0.0) -> Any:
    def run(qkv: Tensor) -> Tensor:
        torch.manual_seed(5)
        return attend_on_gpu(qkv.clone(), look, dropout=dropout)

    return run


def plain(look: Look, mask: Tensor | None = None) -> Any:
    return lambda qkv: gather(qkv, look, mask)


# Queries beyond the end of a text may see nothing; what they divide by nothing is not stored.
empty_queries = pytest.mark.filterwarnings(
    "ignore:(invalid value|divide by zero) encountered in (divide|log2):RuntimeWarning"
)


@empty_queries
@pytest.mark.parametrize(
    ("reach", "is_turned"),
    [(ALL, False), (ALL, True), (NEAR, True), (WIDE, False), (BEFORE, True), (JUST_BEFORE, False)],
)
def test_attention_equals_the_plain_formula(
    place, lengths: tuple[int, ...], reach: tuple[int, int], is_turned: bool
) -> None:
    look = make_look(place, lengths, reach, size=HEAD_SIZE if is_turned else 0)
    qkv = place.draw(sum(lengths), 3, HEADS, HEAD_SIZE, seed=1)
    assert place.gap(ours(look), plain(look), qkv) < place.tolerance


@pytest.mark.parametrize("size", [64, 128])
def test_attention_knows_other_sizes_of_heads(place, lengths: tuple[int, ...], size: int) -> None:
    look = make_look(place, lengths[:4], size=size)
    qkv = place.draw(sum(lengths[:4]), 3, 3, size, seed=1)
    assert place.gap(ours(look), plain(look), qkv) < place.tolerance


def test_texts_beyond_a_tile_take_the_long_way(place) -> None:
    lengths = (3, 259)
    look = make_look(place, lengths, size=HEAD_SIZE)
    qkv = place.draw(sum(lengths), 3, 1, HEAD_SIZE, seed=1)
    assert place.gap(ours(look), plain(look), qkv) < place.tolerance


@empty_queries
def test_that_check_notices_another_reach_another_turn_and_a_neighbour(
    place, lengths: tuple[int, ...]
) -> None:
    lengths = lengths[:4]
    look = make_look(place, lengths, NEAR, size=HEAD_SIZE)
    qkv = place.draw(sum(lengths), 3, HEADS, HEAD_SIZE, seed=1)
    joined = make_look(place, (lengths[0] + 1, *lengths[2:]), NEAR, size=HEAD_SIZE)
    for other in (replace(look, reach=(7, 6)), replace(look, turn=None), joined):
        assert place.gap(ours(look), plain(other), qkv) > 5 * place.tolerance


def test_queries_keys_and_values_may_lie_in_memory_as_they_like(
    place, lengths: tuple[int, ...]
) -> None:
    look = make_look(place, lengths[:3])
    x = place.draw(3, sum(lengths[:3]), HEADS, HEAD_SIZE, seed=1)
    gap = place.gap(
        lambda x: attend_on_gpu(x.transpose(0, 1), look, dropout=0.0),
        lambda x: gather(x.transpose(0, 1), look),
        x,
    )
    assert gap < place.tolerance


# Keys beyond the end of a text weigh too much there, in rows that are not stored.
@pytest.mark.filterwarnings(
    "ignore:(overflow|invalid value) encountered in (exp2|multiply|matmul):RuntimeWarning"
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_far_from_zero_keep_their_gradients(
    place, lengths: tuple[int, ...], sign: float
) -> None:
    look = make_look(place, lengths[:4])
    q, k, v = place.draw(3, sum(lengths[:4]), HEADS, HEAD_SIZE, seed=1)
    qkv = torch.stack([q / 2 + 4.5, (k / 2 + 4.5) * sign, v], dim=1)
    assert place.gap(ours(look), plain(look), qkv) < 10 * place.tolerance


# Dropout


def mask_of(place, look: Look, rate: float) -> Tensor:
    """Read out what dropout leaves of each weight: equal weights, and values that name keys."""
    lengths, longest = look.layout.lengths, look.layout.longest
    parts = []
    for first in range(0, longest, HEAD_SIZE):
        texts = [torch.eye(longest)[:length, first : first + HEAD_SIZE] for length in lengths]
        values = torch.cat(texts).to(place.device, place.dtype)
        qkv = torch.zeros(len(values), 3, HEADS, HEAD_SIZE, device=place.device, dtype=place.dtype)
        qkv[:, 2, :, : values.shape[1]] = values.unsqueeze(1)
        parts.append(ours(look, dropout=rate)(qkv))
    sizes = torch.cat([torch.full((length, 1, 1), length) for length in lengths])
    weights = torch.cat(parts, dim=-1).float() * sizes.to(place.device)
    return ((weights > 0.5) / (1 - rate)).transpose(0, 1)[..., :longest]


def test_what_is_dropped_of_the_weights_is_dropped_of_their_gradient(
    place, lengths: tuple[int, ...]
) -> None:
    rate, lengths = 0.3, (lengths[0], lengths[-1])
    look = make_look(place, lengths, size=HEAD_SIZE)
    mask = mask_of(place, look, rate)
    qkv = place.draw(sum(lengths), 3, HEADS, HEAD_SIZE, seed=1)
    assert place.gap(ours(look, dropout=rate), plain(look, mask), qkv) < place.tolerance
    assert place.gap(ours(look, dropout=rate), plain(look, mask.flip(0)), qkv) > 0.1


def test_heads_texts_and_places_are_dropped_apart_and_at_their_rate(
    place, lengths: tuple[int, ...]
) -> None:
    look = make_look(place, (40, 40))
    kept = (mask_of(place, look, 0.3) > 0).float()
    texts = kept.unflatten(1, (2, 40)).flatten(0, 1)  # heads of texts
    assert abs(float(kept.mean()) - 0.7) < 4 * (0.21 / kept.numel()) ** 0.5
    unit = (texts - 0.7).flatten(1) / (0.21 * 40 * 40) ** 0.5
    assert float((unit @ unit.t()).triu(1).abs().max()) < 4 / 40


def test_the_same_weights_are_dropped_whichever_way_a_text_takes(
    place, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = make_look(place, (5, 40))
    short = mask_of(place, look, 0.3)
    monkeypatch.setattr(gpu_attention, "LONGEST_TILE", 0)
    assert torch.equal(mask_of(place, look, 0.3), short)


def test_dropout_follows_the_seed(place, lengths: tuple[int, ...]) -> None:
    look = make_look(place, lengths[:3])
    qkv = place.draw(sum(lengths[:3]), 3, HEADS, HEAD_SIZE, seed=1)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(attend_on_gpu(qkv.clone(), look, dropout=0.5))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


@empty_queries
@pytest.mark.parametrize("lengths", ["short", "long"], indirect=True)
@pytest.mark.parametrize("place", ["interpreter"], indirect=True)
def test_gradients_with_dropout_agree_with_finite_differences(
    place, lengths: tuple[int, ...]
) -> None:
    look = make_look(place, lengths[:4], NEAR, size=HEAD_SIZE)
    run, shape = ours(look, dropout=0.3), (sum(lengths[:4]), 3, HEADS, HEAD_SIZE)
    qkv, way, upstream = (place.draw(*shape, seed=seed) for seed in (1, 2, 3))
    upstream = upstream[:, 0]

    def value(step: float) -> float:
        return float((run(qkv + step * way).double() * upstream).sum())

    qkv.requires_grad_()
    (gradient,) = torch.autograd.grad(run(qkv), qkv, upstream)
    with torch.no_grad():
        slope = (value(1e-2) - value(-1e-2)) / 2e-2
    assert slope == pytest.approx(float((gradient * way).sum()), rel=1e-3)


# On the GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("longest", [100, 200])
@pytest.mark.parametrize(("window", "is_causal"), [(None, False), (7, False), (None, True)])
def test_attention_on_a_gpu_takes_the_kernels(
    gpu, longest: int, window: int | None, is_causal: bool
) -> None:
    reach = UNSEEN if window is None else window
    look = make_look(gpu, (5, longest), (reach, 0 if is_causal else reach), size=64)
    sight = Sight(look.layout, window=window, turn=look.turn, is_causal=is_causal)
    qkv = gpu.draw(5 + longest, 3, HEADS, 64, seed=1)
    assert gpu.gap(lambda x: attend(x.clone(), sight), plain(look), qkv) < gpu.tolerance
    assert torch.equal(attend(qkv.clone(), sight), attend_on_gpu(qkv.clone(), look, dropout=0.0))


@pytest.mark.gpu
def test_scores_by_distance_are_added_on_a_gpu_too(gpu) -> None:
    layout = Layout.of((5, 40)).to(gpu.device)
    scores = gpu.draw(HEADS, 40, 40, seed=2)
    qkv = gpu.draw(45, 3, HEADS, 64, seed=1)

    def by_formula(x: Tensor, scores: Tensor) -> Tensor:
        return attend_plainly(*x.unbind(1), Sight(layout, scores=scores))

    def by_kernel(x: Tensor, scores: Tensor) -> Tensor:
        return attend(x, Sight(layout, scores=scores))

    assert gpu.gap(by_kernel, by_formula, qkv, scores) < 2 * gpu.tolerance


@pytest.mark.gpu
@pytest.mark.parametrize("reach", [ALL, NEAR, BEFORE])
@pytest.mark.parametrize("size", [40, 64])
def test_what_the_kernels_cannot_do_is_done_by_flash_attention(
    gpu, monkeypatch: pytest.MonkeyPatch, reach: tuple[int, int], size: int
) -> None:
    monkeypatch.setattr(gpu_attention, "has_triton", lambda: False)
    look = make_look(gpu, (5, 1, 130), reach, size=size)
    qkv = gpu.draw(136, 3, HEADS, size, seed=1)
    assert gpu.gap(ours(look), plain(look), qkv) < gpu.tolerance


@pytest.mark.gpu
@pytest.mark.parametrize("size", [40, 64])
def test_looking_across_on_a_gpu_equals_the_plain_formula(gpu, size: int) -> None:
    own, others = (5, 1, 130), (9, 40, 1)
    q = gpu.draw(sum(own), HEADS, size, seed=1)
    kv = gpu.draw(sum(others), 2, HEADS, size, seed=2)
    readers, read = (Layout.of(lengths).to(gpu.device) for lengths in (own, others))

    def by_kernel(q: Tensor, kv: Tensor) -> Tensor:
        return Across(kv, readers, read).attend(q)

    def by_formula(q: Tensor, kv: Tensor) -> Tensor:
        gathered = []
        for query, text in zip(q.split(own), kv.split(others), strict=True):
            keys, values = text.unbind(1)
            weights = torch.einsum("qhk,phk->hqp", query, keys) / size**0.5
            gathered.append(torch.einsum("hqp,phk->qhk", weights.softmax(-1), values))
        return torch.cat(gathered)

    assert gpu.gap(by_kernel, by_formula, q, kv) < 2 * gpu.tolerance


@pytest.mark.gpu
@pytest.mark.parametrize("size", [40, 64])
def test_prefixes_on_a_gpu_are_seen_as_the_plain_formula_says(gpu, size: int) -> None:
    layout = Layout.of((9, 1, 1, 130, 7)).to(gpu.device)
    sight = Sight(layout, is_causal=True, prefixes=(4, 1, 0, 70, 7))
    qkv = gpu.draw(148, 3, HEADS, size, seed=1)

    def by_formula(x: Tensor) -> Tensor:
        return attend_plainly(*x.unbind(1), sight)

    assert gpu.gap(lambda x: attend(x, sight), by_formula, qkv) < 2 * gpu.tolerance


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # first in torch's own thread
@pytest.mark.parametrize("size", [40, 64])
@pytest.mark.parametrize("longest", [100, 200])
def test_dropout_is_the_same_both_ways_whatever_the_kernel(gpu, longest: int, size: int) -> None:
    look = make_look(gpu, (5, longest))
    qkv = gpu.draw(5 + longest, 3, HEADS, size, seed=1).requires_grad_()
    out = ours(look, dropout=0.3)(qkv)
    upstream = gpu.draw(*out.shape, seed=2)
    (gradient,) = torch.autograd.grad(out, qkv, upstream)
    out, qkv = out.detach(), qkv.detach()
    # What is gathered is linear in the values, so their gradient leads back to it.
    gathered = (out.float() * upstream.float()).sum((0, 2))
    values = (qkv[:, 2].float() * gradient[:, 2].float()).sum((0, 2))
    scale = (out.float() * upstream.float()).norm()
    assert float((gathered - values).abs().max() / scale) < 3 * gpu.tolerance
    assert gpu.distance(out, ours(look)(qkv)) > 0.1


@pytest.mark.gpu
@pytest.mark.parametrize("family", [name for name in STYLES if name])
def test_a_network_on_a_gpu_makes_the_vectors_of_a_cpu(gpu, make_texts, family: str) -> None:
    batch = flatten(make_texts([5, 1, 90, 150], vocab_size=97, seed=2))
    runs = []
    for device in (gpu.device, torch.device("cpu")):
        network = Encoder(draw_config(family))
        initialize(network, seed=1, deviation=0.05)
        network.to(device)
        with torch.autocast("cuda", torch.bfloat16, enabled=device == gpu.device):
            hidden = network(batch.to(device))
        upstream = gpu.draw(*hidden.shape, seed=3).to(device, hidden.dtype)
        hidden.backward(upstream)
        learned = [p.grad for p in network.parameters() if p.grad is not None]
        gradient = torch.cat([x.float().flatten() for x in learned])
        runs.append([x.detach().cpu() for x in (hidden, gradient)])
    for found, expected in zip(*runs, strict=True):
        assert gpu.distance(found, expected) < 3 * gpu.tolerance


@pytest.mark.gpu
def test_dropout_in_a_network_on_a_gpu_follows_the_seed(gpu, make_texts) -> None:
    batch = flatten(make_texts([5, 1, 150], vocab_size=97, seed=2)).to(gpu.device)
    network = Encoder(replace(draw_config("bert"), dropout=0.1, attention_dropout=0.1))
    initialize(network, seed=1, deviation=0.05)
    network.to(gpu.device)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        with torch.autocast("cuda", torch.bfloat16):
            runs.append(network(batch).detach())
    assert torch.equal(runs[0], runs[1])
    assert gpu.distance(runs[0], runs[2]) > 0.1


def draw_config(family: str) -> EncoderConfig:
    shape = {"vocab_size": 97, "hidden_size": 64, "num_layers": 3, "num_heads": 2}
    sizes = {"feed_forward_size": 90, "max_positions": 160, "dropout": 0.0}
    narrow = {"embedding_size": 24} if family == "albert" else {}
    return EncoderConfig(**{**STYLES[family], **shape, **sizes, "attention_dropout": 0.0, **narrow})
