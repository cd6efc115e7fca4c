"""Vectors of texts, against sentence-transformers, plain ONNX Runtime and OpenVINO.

    python benchmarks/inference_speed.py --model minilm --data ../shared/data
    python benchmarks/inference_speed.py --model minilm --device cuda [--base]

1,000 texts of mixed length (sentences of news from MRPC, every fortieth a film review that is cut
after 256 pieces), then short ones (STS-B) and long ones (reviews) apart. Ours and those of
sentence-transformers begin with the text; plain ONNX Runtime and OpenVINO get pieces that are cut
beforehand, sorted by length, 32 texts at a time. The plain graphs are what torch exports of
transformers' network, and what onnxruntime's own dynamic quantization makes of it. OpenVINO by
itself computes in bf16 where the CPU can, so it is asked for fp32 too. Sides take turns; the best
round counts. All vectors are compared with those of sentence-transformers, and STS-B's dev pairs
are scored by each of ours. Then one text at a time.

On a GPU both sides compute in bf16 and read each text 20 times; `--base` gives both an untrained
network of BERT-base's shape with the model's tokenizer.
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bertworks
from bertworks.core.device import Precision, cpu_runs_bf16
from bertworks.core.progress import mute
from bertworks.core.quarantine import Quarantine
from bertworks.evaluation.suite_data import gather
from bertworks.evaluation.suites import GLUE, TOPICS
from bertworks.stages.export import run as export
from bertworks.stages.setting_groups import OnnxSettings
from bertworks.stages.settings import ExportSettings
from bertworks.tasks.catalog import KINDS

Side = Callable[[list[str]], np.ndarray]
NUM_TEXTS, LONGEST, BATCH = 1000, 256, 32
GPU_COPIES = 20


def main() -> None:
    """Print a table of rates, one of latencies and one of exactness."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="sentence-transformers folder")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--base", action="store_true", help="an untrained BERT-base instead")
    asked = parser.parse_args()
    mute()
    warnings.simplefilter("ignore")  # torch's exporter has many
    torch.set_num_threads(asked.threads)
    with tempfile.TemporaryDirectory() as folder:
        model = untrained_base(asked.model, Path(folder) / "base") if asked.base else asked.model
        sides = (on_cpu if asked.device == "cpu" else on_gpu)(model, Path(folder), asked)
        copies = 1 if asked.device == "cpu" else GPU_COPIES
        texts = {name: copies * own for name, own in make_texts(asked.data).items()}
        for name, own in texts.items():
            rates(name, own, sides, asked.rounds)
        latencies(texts["mixed"][:200], sides)
        exactness(asked.data, sides)


def on_cpu(model: Path, folder: Path, asked: argparse.Namespace) -> dict[str, Side]:
    """Return what is compared on a CPU."""
    peer = sentence_transformers(model, device="cpu")
    plain = plain_sides(model, folder, asked.threads)
    return {"sentence-transformers": peer, **plain, **our_sides(model, folder, asked)}


def on_gpu(model: Path, folder: Path, asked: argparse.Namespace) -> dict[str, Side]:
    """Return what is compared on a GPU, in bf16."""
    ours = bertworks.load(model, device="cuda", precision="bf16")
    return {
        "sentence-transformers": sentence_transformers(
            model, device="cuda", model_kwargs={"dtype": torch.bfloat16}
        ),
        "bertworks, torch bf16": lambda texts: ours.embed(texts, max_length=LONGEST),
    }


