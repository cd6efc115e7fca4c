"""Packages that only some features need."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from bertworks.core.errors import MissingPackageError


def import_optional(name: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a package of an extra, or say how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(f"{purpose} needs: pip install 'bertworks[{extra}]'") from error


def is_installed(name: str) -> bool:
    """Tell whether a package is there to be imported."""
    return find_spec(name) is not None
