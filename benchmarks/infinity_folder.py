"""Write the ONNX folders that infinity reads; run by the Python that infinity is installed in.

    python infinity_folder.py MODEL OUT

Exported by optimum, then optimized at the level that infinity asks for. By itself infinity 0.0.78
cannot do this for a model that lies in a folder: it joins paths so that no file is found, unless an
optimized one lies there already.
"""

import sys
from pathlib import Path

from onnx import TensorProto
from onnxruntime.quantization import quantize_dynamic
from optimum.onnxruntime import ORTModelForFeatureExtraction, ORTOptimizer
from optimum.onnxruntime.configuration import OptimizationConfig
from transformers import AutoTokenizer


def main() -> None:
    """Write OUT/fp32 and OUT/int8."""
    model, out = Path(sys.argv[1]), Path(sys.argv[2])
    exported = ORTModelForFeatureExtraction.from_pretrained(
        model, export=True, local_files_only=True
    )
    best = OptimizationConfig(optimization_level=99, optimize_for_gpu=False)
    ORTOptimizer.from_pretrained(exported).optimize(best, save_dir=out / "fp32")
    AutoTokenizer.from_pretrained(model).save_pretrained(out / "fp32")
    (out / "int8").mkdir()
    for file in (out / "fp32").iterdir():
        if file.suffix != ".onnx":
            (out / "int8" / file.name).write_bytes(file.read_bytes())
    quantize_dynamic(
        out / "fp32" / "model_optimized.onnx",
        out / "int8" / "model_quantized_optimized.onnx",
        extra_options={"DefaultTensorType": TensorProto.FLOAT},  # fused operators tell no types
    )


if __name__ == "__main__":
    main()
