"""Vectors on their way out."""

import base64

import msgspec
import numpy as np
import pytest

from bertworks.service.vector_shapes import as_list, as_written, cosines


def test_numbers_keep_every_bit_of_theirs() -> None:
    vector = np.random.default_rng(3).normal(size=13).astype(np.float32)
    for array in (vector, np.stack([vector, -vector])):
        numbers = msgspec.json.decode(msgspec.json.encode([as_list(array)]))
        assert np.array_equal(np.array(numbers[0], dtype=np.float32), array)
    written = as_written(vector[::-1], "base64")
    assert np.array_equal(np.frombuffer(base64.b64decode(written), "<f4"), vector[::-1])


def test_vectors_of_length_one_are_compared() -> None:
    vectors = [np.array([1.0, 0.0]), np.array([0.6, 0.8])]
    assert cosines(vectors[0], vectors) == pytest.approx([1.0, 0.6])
