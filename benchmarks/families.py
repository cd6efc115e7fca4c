"""Every family on the CPU: tokens per second against transformers, and how fast weights load.

    python benchmarks/families.py [--families bert albert ...]

Each family's base network with random weights reads the same texts of natural lengths in batches of
16: transformers padded to the longest of each batch, first as the texts come and then sorted by
length; bertworks by its own way (like lengths together, a token budget, no padding). The first
tokens' vectors of both sides are compared. The sides take turns in one process; the best round
counts. Loading (tokenizer and weights) is measured in processes of its own: a BERT-base folder of
some 400 MB, the seconds of the call, those of a first short text, and the memory at its peak beyond
what the process held before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from inference import best_of, make_sides, make_texts

from bertworks.core.device import prepare
from bertworks.tokenizer.engines import wordpiece_engine
from bertworks.tokenizer.tokenizer import Tokenizer

FAMILIES = {
    "bert": transformers.BertConfig(),
    "roberta": transformers.RobertaConfig(
        vocab_size=50265, max_position_embeddings=514, type_vocab_size=1
    ),
    "distilbert": transformers.DistilBertConfig(),
    "albert": transformers.AlbertConfig(
        hidden_size=768, num_attention_heads=12, intermediate_size=3072
    ),
    "electra": transformers.ElectraConfig(
        embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072
    ),
    "mpnet": transformers.MPNetConfig(vocab_size=30527, max_position_embeddings=514),
    "modernbert": transformers.ModernBertConfig(),
}
NUM_TEXTS, LONGEST, BATCH_SIZE, ROUNDS = 32, 256, 16, 2


def main() -> None:
    """Print both sides of every family and their ratios, then the loading."""
    prepare("cpu")
    transformers.logging.set_verbosity_error()
    texts = make_texts(NUM_TEXTS, LONGEST)
    print(f"{len(texts)} texts, {sum(map(len, texts)):,} tokens, {torch.get_num_threads()} threads")
    print("family       transformers   …sorted   bertworks  speed-up  …sorted  difference")
    for name in parse().families:
        torch.manual_seed(0)
        model = transformers.AutoModel.from_config(FAMILIES[name]).eval()  # its fastest attention
        theirs, ours = make_sides(model, batch_size=BATCH_SIZE)
        by_length = sorted(texts, key=len)
        cases = [(theirs, texts), (theirs, by_length), (ours, texts)]
        difference = np.abs(theirs(texts) - ours(texts)).max()
        plain, sorted_, own = (sum(map(len, texts)) / seconds for seconds in best_of(ROUNDS, cases))
        print(
            f"{name:12} {plain:10,.0f}/s {sorted_:7,.0f}/s {own:9,.0f}/s "
            f"{own / plain:8.2f}x {own / sorted_:7.2f}x  {difference:.1e}",
            flush=True,
        )
    _loading()


def parse() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=FAMILIES)
    return parser.parse_args()


LOADERS = {
    "transformers": """
from transformers import AutoTokenizer, BertModel
load = lambda path: (AutoTokenizer.from_pretrained(path), BertModel.from_pretrained(path))
read = lambda opened: opened[1](**opened[0]("w1 w2 w3", return_tensors="pt"))
""",
    "bertworks": """
from pathlib import Path
from bertworks.core.device import prepare
from bertworks.serving.model_folder import open_model
from bertworks.serving.predictor import Predictor
machine = prepare("cpu")
load = lambda path: open_model(Path(path))
read = lambda opened: Predictor(opened, machine).embed(["w1 w2 w3"])
""",
}
# The peak is read from the kernel, which is told to forget the one before.
TRIAL = """
import json, sys, time
def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
started = time.perf_counter()
opened = load(sys.argv[1])
loaded, peak = time.perf_counter() - started, status("VmHWM")
read(opened)
read_too = time.perf_counter() - started
print(json.dumps([loaded, read_too, *((kb - before) * 1024 for kb in (peak, status("VmHWM")))]))
"""


def _loading() -> None:
    with tempfile.TemporaryDirectory() as folder:
        size = _write_model(Path(folder))
        print(
            f"\nfolder of {size / 1e6:.0f} MB   loaded  and a text read   peak memory / file, each"
        )
        best = {}
        for name, code in LOADERS.items():
            command = [sys.executable, "-c", code + TRIAL, folder]
            trials = [json.loads(_output(command).splitlines()[-1]) for _ in range(5)]
            best[name] = [min(values) for values in zip(*trials, strict=True)]
            loaded, read, *peaks = best[name]
            shares = "   ".join(f"{peak / size:.2f}" for peak in peaks)
            print(f"{name:18} {loaded:6.2f} s {read:14.2f} s   {shares}", flush=True)
        ratios = [a / b for a, b in zip(best["bertworks"], best["transformers"], strict=True)]
        print(
            f"bertworks takes {ratios[0]:.2f} of transformers' time, {ratios[1]:.2f} with the text"
        )


def _write_model(folder: Path) -> int:
    transformers.BertModel(FAMILIES["bert"]).save_pretrained(folder)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(30_517))]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    Tokenizer(wordpiece_engine(vocabulary, cased=False)).save(folder)
    return (folder / "model.safetensors").stat().st_size


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
