"""One long text through a ModernBERT-base: seconds and memory, against transformers.

    python benchmarks/long_texts.py

A network with random weights and ModernBERT's window reads one text of 1,024 to 8,192 tokens; once
as published (every third layer sees the whole text), once with local attention in every layer. Each
case runs in a process of its own, which reports the seconds of the second reading and the memory at
its peak beyond what it held before.
"""

import json
import subprocess
import sys

LENGTHS = (1024, 2048, 4096, 8192)
START = """
import json, sys, time, torch
def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
length = int(sys.argv[1])
tokens = torch.randint(1000, 30000, (length,), generator=torch.Generator().manual_seed(0))
"""
SIDES = {
    "transformers": """
from transformers import ModernBertConfig, ModernBertModel
model = ModernBertModel(ModernBertConfig(attn_implementation="sdpa")).eval()
read = lambda: model(input_ids=tokens[None])
""",
    "bertworks": """
from bertworks.data.packing import Features, flatten
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Encoder, initialize
model = Encoder(EncoderConfig.named("modernbert-base")).eval()
initialize(model, seed=0)
batch = flatten([Features(tokens.numpy(), tokens.numpy() * 0)])
read = lambda: model(batch)
""",
    "bertworks, all layers local": """
from dataclasses import replace
from bertworks.data.packing import Features, flatten
from bertworks.model.config import EncoderConfig, Local
from bertworks.model.encoder import Encoder, initialize
config = replace(EncoderConfig.named("modernbert-base"), local=Local(window=64))
model = Encoder(config).eval()
initialize(model, seed=0)
batch = flatten([Features(tokens.numpy(), tokens.numpy() * 0)])
read = lambda: model(batch)
""",
}
END = """
with torch.inference_mode():
    read()
    before = status("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    started = time.perf_counter()
    read()
    seconds = time.perf_counter() - started
print(json.dumps([seconds, (status("VmHWM") - before) / 1024]))
"""


def main() -> None:
    """Print seconds and megabytes of every side at every length."""
    print("side                           tokens   seconds   memory")
    for side, code in SIDES.items():
        for length in LENGTHS:
            command = [sys.executable, "-c", START + code + END, str(length)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
            print(f"{side:28} {length:8,} {seconds:9.2f} {megabytes:6,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
