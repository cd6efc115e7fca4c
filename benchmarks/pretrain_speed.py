"""Pre-training on one GPU, beside Hugging Face transformers compiled: real tokens per second.

    python benchmarks/pretrain_speed.py                       every case
    python benchmarks/pretrain_speed.py --cases base-512 12x512 --rounds 3
    python benchmarks/pretrain_speed.py --profile base-512    where a step's time goes

The work of a case is the same on both sides: a micro-batch of texts whose lengths follow running
text (log-normal around 0.45 of the longest) or are all full, 15 % of the tokens hidden, bf16;
forward, backward, clipping, AdamW. The peer pads its texts to the longest and is compiled. Dropout
is 0.1 on both sides; attention's own too, unless --attention-dropout says otherwise for ours. The
share is of the rate of a large bf16 matrix product on the same device in the same run; only the
operations that the mathematics needs are counted.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from bertworks.core.batch import Batch, Layout, Target
from bertworks.model.config import EncoderConfig
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

Step = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """One shape of network and batch."""

    size: str
    longest: int
    tokens: int  # per micro-batch
    is_full: bool = False  # every text as long as the longest
    vocab_size: int = 30_522
    hidden_share: float = 0.15
    feed_forward: int | None = None
    has_peer: bool = True
    goal: str = ""


CASES = {
    "base-512": Case("base", 512, 65_536, goal="3.0x, 50 %"),
    "base-512-full": Case("base", 512, 65_536, is_full=True, goal="1.8x"),
    "base-128": Case("base", 128, 65_536, goal="3.0x"),
    "large-512": Case("large", 512, 32_768, goal="55 %"),
    "12x384": Case("modern-12x384", 128, 131_072, True, 16_384, 0.25, has_peer=False),
    "12x512": Case(
        "modern-12x512", 128, 131_072, True, 16_384, 0.25, 1408, False, "1.7 M tokens/s"
    ),
    "12x512-natural": Case("modern-12x512", 512, 131_072, False, 16_384, 0.25, 1408, False),
}


def main() -> None:
    """Measure the cases that were asked for and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many is taken")
    parser.add_argument("--attention-dropout", type=float, default=0.1, help="of our side")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--profile", choices=CASES)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark measures a GPU, and there is none here")
    if asked.profile:
        profile(CASES[asked.profile], asked.attention_dropout)
        return
    top = ceiling()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    print(f"bf16 matrix product: {top / 1e12:.0f} TFLOP/s")
    print(f"{'case':16}{'ours k/s':>10}{'share':>8}{'GiB':>7}{'peer k/s':>10}{'GiB':>7}"
          f"{'ratio':>8}{'memory':>8}  goal")  # fmt: skip
    for name in asked.cases:
        report(name, CASES[name], top, asked)


def report(name: str, case: Case, top: float, asked: argparse.Namespace) -> None:
    """Print the row of one case."""
    texts = lengths_of(case)
    ours, memory = measure(our_step(case, texts, asked.attention_dropout), asked.rounds)
    rate = sum(texts) / ours
    share = rate * operations_per_token(case, texts) / top
    row = f"{name:16}{rate / 1e3:>10.0f}{share:>8.1%}{memory:>7.1f}"
    if case.has_peer and not asked.no_peer:
        torch.compiler.reset()
        theirs, their_memory = measure(peer_step(case, texts), asked.rounds)
        their_rate = sum(texts) / theirs
        row += f"{their_rate / 1e3:>10.0f}{their_memory:>7.1f}{rate / their_rate:>7.2f}x"
        row += f"{memory / their_memory:>7.2f}x"
    else:
        row += " " * 33
    print(f"{row}  {case.goal}", flush=True)


def lengths_of(case: Case) -> list[int]:
    """Draw text lengths until the micro-batch is full."""
    random = torch.Generator().manual_seed(1)
    found: list[int] = []
    while sum(found) < case.tokens:
        deviation = torch.randn(1, generator=random).item()
        natural = case.longest * 0.45 * math.exp(0.8 * deviation)
        found.append(case.longest if case.is_full else int(min(max(natural, 8), case.longest)))
    return found


