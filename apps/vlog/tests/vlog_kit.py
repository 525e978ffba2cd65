"""What tests of vlog share that is no fixture."""

from __future__ import annotations

from typing import NamedTuple

import av

SECRET = "the admin secret that registers workers"


class Picture(NamedTuple):
    """The video stream of a file, or of what a playlist leads to."""

    width: int
    height: int
    seconds: float


def probe_picture(path):
    with av.open(str(path)) as container:
        (stream,) = container.streams.video
        return Picture(stream.width, stream.height, container.duration / av.time_base)
