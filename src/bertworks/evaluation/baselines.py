"""What a system without a network reaches: the honest thing to compare with."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from bertworks.core.errors import MissingPackageError
from bertworks.corpus.sentences import split_sentences
from bertworks.data.examples import SourceExample, TextExample
from bertworks.tasks.text_scores import TextScorer


def tfidf_match(training: Sequence[TextExample], test: Sequence[TextExample]) -> list[str]:
    """Label each test pair by the TF-IDF cosine of its texts and a fitted threshold."""
    texts = [text for example in training for text in (example.text, example.text_b or "")]
    vectorizer = scikit_learn("feature_extraction.text").TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), min_df=2
    )
    vectorizer.fit(texts)
    model = scikit_learn("linear_model").LogisticRegression(C=100.0)
    model.fit(_cosines(vectorizer, training), [example.label for example in training])
    return [str(label) for label in model.predict(_cosines(vectorizer, test))]


class Copying:
    """Scores what writes nothing: the source as it is, and its first sentence."""

    def __init__(self) -> None:
        self._whole, self._first = TextScorer(), TextScorer()
        self._has_longer = False  # whether a first sentence is less than its source

    def add(self, example: SourceExample) -> None:
        """Score both for one example."""
        first = split_sentences(example.source)[0]
        self._whole.add(example, {"text": example.source})
        self._first.add(example, {"text": first})
        self._has_longer |= first != example.source.strip()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the scores of each, of the first sentences only where there are others."""
        found = {"source": self._whole.metrics()}
        return found | ({"first sentence": self._first.metrics()} if self._has_longer else {})


def _cosines(vectorizer: Any, pairs: Sequence[TextExample]) -> np.ndarray:
    first = vectorizer.transform([pair.text for pair in pairs])
    second = vectorizer.transform([pair.text_b or "" for pair in pairs])
    return np.asarray(first.multiply(second).sum(axis=1)).reshape(-1, 1)


def scikit_learn(module: str) -> ModuleType:
    """Import a module of scikit-learn, or say how to get it."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise MissingPackageError(
            "the TF-IDF baseline needs: pip install 'bertworks[eval]'"
        ) from error
