"""Files as people upload them: real, odd and broken. Each function writes one from a film."""

import subprocess
from pathlib import Path

from posthouse_media import ffmpeg_path


def _ffmpeg(*arguments):
    subprocess.run([ffmpeg_path(), "-nostdin", "-y", "-v", "error", *map(str, arguments)], check=True)


def _copied(suffix, *options):
    def write(film, folder):
        _ffmpeg("-i", film, *options, folder / f"x{suffix}")
        return folder / f"x{suffix}"

    return write


def _rotated(film, folder):
    """As phones do: the frames lie on their side, and the matrix of the track says how to turn them.

    The matrix is written into the file, because older versions of ffmpeg have no option for it.
    """
    _ffmpeg("-i", film, "-vf", "transpose=1", folder / "side.mp4")
    content = bytearray((folder / "side.mp4").read_bytes())
    at = content.index(b"tkhd") + 44
    for offset, value in zip((0, 4, 12, 16), (0, -1, 1, 0), strict=True):
        content[at + offset : at + offset + 4] = (value * 65536).to_bytes(4, "big", signed=True)
    (folder / "turned.mp4").write_bytes(content)
    return folder / "turned.mp4"


def _streamed(film, folder):
    """As browsers record: written to a pipe, so that no duration could be filled in."""
    path = folder / "recorded.webm"
    with path.open("wb") as out:
        subprocess.run(
            [ffmpeg_path(), "-v", "error", "-i", film, "-c:v", "libvpx", "-b:v", "1M", "-f", "webm", "-"],
            stdout=out,
            check=True,
        )
    return path


def _truncated(film, folder):
    _ffmpeg("-stream_loop", "3", "-i", film, "-c", "copy", "-movflags", "+faststart", folder / "whole.mp4")
    content = (folder / "whole.mp4").read_bytes()
    (folder / "cut.mp4").write_bytes(content[: len(content) // 2])
    return folder / "cut.mp4"


def _no_index(film, folder):
    content = film.read_bytes()
    (folder / "no-index.mp4").write_bytes(content[: len(content) * 3 // 4])
    return folder / "no-index.mp4"


def _song(film, folder):
    _ffmpeg("-i", film, "-frames:v", "1", folder / "cover.jpg")
    _ffmpeg(
        "-f", "lavfi", "-i", "sine=d=1", "-i", folder / "cover.jpg", "-map", "0", "-map", "1", "-c:v", "copy",
        "-disposition:v", "attached_pic", folder / "song.m4a",
    )  # fmt: skip
    return folder / "song.m4a"


def _written(name, content):
    def write(film, folder):
        del film
        (folder / name).write_bytes(content)
        return folder / name

    return write


INPUTS = {
    "MP4 (H.264)": lambda film, _: Path(film),
    "MP4 from a phone, rotated by metadata": _rotated,
    "MOV, sound and picture": _copied(".mov", "-f", "lavfi", "-i", "sine=d=1", "-c:v", "copy", "-shortest"),
    "MKV (MPEG-4)": _copied(".mkv", "-c:v", "mpeg4", "-q:v", "2"),
    "WebM recorded by a browser, no duration": _streamed,
    "MPEG-TS": _copied(".ts", "-c", "copy"),
    "MP4, odd width and height": _copied(
        ".mp4", "-vf", "format=yuv444p,crop=319:179", "-c:v", "libx264", "-pix_fmt", "yuv444p"
    ),
    "MP4 with one frame": _copied(".mp4", "-frames:v", "1"),
    "MP4 that ends early (index at the start)": _truncated,
    "MP4 that ends early (index missing)": _no_index,
    "song with a cover picture": _song,
    "text file": _written("notes.txt", b"no video at all\n" * 50),
    "picture (JPEG)": _copied(".jpg", "-frames:v", "1"),
    "empty file": _written("empty.mp4", b""),
}
