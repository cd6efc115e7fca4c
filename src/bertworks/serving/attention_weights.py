"""Attention weights on request: which piece looks at which, in every layer and attention head."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from bertworks.core.device import Machine
from bertworks.core.errors import UsageError
from bertworks.data.packing import Features, flatten
from bertworks.model.encoder import Encoder
from bertworks.serving.text_pieces import TextPiece, read_input
from bertworks.tasks.answering import at_rest
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """How much each piece looks at each other one; every row sums to 1."""

    pieces: tuple[TextPiece, ...]
    weights: np.ndarray  # float32 [layers, H, L, L]; the third axis looks, the fourth is seen

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "pieces": [asdict(piece) for piece in self.pieces],
            "weights": self.weights.tolist(),
        }


@torch.inference_mode()
def look(
    model: TaskModel, tokenizer: Tokenizer, machine: Machine, texts: tuple[Any, Any]
) -> AttentionWeights:
    """Return the attention weights of a text or pair, by the published formula in fp32."""
    encoder, config = model.encoder, model.config
    if config.mixer != "attention":
        raise UsageError(f"this network has no attention weights; its mixer is {config.mixer}")
    if not isinstance(encoder, Encoder):
        raise UsageError(
            "this backend gives no attention weights; load the model with the backend torch"
        )
    tokens, segments, pieces = read_input(texts, tokenizer, longest=config.max_positions)
    batch = flatten([Features(tokens, segments)]).to(machine.device)
    with at_rest(model):
        layers = [weights[0].float().cpu().numpy() for weights in encoder.attention(batch)]
    return AttentionWeights(pieces, np.stack(layers))