def config_of(case: Case, attention_dropout: float | None = None) -> EncoderConfig:
    """Return the network of a case."""
    config = EncoderConfig.named(case.size)
    config = replace(config, vocab_size=case.vocab_size, max_positions=max(case.longest, 512))
    if case.feed_forward is not None:
        config = replace(config, feed_forward_size=case.feed_forward)
    if attention_dropout is not None and config.dropout:
        config = replace(config, attention_dropout=attention_dropout)
    return config


def operations_per_token(case: Case, texts: list[int]) -> float:
    """Return the operations of forward and backward that one token needs."""
    config = config_of(case)
    hidden, inner = config.hidden_size, config.feed_forward_size
    block = 4 * hidden**2 + (3 if config.gated else 2) * hidden * inner
    looks = 2 * hidden * sum(n * n for n in texts) / sum(texts)
    head = case.hidden_share * (hidden**2 + hidden * case.vocab_size)
    return 6 * (config.num_layers * (block + looks) + head)


def our_step(case: Case, texts: list[int], attention_dropout: float) -> Step:
    """Return one training step of ours, on a fixed batch."""
    batch = make_batch(case, texts)
    config = config_of(case, attention_dropout)
    model = TaskModel(config, [make_task("fill_mask")]).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch)["fill_mask"] / batch.targets["fill_mask"].count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def make_batch(case: Case, texts: list[int]) -> Batch:
    """Return a flat batch of random pieces with some of them hidden."""
    random = torch.Generator().manual_seed(2)
    total = sum(texts)
    tokens = torch.randint(1000, case.vocab_size, (total,), generator=random)
    count = round(case.hidden_share * total)
    at = torch.randperm(total, generator=random)[:count].sort().values
    return Batch(
        tokens=tokens,
        positions=torch.cat([torch.arange(n) for n in texts]),
        segments=torch.zeros(total, dtype=torch.long),
        layout=Layout.of(tuple(texts)),
        targets={"fill_mask": Target(tokens[at], at)},
        ids=tuple(range(len(texts))),
    ).to(torch.device("cuda"))


def peer_step(case: Case, texts: list[int]) -> Step:
    """Return the step that a user of transformers' Trainer gets, compiled."""
    from transformers import BertConfig, BertForMaskedLM

    config = config_of(case)
    theirs = BertConfig(
        vocab_size=case.vocab_size,
        num_hidden_layers=config.num_layers,
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_heads,
        intermediate_size=config.feed_forward_size,
        max_position_embeddings=max(case.longest, 512),
        attn_implementation="sdpa",
    )
    model = BertForMaskedLM(theirs).cuda().train()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    shape = (len(texts), case.longest)
    ids = torch.randint(1000, case.vocab_size, shape, device="cuda")
    is_text = (
        torch.arange(case.longest, device="cuda") < torch.tensor(texts, device="cuda")[:, None]
    )
    is_hidden = (torch.rand(shape, device="cuda") < case.hidden_share) & is_text
    labels = ids.where(is_hidden, torch.tensor(-100, device="cuda"))
    mask = None if case.is_full else is_text.long()

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def measure(step: Step, rounds: int) -> tuple[float, float]:
    """Return the seconds of a step, the best round's mean, and the most memory in GiB."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    means = [seconds_of(step) for _ in range(rounds)]
    return min(means), torch.cuda.max_memory_allocated() / 2**30


def seconds_of(step: Step, *, warm: int = 5, repeats: int = 15) -> float:
    """Return the mean seconds of a step after warming up."""
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeats


def ceiling() -> float:
    """Return the operations per second of a large bf16 product of random matrices."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / seconds_of(lambda: torch.matmul(a, b))


def profile(case: Case, attention_dropout: float) -> None:
    """Print the kernels of one step, longest first."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    step = our_step(case, lengths_of(case), attention_dropout)
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    with watch(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    kernels = [event for event in seen.key_averages() if event.self_device_time_total]
    kernels.sort(key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in kernels)
    print(f"{total / 1e3:.1f} ms in kernels")
    for event in kernels[:40]:
        print(f"{event.self_device_time_total / 1e3:8.2f} ms {event.count:5d}  {event.key[:100]}")


if __name__ == "__main__":
    main()
