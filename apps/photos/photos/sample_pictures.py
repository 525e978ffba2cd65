"""Generated photos of beaches, forests and sunsets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

SCENES: dict[str, list[tuple[float, tuple[int, int, int]]]] = {
    "beach": [(0.0, (90, 160, 235)), (0.5, (60, 130, 210)), (0.6, (230, 205, 150)), (1.0, (215, 185, 130))],
    "forest": [(0.0, (60, 110, 50)), (0.4, (35, 90, 35)), (0.8, (25, 65, 30)), (1.0, (70, 55, 30))],
    "sunset": [(0.0, (60, 30, 80)), (0.45, (230, 110, 40)), (0.55, (250, 170, 60)), (1.0, (40, 20, 30))],
}
"""Colors of each scene, from top to bottom."""
SIZE = (320, 200)


def render_scene(scene: str, path: Path, seed: int) -> Path:
    """Write a JPEG of a scene; each seed gives a different photo."""
    random = np.random.default_rng(seed)
    width, height = SIZE
    positions, colors = zip(*SCENES[scene], strict=True)
    heights = np.linspace(0, 1, height) + random.normal(0, 0.03)
    bands = [np.interp(heights, positions, [color[n] for color in colors]) for n in range(3)]
    light = random.uniform(0.85, 1.1)
    points = np.repeat(np.stack(bands, axis=-1)[:, None, :], width, axis=1) * light
    points += random.normal(0, 12, (height, width, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(points.clip(0, 255).astype(np.uint8)).save(path, quality=85)
    return path
