"""A package that is missing is named together with the extra that brings it."""

import json

import pytest

from bertworks.core.errors import MissingPackageError
from bertworks.core.optional import import_optional, is_installed


def test_a_package_that_is_there_is_imported() -> None:
    assert import_optional("json", extra="corpus", purpose="reading") is json
    assert is_installed("json")


def test_a_missing_package_is_one_sentence_with_the_remedy() -> None:
    assert not is_installed("bertworks_without_this")
    with pytest.raises(
        MissingPackageError, match=r"reading a\.zst needs: pip install 'bertworks\["
    ):
        import_optional("bertworks_without_this", extra="corpus", purpose="reading a.zst")
