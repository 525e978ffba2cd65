"""The quantized (int8) model, converted once and stored in a cache folder."""

from __future__ import annotations

import fcntl
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embeddings.minilm.weights import SHA256, WEIGHTS, verified, weights_folder

VERSION = 1
"""Version of the conversion; part of the file name."""
WORKSHOP = "converting-"


def quantized_model(cache: Path) -> Path:
    """Return the converted model. It is converted on first use, under a file lock; other processes wait.

    The file is renamed into place when it is complete, so an interrupted conversion leaves no partial file.
    """
    path = cache / f"minilm-int8-{SHA256[WEIGHTS][:12]}-{VERSION}.onnx"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(path.with_suffix(".lock")):
            if not path.exists():
                _sweep(cache)
                _convert(verified(weights_folder() / WEIGHTS), path)
    return path


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold an exclusive file lock, which the system releases if the process dies."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(cache: Path) -> None:
    """Delete the files of interrupted conversions."""
    for folder in cache.glob(f"{WORKSHOP}*"):
        shutil.rmtree(folder)


def _convert(weights: Path, path: Path) -> None:
    import onnx  # noqa: PLC0415 - slow import, needed once per machine
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - likewise
    from safetensors.numpy import load_file  # noqa: PLC0415 - likewise

    from embeddings.minilm.graph import build  # noqa: PLC0415 - likewise

    with tempfile.TemporaryDirectory(dir=path.parent, prefix=WORKSHOP) as folder, _hushed():
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "small.onnx"
        onnx.save(build(load_file(weights)), whole)
        quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True)
        small.replace(path)


@contextmanager
def _hushed() -> Iterator[None]:
    """Suppress the quantizer's warnings on the root logger, which do not concern operators."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
