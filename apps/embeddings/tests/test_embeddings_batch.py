"""Calls of a provider for the texts of a batch."""

import random

import pytest

from embeddings import batch_embedder
from embeddings.batch_embedder import TEXTS_PER_CALL, BatchEmbedder
from embeddings.providers import RejectedTexts
from embeddings.store import Text


@pytest.fixture
def missing():
    """Texts of different lengths, in random order."""
    lengths = list(range(1, 2 * TEXTS_PER_CALL + 21))
    random.Random(7).shuffle(lengths)
    return {Text("a", "local/m", str(length)): "x" * length for length in lengths}


@pytest.fixture
def calls(monkeypatch):
    """The lengths of the texts of each call. The vector of a text is its length; empty texts are rejected."""
    calls = []

    async def embed(_model, texts):
        calls.append([len(text) for text in texts])
        if "" in texts:
            raise RejectedTexts("empty")
        return [[float(len(text))] for text in texts]

    monkeypatch.setattr(batch_embedder, "embed", embed)
    return calls


async def test_texts_of_similar_length_are_computed_together_and_each_gets_its_vector(missing, calls):
    vectors = await BatchEmbedder().vectors(missing)
    assert [len(call) for call in calls] == [TEXTS_PER_CALL, TEXTS_PER_CALL, 20]
    assert [length for call in calls for length in call] == sorted(map(len, missing.values()))
    assert vectors == {text: [float(len(string))] for text, string in missing.items()}


async def test_a_rejected_text_fails_alone_in_a_batch_of_several_calls(missing, calls):
    rejected = Text("a", "local/m", "rejected")
    embedder = BatchEmbedder()
    vectors = await embedder.vectors(missing | {rejected: ""})
    assert vectors.keys() == missing.keys()
    assert embedder.errors.keys() == {rejected}
    assert calls[-2:] == [
        list(range(TEXTS_PER_CALL, 2 * TEXTS_PER_CALL)),
        list(range(2 * TEXTS_PER_CALL, 2 * TEXTS_PER_CALL + 21)),
    ]
