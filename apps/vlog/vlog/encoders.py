"""H.264 encoders of ffmpeg: on the CPU, and on the GPUs of three vendors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from posthouse_media import FfmpegFailed, run_ffmpeg
from vlog import settings

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Encoder:
    """Options of one encoder.

    - ``device``: file that exists where the hardware does; empty: always.
    - ``input_options``: options before the input.
    - ``upload_filter``: filters that move frames to the hardware.
    - ``options``: options of the encoder.
    """

    name: str
    device: str = ""
    input_options: tuple[str, ...] = ()
    upload_filter: str = ""
    options: tuple[str, ...] = ()

    def filters(self, width: int, height: int) -> str:
        """Return the filters for frames of this size. Frames are decoded, rotated and scaled on the CPU."""
        pixels = "nv12" if self.upload_filter else "yuv420p"
        return f"scale={width}:{height},setsar=1,format={pixels}{self.upload_filter}"


CPU = Encoder("libx264")
ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder("h264_nvenc", "/dev/nvidia0", options=("-preset", "p4", "-rc", "vbr", "-forced-idr", "1")),
        Encoder(
            "h264_qsv",
            "/dev/dri/renderD128",
            ("-init_hw_device", "qsv=hw", "-filter_hw_device", "hw"),
            ",hwupload=extra_hw_frames=64",
            ("-preset", "veryfast", "-forced_idr", "1"),
        ),
        Encoder(
            "h264_vaapi",
            "/dev/dri/renderD128",
            ("-vaapi_device", "/dev/dri/renderD128"),
            ",hwupload",
            ("-rc_mode", "VBR"),
        ),
        CPU,
    )
}
"""The order in which ``auto`` tries them."""


def selected_encoder() -> Encoder:
    """Return the encoder that ``VLOG_ENCODER`` names, or the first that works on this machine."""
    name = settings.encoder()
    return _detected() if name == AUTO else ENCODERS.get(name, Encoder(name))


@cache
def _detected() -> Encoder:
    return first_working(lambda device: Path(device).exists(), _can_encode)


def first_working(exists: Callable[[str], bool], can_encode: Callable[[Encoder], bool]) -> Encoder:
    """Return the first encoder whose device exists and that encodes a picture, else the one of the CPU."""
    usable = (each for each in ENCODERS.values() if each.device and exists(each.device) and can_encode(each))
    return next(usable, CPU)


def _can_encode(encoder: Encoder) -> bool:
    picture = ("-f", "lavfi", "-i", "color=size=320x240:rate=25:duration=0.2")
    try:
        run_ffmpeg(
            *encoder.input_options, *picture, "-vf", encoder.filters(320, 240), "-c:v", encoder.name,
            *encoder.options, "-f", "null", "-",
        )  # fmt: skip
    except FfmpegFailed:
        return False
    return True
