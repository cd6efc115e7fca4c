"""How much memory answering takes: of the network, of one batch, of a stream of texts.

    python benchmarks/inference_memory.py --model minilm [--onnx FOLDER ...] [--texts 2000]

Each case is a process of its own. A stage's peak is what the process has held at most up to its
end, above what it held when torch was imported, and for ONNX Runtime that as well:

- opened: the model was loaded;
- one text: a short one was embedded;
- one batch: texts of 128 pieces that fill one batch were embedded;
- many: texts of mixed length followed, in chunks as `embed` reads them.

What one batch must hold at once is also counted: the inputs, and where a block is widest, its
residual, its normed vectors, and the inner vectors before and after the bend. The limit is 1.5
times the weights and that batch. More is told, and is a failure with `--strict`.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT = 1.5
LENGTH = 128
STAGES = ("opened", "one text", "one batch", "many")


def main() -> None:
    """Run each backend in a child and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--onnx", type=Path, nargs="*", default=[], help="folders of export")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--child", choices=("torch", "onnx"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measure(asked.model, asked.child, asked.texts)))
        return
    sides = [("torch", asked.model), *(("onnx", folder) for folder in asked.onnx)]
    heads = "".join(f"{stage:>11}" for stage in STAGES)
    print(
        f"peak MB above the imports\n{'':24}{'imports':>9}{heads}{'weights':>9}{'batch':>7}  limit"
    )
    found = [report(backend, folder, asked.texts) for backend, folder in sides]
    if asked.strict and not all(found):
        sys.exit("answering takes more memory than 1.5 times the weights and one batch")


def report(backend: str, folder: Path, num_texts: int) -> bool:
    """Print what one backend takes; return whether it keeps to the limit."""
    words = [sys.executable, __file__, "--model", str(folder), "--child", backend]
    words += ["--texts", str(num_texts)]
    told = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    weights = weights_of(folder, backend)
    limit = LIMIT * weights + told["batch"]
    peaks = "".join(f"{told[stage]:>11.0f}" for stage in STAGES)
    name = f"{backend}, {folder.name}"
    kept = told["many"] <= limit
    verdict = "kept" if kept else f"{told['many'] / limit:.2f}x"
    print(f"{name:24}{told['imports']:>9.0f}{peaks}{weights:>9.0f}{told['batch']:>7.0f}"
          f"  {limit:.0f}: {verdict}", flush=True)  # fmt: skip
    return kept


def weights_of(folder: Path, backend: str) -> float:
    """Return the MB of the file that the backend computes with."""
    names = "*.safetensors" if backend == "torch" else "*.onnx"
    return sum(file.stat().st_size for file in folder.rglob(names)) / 2**20


def measure(folder: Path, backend: str, num_texts: int) -> dict[str, float]:
    """Return the peaks of this process after each stage."""
    import torch  # noqa: F401

    if backend == "onnx":
        import onnxruntime  # noqa: F401
    imports = peak()
    import bertworks
    from bertworks.core.progress import mute

    mute()
    model = bertworks.load(folder, device="cpu", backend=backend)  # type: ignore[arg-type]
    told = {"imports": imports, "opened": peak() - imports}
    known = map(model.tokenizer.piece, range(model.tokenizer.vocab_size))
    words = [piece for piece in known if piece.isalpha() and piece.isascii()]
    chance = random.Random(7)
    model.embed(["a river"])
    told["one text"] = peak() - imports
    budget = tokens_at_once(model, backend)
    model.embed([" ".join(chance.choices(words, k=LENGTH - 2)) for _ in range(budget // LENGTH)])
    told["one batch"] = peak() - imports
    texts = [" ".join(chance.choices(words, k=length(chance))) for _ in range(num_texts)]
    for _ in model.embed_chunks(texts[at : at + 1024] for at in range(0, num_texts, 1024)):
        pass
    return told | {"many": peak() - imports, "batch": batch_bytes(model, budget) / 2**20}


def length(chance: random.Random) -> int:
    """Draw how many words a text has: most are short, every fortieth is long."""
    return chance.randint(3, 40) if chance.random() < 0.975 else 254


def tokens_at_once(model: Any, backend: str) -> int:
    """Return how many tokens go through the network at once."""
    from bertworks.serving.onnx_encoder import RECTANGLE

    return RECTANGLE if backend == "onnx" else model.machine.batch_tokens


def batch_bytes(model: Any, tokens: int) -> int:
    """Return what one batch must hold where a block is widest, in single precision."""
    config = model.model.config
    inner = config.feed_forward_size * (3 if config.gated else 2)
    inputs = 3 * 8 * tokens
    return inputs + 4 * tokens * (2 * config.hidden_size + inner)


def peak() -> float:
    """Return the most memory that this process has held so far, in MB."""
    told = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in told if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
