"""The encoder: converts texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from embeddings.minilm.quantize import quantized_model
from embeddings.minilm.weights import TOKENIZER, verified, weights_folder

MAX_TOKENS = 256
"""Maximum tokens per text, as in the training of the model."""
TOGETHER = 8
"""Texts per run. More are not faster, because they no longer fit into the CPU cache."""


class Encoder:
    """An encoder that executes runs in parallel, one per thread.

    This uses all cores; threads within a single run would wait for each other after each operation.
    """

    def __init__(self, session: onnxruntime.InferenceSession, tokenizer: Tokenizer, threads: int) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._threads = ThreadPoolExecutor(threads, "minilm")

    @classmethod
    def load(cls, cache: Path, *, threads: int) -> Self:
        """Load the model; on first use on a machine it is converted."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(quantized_model(cache)), options)
        tokenizer = Tokenizer.from_file(str(verified(weights_folder() / TOKENIZER)))
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.no_padding()
        return cls(session, tokenizer, threads)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return a unit vector for each text."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        by_length = sorted(range(len(tokens)), key=lambda nth: len(tokens[nth]))  # minimizes padding
        runs = [by_length[start : start + TOGETHER] for start in range(0, len(tokens), TOGETHER)]
        vectors = self._threads.map(lambda run: self._run([tokens[nth] for nth in run]), runs)
        found = {
            nth: vector
            for run, together in zip(runs, vectors, strict=True)
            for nth, vector in zip(run, together, strict=True)
        }
        return [found[nth] for nth in range(len(tokens))]

    def _run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        longest = max(map(len, tokens))
        ids = np.array([[*each, *[0] * (longest - len(each))] for each in tokens], dtype=np.int64)
        mask = np.array([[1] * len(each) + [0] * (longest - len(each)) for each in tokens], dtype=np.int64)
        outputs: Any = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        return outputs[0]  # type: ignore[no-any-return]
