"""Each step of a network gives the same numbers in fused and in plain operators."""

import numpy as np
import onnxruntime
import pytest
import torch

from bertworks.core.errors import MissingPackageError
from bertworks.interop import onnx_graph
from bertworks.interop.onnx_graph import FASTER, FUSED, FUSED_OPSET, IR, OPSET, Graph
from bertworks.interop.quantize import quantize_columns
from bertworks.model.fused import ACTIVATIONS

RANDOM = np.random.default_rng(5)
VECTORS = RANDOM.standard_normal((2, 3, 8)).astype(np.float32)
WEIGHTS = {
    "layer.weight": RANDOM.standard_normal((4, 8)).astype(np.float32),
    "layer.bias": RANDOM.standard_normal(4).astype(np.float32),
    "norm.weight": RANDOM.standard_normal(8).astype(np.float32),
    "norm.bias": RANDOM.standard_normal(8).astype(np.float32),
}


def run(graph: Graph, output: str) -> np.ndarray:
    """Run a graph on the vectors."""
    helper, kind = graph.onnx.helper, graph.onnx.TensorProto.FLOAT
    given = helper.make_tensor_value_info("x", kind, (None, None, None))
    found = helper.make_tensor_value_info(output, kind, None)
    made = helper.make_graph(graph.nodes, "step", [given], [found], list(graph.tensors.values()))
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, FUSED_OPSET)]
    model = helper.make_model(made, opset_imports=domains, ir_version=IR)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": VECTORS})[0]


@pytest.mark.parametrize("operators", ["fused", "plain"])
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("biased", [True, False])
def test_a_bend_is_that_of_the_network(operators: str, name: str, biased: bool) -> None:
    graph = Graph(WEIGHTS, operators=operators)
    bias = graph.weight("norm.bias") if biased else None
    found = run(graph, graph.bend("x", name, bias))
    shifted = torch.from_numpy(VECTORS + (WEIGHTS["norm.bias"] if biased else 0))
    np.testing.assert_allclose(found, ACTIVATIONS[name](shifted).numpy(), atol=2e-6)


@pytest.mark.parametrize("operators", ["fused", "plain"])
@pytest.mark.parametrize("biased", [True, False])
def test_an_int8_product_is_that_of_its_whole_numbers(operators: str, biased: bool) -> None:
    given = {name: w for name, w in WEIGHTS.items() if biased or not name.endswith("bias")}
    graph = Graph(given, operators=operators, int8={"layer"})
    found = run(graph, graph.linear("x", "layer"))
    whole, steps = quantize_columns(WEIGHTS["layer.weight"].T)
    step = (max(VECTORS.max(), 0) - min(VECTORS.min(), 0)) / 255
    zero = np.rint(-VECTORS.min() / step)
    levels = np.clip(np.rint(VECTORS / step) + zero, 0, 255) - zero
    expected = (levels @ whole.astype(np.float64)) * step * steps
    expected = expected + (WEIGHTS["layer.bias"] if biased else 0)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("faster", [FASTER, {"SkipLayerNormalization"}])
@pytest.mark.parametrize("part", [0, 1])
def test_a_sum_is_handed_out_as_it_is_and_normed(faster: set[str], part: int) -> None:
    graph = Graph(WEIGHTS, faster=faster)
    bias = graph.weight("norm.bias")
    found = run(graph, graph.add_and_norm("x", "x", "norm", bias=bias, epsilon=1e-5)[part])
    total = torch.from_numpy(2 * VECTORS + WEIGHTS["norm.bias"])
    gain, shift = (torch.from_numpy(WEIGHTS[f"norm.{name}"]) for name in ("weight", "bias"))
    normed = torch.nn.functional.layer_norm(total, (8,), gain, shift, eps=1e-5)
    np.testing.assert_allclose(found, (total, normed)[part].numpy(), atol=1e-5)


def test_plain_graphs_have_no_operators_of_others() -> None:
    graph = Graph(WEIGHTS, operators="plain", int8={"layer"})
    graph.bend(graph.linear("x", "layer"), "gelu", graph.weight("layer.bias"))
    assert {node.domain for node in graph.nodes} == {""}


def test_a_weight_is_kept_once() -> None:
    graph = Graph(WEIGHTS)
    assert graph.linear("x", "layer") != graph.linear("x", "layer")
    assert list(graph.tensors) == ["layer.bias", "layer.matrix"]
    assert graph.weight("gone") is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *, extra: str, purpose: str) -> None:
        raise MissingPackageError(f"{purpose} needs: pip install 'bertworks[{extra}]'")

    monkeypatch.setattr(onnx_graph, "import_optional", missing)
    with pytest.raises(MissingPackageError, match=r"export to ONNX needs: .*\[onnx\]"):
        Graph(WEIGHTS)
