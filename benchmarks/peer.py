"""Fine-tuning by transformers: its Trainer, or the loop that this runs; features as its scripts do.

Features are made in advance by the fast tokenizer, batches are padded to their longest text; AdamW
(fused), a linear schedule, clipping, SDPA; bf16 on a GPU.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

Row = dict[str, Any]
IGNORED = -100  # a label that transformers passes over


@dataclass(frozen=True)
class Peer:
    """A model of transformers and how it is trained."""

    model: Any
    collate: Callable[[list[Row]], dict[str, torch.Tensor]]
    batch_size: int
    lr: float
    device: str
    weight_decay: float = 0.01


def require_transformers() -> None:
    """Stop where there is nothing to compare with."""
    if find_spec("transformers") is None:
        sys.exit("transformers is not installed; pip install transformers, and run this again")


def has_accelerate() -> bool:
    """Tell whether the Trainer can run."""
    return find_spec("accelerate") is not None


def peer_name(*, trainer: bool = True) -> str:
    """Say what the other side is."""
    import transformers

    way = "Trainer" if trainer and has_accelerate() else "the loop that its Trainer runs"
    return f"transformers {transformers.__version__}, {way}"


def run_loop(
    peer: Peer,
    features: list[Row],
    *,
    steps: int,
    after_epoch: Callable[[], None] = lambda: None,
) -> None:
    """Train as the Trainer does by default."""
    from torch.utils.data import DataLoader
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.AdamW(_groups(peer), lr=peer.lr, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps)
    on_gpu = peer.device == "cuda"
    loader = DataLoader(
        features,  # type: ignore[arg-type]
        peer.batch_size,
        shuffle=True,
        collate_fn=peer.collate,
        pin_memory=on_gpu,
    )
    done = 0
    while done < steps:
        peer.model.train()
        for batch in loader:
            moved = {key: value.to(peer.device, non_blocking=True) for key, value in batch.items()}
            with torch.autocast(peer.device, torch.bfloat16, enabled=on_gpu):
                loss = peer.model(**moved).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(peer.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done += 1
            if done == steps:
                break
        after_epoch()


def run_trainer(peer: Peer, features: list[Row], *, steps: int) -> None:
    """Train by the Trainer itself."""
    from transformers import Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            output_dir=place,
            per_device_train_batch_size=peer.batch_size,
            max_steps=steps,
            learning_rate=peer.lr,
            weight_decay=peer.weight_decay,
            warmup_steps=round(0.1 * steps),
            bf16=peer.device == "cuda",
            use_cpu=peer.device == "cpu",
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        Trainer(
            peer.model,
            arguments,
            train_dataset=features,
            data_collator=peer.collate,  # type: ignore[arg-type]
        ).train()


@torch.inference_mode()
def outputs_of(peer: Peer, features: list[Row], names: tuple[str, ...]) -> list[Any]:
    """Return what the model says of each feature, in order: a row of each named output."""
    peer.model.eval()
    rows: list[Any] = []
    for first in range(0, len(features), 64):
        batch = peer.collate(features[first : first + 64])
        moved = {key: value.to(peer.device) for key, value in batch.items()}
        with torch.autocast(peer.device, torch.bfloat16, enabled=peer.device == "cuda"):
            found = peer.model(**moved)
        rows += zip(*(found[name].float().cpu().numpy() for name in names), strict=True)
    return rows


def encode_texts(rows: list[Row], tokenizer: Any, *, longest: int) -> list[Row]:
    """Return texts or pairs, truncated."""
    second = [row.get("text_b", row.get("aspect")) for row in rows]
    pairs = [second] if second[0] is not None else []
    texts = [row["text"] for row in rows]
    found = tokenizer(texts, *pairs, truncation=True, max_length=longest)
    return _split(found, len(rows))


def encode_words(rows: list[Row], tokenizer: Any, *, longest: int) -> tuple[list[Row], list[Any]]:
    """Return texts that are cut into words, truncated, and the word that each piece belongs to."""
    words = [row["tokens"] for row in rows]
    found = tokenizer(words, is_split_into_words=True, truncation=True, max_length=longest)
    return _split(found, len(rows)), [found.word_ids(n) for n in range(len(rows))]


def encode_questions(rows: list[Row], tokenizer: Any, *, longest: int) -> list[Row]:
    """Return the windows of questions with the places of their answers."""
    found, places, owners = cut_questions(rows, tokenizer, longest=longest)
    features = _split(found, len(owners))
    for n, owner in enumerate(owners):
        answers = rows[owner]["answers"]
        span = find_span(answers[0], places[n], found.sequence_ids(n)) if answers else (0, 0)
        features[n] |= dict(zip(("start_positions", "end_positions"), span, strict=True))
    return features


def cut_questions(rows: list[Row], tokenizer: Any, *, longest: int) -> tuple[Any, Any, list[int]]:
    """Return windows, the characters of their pieces, and the question that each belongs to."""
    found = tokenizer(
        [row["question"].lstrip() for row in rows],
        [row["passage"] for row in rows],
        truncation="only_second",
        max_length=longest,
        stride=128,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    return found, found.pop("offset_mapping"), found.pop("overflow_to_sample_mapping")


def find_span(answer: Row, places: list[Any], sides: list[int | None]) -> tuple[int, int]:
    """Return the pieces of an answer in a window, or those of the first place where it is not."""
    begin, end = answer["start"], answer["start"] + len(answer["text"])
    passage = [n for n, side in enumerate(sides) if side == 1]
    inside = [n for n in passage if places[n][0] < end and places[n][1] > begin]
    is_whole = passage and places[passage[0]][0] <= begin and places[passage[-1]][1] >= end
    return (inside[0], inside[-1]) if inside and is_whole else (0, 0)


def _split(found: Any, count: int) -> list[Row]:
    names = ("input_ids", "token_type_ids", "attention_mask")
    return [{name: found[name][n] for name in names if name in found} for n in range(count)]


def _groups(peer: Peer) -> list[Row]:
    """Return the weights that decay, and biases and norms, which do not."""
    decayed, free = [], []
    for name, weights in peer.model.named_parameters():
        is_free = name.endswith(".bias") or "norm" in name.lower()
        (free if is_free else decayed).append(weights)
    return [
        {"params": decayed, "weight_decay": peer.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
