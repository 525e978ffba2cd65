"""What tests of vlog share that is no fixture."""

from __future__ import annotations

import json
import subprocess

SECRET = "the admin secret that registers workers"


def ffprobe(path):
    """The streams of a file, or of what a playlist leads to."""
    command = ["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format", str(path)]
    done = subprocess.run(command, check=True, capture_output=True)
    return json.loads(done.stdout)
