"""Text to pieces and back, over the `tokenizers` library."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from tokenizers import Encoding, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine

from bertworks.core.errors import ArtifactError
from bertworks.core.pieces import SpecialIds

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"


def wordpiece_engine(vocabulary: dict[str, int], *, cased: bool) -> Engine:
    """Build BERT's WordPiece: clean, split Chinese characters, fold case and accents if uncased."""
    engine = Engine(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=not cased
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix=CONTINUATION)
    # A special piece written in a text, such as [MASK], stands for itself.
    engine.add_special_tokens(list(SPECIAL_PIECES))
    # Not used here, where batches are built; other readers of `tokenizer.json` rely on it.
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(piece, engine.token_to_id(piece)) for piece in ("[CLS]", "[SEP]")],
    )
    return engine


class Tokenizer:
    """A vocabulary and the rules that cut text into its pieces."""

    def __init__(self, engine: Engine) -> None:
        engine.no_padding()
        engine.no_truncation()
        self.engine = engine
        self.specials = SpecialIds(
            **dict(
                zip(
                    ("pad", "unknown", "first", "separator", "mask"),
                    map(self._special_id, SPECIAL_PIECES),
                    strict=True,
                )
            )
        )

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the tokenizer of a folder: `tokenizer.json`, or a bare `vocab.txt`."""
        if not folder.is_dir():
            raise ArtifactError(f"there is no folder {folder}; check the path")
        try:
            settings = _read_json(folder / "tokenizer_config.json")
            if (folder / "tokenizer.json").is_file():
                engine = Engine.from_file(str(folder / "tokenizer.json"))
            elif (folder / "vocab.txt").is_file():
                text = (folder / "vocab.txt").read_text(encoding="utf-8")
                # Some vocabularies hold pieces that `splitlines` takes for ends of lines.
                lines = text.removesuffix("\n").split("\n")
                vocabulary = {piece: index for index, piece in enumerate(lines)}
                engine = wordpiece_engine(vocabulary, cased=not settings.get("do_lower_case", True))
            else:
                raise ArtifactError(f"{folder} holds no tokenizer (tokenizer.json or vocab.txt)")
        except ArtifactError:
            raise
        except Exception as error:  # the library raises bare exceptions
            raise ArtifactError(f"the tokenizer in {folder} cannot be read: {error}") from error
        return cls(engine)

    def save(self, folder: Path, *, max_length: int | None = None) -> None:
        """Write the files by which this and other libraries open the tokenizer.

        `max_length` tells others how many pieces the network reads; we read longer texts too.
        """
        text = self.engine.to_str(pretty=True)  # the library's own saving hides a full disk
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        pieces = sorted(self.engine.get_vocab().items(), key=lambda item: item[1])
        (folder / "vocab.txt").write_text("".join(f"{p}\n" for p, _ in pieces), encoding="utf-8")
        settings = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.is_uncased,
            "unk_token": "[UNK]",
            "sep_token": "[SEP]",
            "pad_token": "[PAD]",
            "cls_token": "[CLS]",
            "mask_token": "[MASK]",
            **({} if max_length is None else {"model_max_length": max_length}),
        }
        text = json.dumps(settings, indent=1)
        (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")

    @property
    def vocab_size(self) -> int:
        """The number of pieces."""
        return self.engine.get_vocab_size()

    @property
    def is_uncased(self) -> bool:
        """Whether capital letters are folded."""
        return bool(getattr(self.engine.normalizer, "lowercase", False))

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of each text, without special pieces."""
        found = self.engine.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def encode(self, text: str) -> Encoding:
        """Return ids and character offsets of one text, without special pieces."""
        return self.engine.encode(text, add_special_tokens=False)

    def piece(self, index: int) -> str:
        """Return one piece as it stands in the vocabulary."""
        return self.engine.id_to_token(index) or SPECIAL_PIECES[1]

    def text_of(self, ids: Sequence[int]) -> str:
        """Put pieces together again."""
        return self.engine.decode(list(ids), skip_special_tokens=True)

    def word_starts(self) -> np.ndarray:
        """Tell for each piece of the vocabulary whether it begins a word, [V] bool."""
        starts = np.ones(self.vocab_size, dtype=bool)
        for piece, index in self.engine.get_vocab().items():
            starts[index] = not piece.startswith(CONTINUATION)
        return starts

    def _special_id(self, piece: str) -> int:
        index = self.engine.token_to_id(piece)
        if index is None:
            raise ArtifactError(f"the vocabulary has no {piece}; learn it again with learn-vocab")
        return index


def _read_json(path: Path) -> dict[str, object]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
