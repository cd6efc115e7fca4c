"""Encoders with decoders: the same numbers and the same answers as transformers gives."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import EncoderDecoderConfig, EncoderDecoderModel

from bertworks.core.batch import Batch
from bertworks.core.pieces import SpecialIds
from bertworks.data.packing import Features, flatten
from bertworks.interop.hugging_face import Folder, open_folder, write_folder
from bertworks.model.decoder import Decoder
from bertworks.model.encoder import Encoder
from bertworks.model.search import Search, Written, write_best
from bertworks.model.weights import load_weights

ALLOWED = 1e-5
SPECIALS = SpecialIds(pad=0, unknown=1, first=2, separator=3, mask=4)
FIRST_WORD, VOCAB_SIZE, LONGEST = 5, 61, 37
LENGTHS = (7, 3, 19, 3, 1, 30)
SHARES: dict[str, Any] = {"copied": "nothing", "shared": "all"}
STOPS: dict[Any, Any] = {False: "likely", True: "full", "never": "never"}
FAMILIES = {"bert": "Bert", "roberta": "Roberta"}


class Pair(nn.Module):
    """An encoder with a decoder, under the names that a model of the task has."""

    def __init__(self, folder: Folder) -> None:
        super().__init__()
        options = folder.tasks["generate"].options
        self.encoder = Encoder(folder.config)
        decoder = Decoder(
            folder.config,
            target="generate",
            num_layers=options["decoder_layers"],
            shares=SHARES[options["decoder"]],
        )
        self.heads = nn.ModuleDict({"generate": decoder})

    @property
    def decoder(self) -> Decoder:
        """The decoder."""
        return cast(Decoder, self.heads["generate"])

    def logits(self, batch: Batch) -> Tensor:
        """Return what follows each token of the replies."""
        return self.decoder(self.encoder(batch), batch, self.encoder)

    def answers(self, batch: Batch, search: Search) -> list[list[Written]]:
        """Return the best answers to each text."""
        read = self.encoder(batch)
        draft = self.decoder.begin(read, batch.layout, self.encoder, room=search.most)
        return write_best(draft, torch.full((batch.num_texts, 1), SPECIALS.first), search)


@pytest.fixture(scope="module")
def make_pair(roughen):
    """Make one of theirs, whose chances are far from even."""

    def make(family: str = "bert", *, seed: int = 0, **decoder: Any) -> EncoderDecoderModel:
        shape = {
            "vocab_size": VOCAB_SIZE,
            "hidden_size": 21,
            "num_attention_heads": 3,
            "num_hidden_layers": 2,
            "intermediate_size": 29,
            "max_position_embeddings": LONGEST + 4,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "pad_token_id": SPECIALS.pad,
        }
        kind = getattr(transformers, f"{FAMILIES[family]}Config")
        config = EncoderDecoderConfig.from_encoder_decoder_configs(
            kind(**shape),
            kind(**{**shape, **decoder}),
            decoder_start_token_id=SPECIALS.first,
            eos_token_id=SPECIALS.separator,
            pad_token_id=SPECIALS.pad,
        )
        return cast(EncoderDecoderModel, roughen(EncoderDecoderModel(config=config), seed=seed))

    return make


@pytest.fixture
def open_pair(tmp_path: Path):
    """Save their model and open the folder as ours."""

    def opened(theirs: EncoderDecoderModel) -> tuple[Folder, Pair]:
        theirs.save_pretrained(tmp_path / "theirs")
        folder = open_folder(tmp_path / "theirs")
        ours = Pair(folder)
        assert load_weights(ours, folder.tensors()).is_complete
        return folder, ours.eval()

    return opened


def draw_texts(lengths: Any, *, seed: int) -> list[Features]:
    random = np.random.default_rng(seed)

    def draw(length: int) -> np.ndarray:
        return random.integers(FIRST_WORD, VOCAB_SIZE, size=length)

    return [
        Features(
            draw(length),
            np.zeros(length, dtype=np.int64),
            reply=np.array([SPECIALS.first, *draw(int(random.integers(0, 9)))]),
        )
        for length in lengths
    ]


def side_by_side(rows: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    ids = torch.full((len(rows), max(map(len, rows))), SPECIALS.pad)
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = torch.from_numpy(tokens)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


@torch.no_grad()
def their_logits(theirs: EncoderDecoderModel, texts: list[Features]) -> Tensor:
    read, is_read = side_by_side([text.tokens for text in texts])
    written, is_written = side_by_side([cast(np.ndarray, text.reply) for text in texts])
    told = theirs(
        input_ids=read,
        attention_mask=is_read,
        decoder_input_ids=written,
        decoder_attention_mask=is_written,
    )
    return told.logits[is_written.bool()]


def test_logits_of_their_folder_agree_on_mixed_lengths(make_pair, open_pair, largest_gap) -> None:
    for family, layers, seed in (("bert", 2, 3), ("bert", 3, 4), ("roberta", 1, 5)):
        theirs = make_pair(family, seed=seed, num_hidden_layers=layers)
        folder, ours = open_pair(theirs)
        assert folder.model_type == "encoder-decoder"
        assert folder.config.num_layers == 2
        assert len(ours.decoder.readings) == layers
        texts = draw_texts(LENGTHS, seed=seed)
        with torch.no_grad():
            found = ours.logits(flatten(texts))
        assert largest_gap(found, their_logits(theirs, texts)) <= ALLOWED


@pytest.mark.parametrize("decoder", ["copied", "shared"])
def test_a_folder_of_ours_opens_there_and_here_again(
    tmp_path: Path, decoder: str, make_pair, open_pair, largest_gap
) -> None:
    folder, _ = open_pair(make_pair(seed=7))
    tensors = folder.tensors()
    tasks = folder.tasks
    tasks["generate"].options["decoder"] = decoder
    ours = Pair(folder).eval()
    load_weights(ours, tensors)  # where the two share them, the decoder's own are left out
    path = tmp_path / "ours"
    path.mkdir()
    weights = dict(ours.named_parameters())
    write_folder(path, folder.config, weights, tasks=tasks, specials=SPECIALS)
    texts = draw_texts(LENGTHS, seed=8)
    theirs, account = EncoderDecoderModel.from_pretrained(path, output_loading_info=True)
    assert not any(account[kind] for kind in ("missing_keys", "unexpected_keys"))
    with torch.no_grad():
        expected = ours.logits(flatten(texts))
    assert largest_gap(their_logits(theirs.eval(), texts), expected) <= ALLOWED
    again = open_folder(path)
    assert (again.config, again.tasks) == (folder.config, tasks)
    tensors = again.tensors()
    assert tensors.keys() == weights.keys()
    assert all(tensors[name].equal(weights[name]) for name in weights)


SETTINGS = [
    {"num_beams": 1},
    {"num_beams": 1, "no_repeat_ngram_size": 2, "min_new_tokens": 3},
    *(
        {"num_beams": 4, "length_penalty": penalty, "early_stopping": early}
        for penalty in (0.6, 1.0, 2.0)
        for early in (False, True, "never")
    ),
    {"num_beams": 4, "no_repeat_ngram_size": 2, "length_penalty": 0.6},
    {"num_beams": 4, "no_repeat_ngram_size": 3, "length_penalty": 2.0, "early_stopping": True},
    {"num_beams": 4, "min_new_tokens": 5, "no_repeat_ngram_size": 3, "early_stopping": "never"},
    {"num_beams": 3, "length_penalty": -0.5, "early_stopping": "never"},
]


def test_beams_choose_as_theirs_do_on_50_texts(make_pair, open_pair) -> None:
    theirs = peaked(make_pair(seed=11))
    _, ours = open_pair(theirs)
    random = np.random.default_rng(12)
    texts = draw_texts(random.integers(1, 15, size=50), seed=13)
    most, lengths = 12, []
    for setting in SETTINGS:
        expected = their_answers(theirs, texts, max_new_tokens=most, **setting)
        search = Search(
            end=SPECIALS.separator,
            most=most,
            least=setting.get("min_new_tokens", 0),
            beams=setting["num_beams"],
            length_penalty=setting.get("length_penalty", 1.0),
            no_repeat=setting.get("no_repeat_ngram_size", 0),
            stop=STOPS[setting.get("early_stopping", False)],
        )
        with torch.no_grad():
            found = ours.answers(flatten(texts), search)
        assert [best[0].tokens for best in found] == expected, setting
        lengths += map(len, expected)
    is_whole = np.array(lengths) == most
    assert 0.1 < is_whole.mean() < 0.9  # some end by themselves, others by their length


def peaked(theirs: EncoderDecoderModel) -> EncoderDecoderModel:
    """Make its choices sure, and ends neither rare nor certain."""
    head = theirs.decoder.cls.predictions
    with torch.no_grad():
        head.transform.LayerNorm.weight.mul_(3.0)
        head.bias[SPECIALS.separator] += 3.0
        for layer in theirs.decoder.bert.encoder.layer:  # so that the source matters
            layer.crossattention.output.dense.weight.mul_(4.0)
    return theirs


@torch.no_grad()
def their_answers(
    theirs: EncoderDecoderModel, texts: list[Features], **settings: Any
) -> list[list[int]]:
    read, is_read = side_by_side([text.tokens for text in texts])
    rows = theirs.generate(read, attention_mask=is_read, do_sample=False, **settings).tolist()
    ends = (row.index(SPECIALS.separator) if SPECIALS.separator in row else None for row in rows)
    return [row[1:end] for row, end in zip(rows, ends, strict=True)]