def untrained_base(model: Path, folder: Path) -> Path:
    """Write an untrained network of BERT-base's shape with another model's tokenizer."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    AutoTokenizer.from_pretrained(model, local_files_only=True).save_pretrained(folder)
    torch.manual_seed(0)
    BertModel(BertConfig()).save_pretrained(folder)
    return folder


def make_texts(data: Path) -> dict[str, list[str]]:
    """Return mixed, short and long texts."""
    short = list(dict.fromkeys(e.text for e in read(data, "stsb", "train")))[:NUM_TEXTS]
    news = list(dict.fromkeys(e.text for e in read(data, "mrpc", "train")))
    reviews = [e.text for e in read(data, "imdb", "train")]
    mixed = [reviews[at // 40] if at % 40 == 0 else news[at] for at in range(NUM_TEXTS)]
    return {"mixed": mixed, "short": short, "long": reviews[: NUM_TEXTS // 10]}


def read(data: Path, name: str, part: str) -> list:
    """Return the examples of a public set."""
    task = {**GLUE, **TOPICS}[name]
    form = KINDS[task.kind or "classify"].form
    return gather(task, form, data=data, quarantine=Quarantine())[part]


def our_sides(model: Path, folder: Path, asked: argparse.Namespace) -> dict[str, Side]:
    """Return our predictor on each backend; int8 is chosen on texts that are not measured."""
    threads, texts = asked.threads, folder / "texts.jsonl"
    lines = (json.dumps({"text": example.text_b}) for example in read(asked.data, "mrpc", "train"))
    texts.write_text("\n".join(islice(lines, 300)))
    precisions: list[Precision] = ["fp32", "bf16"] if cpu_runs_bf16() else ["fp32"]
    sides = {
        f"bertworks, torch {precision}": bertworks.load(
            model, threads=threads, backend="torch", precision=precision
        ).embed
        for precision in precisions
    }
    for precision in ("fp32", "int8"):
        out = folder / precision
        how = OnnxSettings(precision=precision, data=texts)
        export(ExportSettings(model=model, to="onnx", onnx=how, out=out))
        opened = bertworks.load(out, threads=threads, backend="onnx")
        sides[f"bertworks, onnx {precision}"] = opened.embed
    return sides


def sentence_transformers(model: Path, **how: Any) -> Side:
    """Return the peer as it comes; without a recipe of its own it takes the mean, as ours do."""
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(model), local_files_only=True, **how)
    peer.max_seq_length = LONGEST
    return lambda texts: peer.encode(
        texts, batch_size=BATCH, show_progress_bar=False, normalize_embeddings=True
    )


def plain_sides(model: Path, folder: Path, threads: int) -> dict[str, Side]:
    """Return other runtimes on the graph that torch exports."""
    from onnxruntime import InferenceSession, SessionOptions
    from onnxruntime.quantization import quantize_dynamic
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    plain, small = folder / "plain.onnx", folder / "plain-int8.onnx"
    export_plainly(model, plain)
    quantize_dynamic(plain, small)
    options = SessionOptions()
    options.intra_op_num_threads = threads
    sides = {}
    for name, file in (("fp32", plain), ("int8", small)):
        session = InferenceSession(file, options, providers=["CPUExecutionProvider"])
        run = lambda given, session=session: session.run(None, given)[0]  # noqa: E731
        sides[f"ONNX Runtime {name}, cut before"] = on_rectangles(run, tokenizer)
    try:
        import openvino
    except ImportError:
        return sides
    how = {"INFERENCE_NUM_THREADS": threads}
    wanted = {"as it comes": {}, "fp32": {"INFERENCE_PRECISION_HINT": "f32"}}
    for name, hints in wanted.items():
        network = openvino.Core().compile_model(openvino.convert_model(plain), "CPU", how | hints)
        run = lambda given, network=network: network(given)[0]  # noqa: E731
        sides[f"OpenVINO {name}, cut before"] = on_rectangles(run, tokenizer)
    return sides


def export_plainly(model: Path, file: Path) -> None:
    """Export transformers' network as its users do."""
    from transformers import AutoModel

    network = AutoModel.from_pretrained(model, local_files_only=True, attn_implementation="eager")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = {name: torch.ones(2, 8, dtype=torch.long) for name in names}
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=512)}
    network.config.return_dict = False
    torch.onnx.export(
        network.eval(), (), str(file), kwargs=example, input_names=names,
        output_names=["last_hidden_state"], dynamo=True, external_data=False,
        dynamic_shapes=dict.fromkeys(names, axes), verbose=False,
    )  # fmt: skip


def on_rectangles(run: Callable, tokenizer: Callable) -> Side:
    """Return a side that reads 32 texts of like length at a time; cutting is done once."""
    cut: dict[int, list] = {}

    def batches(texts: list[str]) -> list:
        order = np.argsort([len(text) for text in texts])
        parts = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
        return [
            (part, dict(tokenizer([texts[place] for place in part], truncation=True, padding=True,
                                  max_length=LONGEST, return_tensors="np")))
            for part in parts
        ]  # fmt: skip

    def side(texts: list[str]) -> np.ndarray:
        if id(texts) not in cut:
            cut[id(texts)] = batches(texts)
        rows = []
        for _, given in cut[id(texts)]:
            hidden, mask = run(given), given["attention_mask"][:, :, None]
            mean = (hidden * mask).sum(1) / mask.sum(1)
            rows.append(mean / np.linalg.norm(mean, axis=1, keepdims=True))
        places = np.concatenate([part for part, _ in cut[id(texts)]])
        return np.concatenate(rows)[np.argsort(places)]

    return side


def rates(name: str, texts: list[str], sides: dict[str, Side], rounds: int) -> None:
    """Print how many texts a second each side reads."""
    best, first = dict.fromkeys(sides, float("inf")), {}
    for side in sides:
        first[side] = sides[side](texts)
    for _ in range(rounds):
        for side, embed in sides.items():
            started = time.perf_counter()
            embed(texts)
            best[side] = min(best[side], time.perf_counter() - started)
    base = best["sentence-transformers"]
    print(f"\n{name}: {len(texts)} texts\n{'':34}{'texts/s':>9}{'ratio':>8}{'mean cosine':>13}")
    for side, seconds in best.items():
        cosine = float((first[side] * first["sentence-transformers"]).sum(1).mean())
        print(f"{side:34}{len(texts) / seconds:>9.0f}{base / seconds:>7.2f}x{cosine:>13.5f}")


def latencies(texts: Sequence[str], sides: dict[str, Side]) -> None:
    """Print how long one text takes, text by text."""
    print(f"\none text at a time\n{'':34}{'p50 ms':>9}{'p99 ms':>9}")
    for name, embed in sides.items():
        if "cut before" in name:
            continue
        took = []
        for text in texts:
            started = time.perf_counter()
            embed([text])
            took.append(1e3 * (time.perf_counter() - started))
        print(f"{name:34}{np.percentile(took, 50):>9.1f}{np.percentile(took, 99):>9.1f}")


def exactness(data: Path, sides: dict[str, Side]) -> None:
    """Print how well cosines order the pairs of STS-B's dev set."""
    from scipy.stats import spearmanr

    pairs = read(data, "stsb", "dev")
    print(f"\nSTS-B dev, Spearman of cosines with gold, {len(pairs)} pairs")
    for name, embed in sides.items():
        if "cut before" in name:
            continue
        a, b = embed([p.text for p in pairs]), embed([p.text_b for p in pairs])
        found = spearmanr((a * b).sum(1), [p.score for p in pairs])
        print(f"{name:34}{found.statistic:>9.4f}")


if __name__ == "__main__":
    main()
