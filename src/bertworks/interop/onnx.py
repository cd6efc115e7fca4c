"""ONNX files: an encoder and what stands behind it as one graph, and whose weights it holds."""

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from bertworks.core import __version__
from bertworks.core.artifact import MANIFEST, read_manifest, sha256_of
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.optional import import_optional
from bertworks.interop.onnx_graph import FASTER, FUSED, FUSED_OPSET, IR, OPSET, Graph, Operators
from bertworks.interop.onnx_network import NetworkWriter, input_names
from bertworks.interop.onnx_outputs import (
    ENDS,
    HEAD,
    HIDDEN,
    LOGITS,
    STARTS,
    VECTOR,
    Head,
    OutputWriter,
)
from bertworks.model.config import EncoderConfig
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.model.encoder import Encoder
from bertworks.model.weights import WEIGHTS

FILE = Path("onnx") / "model.onnx"
REPORT = "report.json"  # how the file was made and compared
OWNER = "bertworks.weights"  # the key under which a file says whose weights it holds
SLOWING = ["SkipLayerNormFusion"]  # what the runtime would do to a graph, to its harm
LAST_BYTES = 4096  # of a file, where it tells what it is
MOST_BYTES = 2**31 - 2**20  # that one file can hold
AXES = {
    HIDDEN: ("batch", "length", "width"),
    VECTOR: ("batch", "width"),
    STARTS: ("batch", "length"),
    ENDS: ("batch", "length"),
}


@dataclass(frozen=True, kw_only=True)
class OnnxPlan:
    """What is written into an ONNX file beside the encoder, and how."""

    operators: Operators = "fused"
    faster: Set[str] = FASTER  # which of the fused operators are used
    int8: Set[str] = frozenset()  # the linear layers that become whole numbers
    recipe: EmbeddingRecipe | None = None
    head: Head | None = None


def write_onnx(file: Path, encoder: Encoder, plan: OnnxPlan, *, owner: str) -> None:
    """Write an encoder as an ONNX file; `owner` is the sha256 of the weights' own file."""
    model = make_onnx(encoder, plan, owner=owner)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(model.SerializeToString())


def make_onnx(encoder: Encoder, plan: OnnxPlan, *, owner: str = "") -> Any:
    """Return the ONNX model of an encoder."""
    how: dict[str, Any] = {"faster": plan.faster, "int8": plan.int8}
    graph = Graph(_weights(encoder, plan), operators=plan.operators, **how)
    hidden = NetworkWriter(graph, encoder.config).write()
    writer = OutputWriter(graph, encoder.config, hidden)
    outputs = {HIDDEN: hidden}
    if plan.recipe is not None:
        outputs |= writer.vector(plan.recipe)
    if plan.head is not None:
        outputs |= writer.logits(plan.head)
    return _model(graph, encoder.config, _named(graph, outputs), plan, owner)


def names_owner(file: Path) -> bool:
    """Tell whether an ONNX file says whose weights it holds, as those of ours do at their end."""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - LAST_BYTES))
        return OWNER.encode() in stream.read()


def owner_of(folder: Path) -> str:
    """Return the sha256 of a folder's weights, from its manifest where it has one."""
    if (folder / MANIFEST).is_file():
        return read_manifest(folder)["files"].get(WEIGHTS, {}).get("sha256", "")
    return sha256_of(folder / WEIGHTS) if (folder / WEIGHTS).is_file() else ""


def _weights(encoder: Encoder, plan: OnnxPlan) -> dict[str, np.ndarray]:
    tensors: dict[str, Tensor] = dict(encoder.named_parameters())
    if plan.head is not None:
        tensors |= {f"{HEAD}.{name}": p for name, p in plan.head.layer.named_parameters()}
    weights = {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors.items()}
    size = sum(array.nbytes for name, array in weights.items() if name not in plan.int8)
    if size > MOST_BYTES:
        raise UsageError(
            f"the weights take {size / 2**30:.1f} GiB, and an ONNX file holds less than 2; "
            "export a smaller network"
        )
    return weights


def _named(graph: Graph, outputs: dict[str, str]) -> list[str]:
    """Give what is handed out the names that others know."""
    for name, value in outputs.items():
        graph.nodes.append(graph.onnx.helper.make_node("Identity", [value], [name], name=name))
    return list(outputs)


def _model(
    graph: Graph, config: EncoderConfig, outputs: list[str], plan: OnnxPlan, owner: str
) -> Any:
    helper, kinds = graph.onnx.helper, graph.onnx.TensorProto
    texts = [
        helper.make_tensor_value_info(name, kinds.INT64, ("batch", "length"))
        for name in input_names(config)
    ]
    of_text = plan.head is not None and plan.head.of == "text"
    axes = AXES | {LOGITS: ("batch", "labels") if of_text else ("batch", "length", "labels")}
    results = [helper.make_tensor_value_info(n, kinds.FLOAT, axes[n]) for n in outputs]
    made = helper.make_graph(
        graph.nodes, "encoder", texts, results, initializer=list(graph.tensors.values())
    )
    domains = [("", OPSET), (FUSED, FUSED_OPSET)] if graph.has_fused else [("", OPSET)]
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid(*domain) for domain in domains],
        ir_version=IR,
        producer_name="bertworks",
        producer_version=__version__,
    )
    helper.set_model_props(model, {OWNER: owner})
    return model


@dataclass(frozen=True)
class SessionSettings:
    """How ONNX Runtime computes."""

    threads: int | None = None  # None: as many as the machine has cores
    keeps_arena: bool = True  # memory is kept from batch to batch
    spins: bool = True  # threads wait for work with open eyes, which is faster and hotter


def open_session(file: Path, settings: SessionSettings, *, owner: str | None = None) -> Any:
    """Open an ONNX file on the CPU; with an owner, only one that holds these weights."""
    runtime = import_optional("onnxruntime", extra="onnx", purpose="the backend onnx")
    runtime.disable_telemetry_events()
    if not file.is_file():
        raise ArtifactError(
            f"there is no {file}; write it with: bertworks export --to onnx, or choose the backend "
            "torch"
        )
    try:
        session = runtime.InferenceSession(
            str(file),
            _options(runtime, settings),
            providers=["CPUExecutionProvider"],
            disabled_optimizers=SLOWING,
        )
    except Exception as error:  # the runtime's errors have no class of their own in common
        raise ArtifactError(
            f"ONNX Runtime cannot open {file} ({str(error).splitlines()[0]:.200}); export it again"
        ) from error
    found = session.get_modelmeta().custom_metadata_map.get(OWNER)
    if owner is not None and found != owner:
        raise ArtifactError(
            f"{file} is an ONNX file for another model than the weights beside it; export the "
            "model again, or choose the backend torch"
        )
    return session


def _options(runtime: Any, settings: SessionSettings) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = settings.threads or 0
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = settings.keeps_arena
    options.enable_mem_pattern = False  # every batch has a shape of its own
    options.log_severity_level = 4  # our own sentence says it
    spinning = "1" if settings.spins else "0"
    options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return options
