"""bertworks: the whole life of a BERT-family text encoder, from raw text to answers."""

from typing import TYPE_CHECKING, Any

from bertworks.core import __version__
from bertworks.core.errors import BertworksError

if TYPE_CHECKING:
    from bertworks.serving.predictor import Predictor, load

__all__ = ["BertworksError", "Predictor", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Bring in torch only when a model is asked for."""
    if name in {"Predictor", "load"}:
        from bertworks.serving import predictor

        return getattr(predictor, name)
    raise AttributeError(f"module 'bertworks' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what there is to use, also what is brought in only when it is asked for."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
