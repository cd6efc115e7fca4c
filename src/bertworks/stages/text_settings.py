"""The settings of the commands that read raw text, or make and change vocabularies."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bertworks.core.settings import ModelFolder
from bertworks.stages.setting_groups import Count, FilterSettings, Places, Share, WholeShare


@dataclass(frozen=True, kw_only=True)
class CleanSettings:
    """Repair, filter and deduplicate raw text."""

    text: tuple[Path, ...] = field(kw_only=False)
    """Files or folders: .txt, .jsonl, .parquet, wiki dumps and extracts, also compressed."""
    out: Path
    """Folder to write the documents to."""
    column: str = "text"
    """Which key or column of .jsonl and .parquet holds the text."""
    whole_files: bool = False
    """Take each plain text file as one document, blank lines and all."""
    form: Literal["NFC", "NFKC"] = "NFC"
    """Unicode normal form; NFKC also folds full-width letters, ligatures and the like."""
    mojibake: bool = False
    """Mend text that was decoded in a wrong encoding; needs the extra corpus."""
    filters: FilterSettings = FilterSettings()
    similarity: WholeShare = 0.8
    """Drop documents that share so much with an earlier one; 1 drops only exact copies."""
    permutations: Places = 128
    """Places of a signature: more estimate likeness better and take longer."""
    workers: Count | None = None
    """Processes that clean, by default one per core; the result does not depend on it."""
    resume: Literal["never", "auto"] = "never"
    """auto continues what a kill left unfinished, exactly."""


@dataclass(frozen=True, kw_only=True)
class LearnVocabSettings:
    """Learn a vocabulary from text."""

    text: tuple[Path, ...] = field(kw_only=False)
    """Files or folders: .txt, .jsonl, .parquet, wiki dumps, also compressed; or from clean."""
    out: Path
    """Folder to write the tokenizer to."""
    size: Count = 30_000
    """Number of pieces, special ones counted."""
    kind: Literal["wordpiece", "byte-bpe", "unigram"] = "wordpiece"
    """How words are cut into pieces: as in BERT, RoBERTa or ALBERT."""
    cased: bool = False
    """Keep capital letters and accents."""
    min_count: Count = 2
    """Pieces seen less often are not made; unigram knows only the default."""


@dataclass(frozen=True, kw_only=True)
class InspectVocabSettings:
    """Tell how well a vocabulary suits a text."""

    text: tuple[Path, ...] = field(kw_only=False)
    """Files or folders: .txt, .jsonl, .parquet, wiki dumps, also compressed; or from clean."""
    tokenizer: ModelFolder
    """Folder that learn-vocab wrote, or any model folder."""
    out: Path | None = None
    """Folder to write the report to, with the list of unused pieces; by default none is written."""


@dataclass(frozen=True, kw_only=True)
class ExtendVocabSettings:
    """Add words of a domain to a model; each starts as the mean of its pieces."""

    model: ModelFolder
    """Folder of a model, ours or Hugging Face's."""
    out: Path
    """Folder to write the larger model to."""
    words: tuple[str, ...] = ()
    """Words to add; quote one that has a space in it."""
    words_file: Path | None = None
    """File with a word on each line, also compressed."""


@dataclass(frozen=True, kw_only=True)
class ShrinkVocabSettings:
    """Keep only the pieces that a text uses; what the model says of that text stays the same."""

    text: tuple[Path, ...] = field(kw_only=False)
    """Files or folders: .txt, .jsonl, .parquet, wiki dumps, also compressed; or from clean."""
    model: ModelFolder
    """Folder of a model, ours or Hugging Face's."""
    out: Path
    """Folder to write the smaller model to."""


@dataclass(frozen=True, kw_only=True)
class TokenizeSettings:
    """Turn text into token shards."""

    text: tuple[Path, ...] = field(kw_only=False)
    """Files or folders: .txt, .jsonl, .parquet, wiki dumps, also compressed; or from clean."""
    tokenizer: ModelFolder
    """Folder that learn-vocab wrote, or any model folder."""
    out: Path
    """Folder to write the shards to."""
    words: Literal["text", "zh", "pieces"] = "text"
    """How words are found: in the text, where each Chinese character is one; there, but with a
    segmenter for Chinese; or as the pieces of a BERT tell them."""
    held_out: Share = 0.02
    """Share of the documents that is kept for evaluation, chosen by their text."""
    workers: Count | None = None
    """Processes that tokenize, by default one per core; the result does not depend on it."""
    resume: Literal["never", "auto"] = "never"
    """auto continues what a kill left unfinished, exactly."""


@dataclass(frozen=True, kw_only=True)
class PairsSettings:
    """Take texts that belong together from documents, to learn vectors from."""

    text: tuple[Path, ...] = field(kw_only=False)
    """Files or folders: .txt, .jsonl, .parquet, wiki dumps, also compressed; or from clean."""
    out: Path
    """Folder to write the rows to."""
    kind: Literal["neighbours", "context", "sentences"] = "neighbours"
    """What is taken: neighbours, two sentences in a row; context, a sentence and those around it;
    or sentences, each alone."""
    per_document: Count = 4
    """Most rows of one document, drawn by chance."""
    shortest: Count = 5
    """Fewest words of a sentence; in Chinese, characters."""
    longest: Count = 60
    """Most words of a sentence."""
    seed: int = 0
    """Seed of every random choice."""
