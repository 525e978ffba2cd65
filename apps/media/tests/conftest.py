from __future__ import annotations

import subprocess

import pytest
from media_kit import AAC, H264, PICTURE, TONE

from posthouse_media import ffmpeg_path


@pytest.fixture(scope="session")
def media(tmp_path_factory):
    """Make a file with ffmpeg, once."""
    folder = tmp_path_factory.mktemp("media")

    def make(name, *arguments):
        target = folder / name
        if not target.exists():
            subprocess.run([ffmpeg_path(), "-v", "error", "-y", *arguments, target], check=True)
        return target

    return make


@pytest.fixture(scope="session")
def film(media):
    """3 s with sound, 160 by 90 pixels, 10 frames per second."""
    return media("film.mp4", *PICTURE, *TONE, "-t", "3", *H264, *AAC, "-movflags", "+faststart")
