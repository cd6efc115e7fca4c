"""What a first answer costs: time and memory of a cold command beside those of `import torch`.

    python benchmarks/cold_start.py [--model FOLDER] [--times 5]

In turn, a process imports torch, one answers one text with a tiny network, and one embeds a text
with the model of a folder. The best of some times count. Memory is the peak of the process above
that of `import torch`, beside the size of the weights; a batch comes on top, so it is measured for
a file of many texts as well. More than 1.5 times as long as `import torch` is a failure.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bertworks.core.artifact import Origin
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import save_model
from bertworks.tasks.classify import Classify
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece

LARGEST_RATIO = 1.5
WORDS = [first + second for first in ("ba", "ke", "mi", "so", "tu") for second in "lnrstz"]
PEAK = "import atexit, resource, sys; atexit.register(lambda: sys.stderr.write('peak ' + str("
PEAK += "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)));"
TORCH = PEAK + "import torch"
COMMAND = PEAK + "from bertworks.cli.main import main; main()"


def main() -> None:
    """Print times and memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a model; by default one is drawn")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_drawn_model(folder / "tiny", hidden_size=32, num_layers=1)
        if options.model is None:
            save_drawn_model(folder / "drawn", hidden_size=768, num_layers=6)
        report(folder, options.model or folder / "drawn", options.times)


def report(folder: Path, model: Path, times: int) -> None:
    """Run the cases in turn and print what they cost."""
    one, many = write_texts(folder / "one.jsonl", 1), write_texts(folder / "many.jsonl", 2000)
    tiny, wanted = str(folder / "tiny"), str(model)
    cases = {
        "import torch": [TORCH],
        "predict, tiny model": [COMMAND, "predict", "--model", tiny, "--data", one],
        "embed, one text": [COMMAND, "embed", "--model", wanted, "--data", one],
    }
    found = {name: [run(words) for words in [words] * times] for name, words in cases.items()}
    found["embed, 2000 texts"] = [run([COMMAND, "embed", "--model", wanted, "--data", many])]
    weights = sum(file.stat().st_size for file in model.rglob("*.safetensors")) / 2**20
    least = {name: min(seconds for seconds, _ in runs) for name, runs in found.items()}
    peaks = {name: max(peak for _, peak in runs) for name, runs in found.items()}
    print(f"weights of {model.name}: {weights:.0f} MB")
    for name in found:
        ratio = least[name] / least["import torch"]
        above = peaks[name] - peaks["import torch"]
        print(f"{name:22}{least[name]:7.2f} s {ratio:6.2f}x {above:8.0f} MB above import torch")
    ratio = least["predict, tiny model"] / least["import torch"]
    if ratio > LARGEST_RATIO:
        sys.exit(f"a first answer takes {ratio:.2f} times as long as importing torch")


def run(words: list[str]) -> tuple[float, float]:
    """Return the seconds and the peak MB of a process."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", *words], check=True, capture_output=True)
    seconds = time.perf_counter() - started
    return seconds, int(done.stderr.split()[-1]) / 1024


def write_texts(file: Path, count: int) -> str:
    """Write drawn texts, most of them short."""
    chance = random.Random(7)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(3, 40))) for _ in range(count)]
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(file)


def save_drawn_model(folder: Path, *, hidden_size: int, num_layers: int) -> None:
    """Save a classifier with drawn weights."""
    tokenizer = learn_wordpiece(lambda: [" ".join(WORDS)] * 3, size=300, cased=False)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=hidden_size, num_layers=num_layers,
        num_heads=2, feed_forward_size=4 * hidden_size, max_positions=128,
    )  # fmt: skip
    model = TaskModel(config, [Classify(("a", "b"))], seed=3)
    save_model(folder, model, tokenizer, origin=Origin())


if __name__ == "__main__":
    main()
