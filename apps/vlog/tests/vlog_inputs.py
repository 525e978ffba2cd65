"""Real and broken inputs: name, what it is, and how it is made."""

from __future__ import annotations

import struct
import subprocess

from posthouse_media import ffmpeg_path

SIZE = "320x180"
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")


def ffmpeg(*arguments):
    subprocess.run([ffmpeg_path(), "-v", "error", "-y", *map(str, arguments)], check=True)


def picture(seconds=2, size=SIZE):
    return ("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=10:duration={seconds}")


def tone(seconds=2):
    return ("-f", "lavfi", "-i", f"sine=frequency=440:sample_rate=8000:duration={seconds}")


def phone(file):
    upright = file.with_name("plain-" + file.name)
    ffmpeg(*picture(), *tone(), *H264, "-c:a", "aac", upright)
    content = bytearray(upright.read_bytes())
    matrix = content.index(b"tkhd") + 44  # older and newer versions of ffmpeg have different options for it
    for offset, value in zip((0, 4, 12, 16), (0, 1, -1, 0), strict=True):
        content[matrix + offset : matrix + offset + 4] = (value * 65536).to_bytes(4, "big", signed=True)
    file.write_bytes(content)


def browser(file):
    """Without a duration, as MediaRecorder writes it: to a pipe, which cannot seek."""
    command = [ffmpeg_path(), "-v", "error", *picture(), *tone(), "-c:v", "libvpx", "-deadline", "realtime"]
    made = subprocess.run([*command, "-f", "webm", "-live", "1", "-"], check=True, capture_output=True)
    file.write_bytes(made.stdout)


def cover(file):
    art = file.with_name("cover.png")
    ffmpeg(*picture(1), "-frames:v", "1", art)
    ffmpeg(*tone(), "-i", art, "-map", "0", "-map", "1", "-c:a", "aac", "-c:v", "copy",
           "-disposition:v:0", "attached_pic", file)  # fmt: skip


def film_with_cover(file):
    art, film = file.with_name("art.png"), file.with_name("film.mp4")
    ffmpeg(*picture(1), "-frames:v", "1", art)
    ffmpeg(*picture(), *H264, film)
    ffmpeg(
        "-i",
        art,
        "-i",
        film,
        "-map",
        "0",
        "-map",
        "1",
        "-c",
        "copy",
        "-disposition:v:0",
        "attached_pic",
        file,
    )


def truncated(file):
    whole = file.with_name("whole.mp4")
    ffmpeg(*picture(6), *H264, "-g", "5", "-movflags", "faststart", whole)
    content = whole.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def without_index(file):
    whole = file.with_name("unindexed.mp4")
    ffmpeg(*picture(), *H264, whole)
    content = whole.read_bytes()
    file.write_bytes(content[: content.rindex(b"moov") - 4])


INPUTS = [
    ("landscape.mp4", "H.264 and AAC", lambda f: ffmpeg(*picture(), *tone(), *H264, "-c:a", "aac", f)),
    ("phone.mov", "phone video with rotation metadata", phone),
    ("browser.webm", "browser recording without a duration", browser),
    ("broadcast.ts", "MPEG transport stream, MPEG-2", lambda f: ffmpeg(
        *picture(), *tone(), "-c:v", "mpeg2video", f)),
    ("old.avi", "MPEG-4 Part 2, no sound", lambda f: ffmpeg(*picture(), "-c:v", "mpeg4", f)),
    ("odd.mkv", "odd frame size, 10 bits", lambda f: ffmpeg(
        *picture(), "-vf", "scale=321:181", *H264[:-1], "yuv444p10le", f)),
    ("frame.mp4", "one frame", lambda f: ffmpeg(*picture(), "-frames:v", "1", *H264, f)),
    ("film-with-cover.mp4", "attached picture before the video", film_with_cover),
    ("long-sound.mp4", "sound longer than the picture", lambda f: ffmpeg(
        *picture(2), *tone(4), *H264, "-c:a", "aac", f)),
    ("song.m4v", "sound with a cover picture", cover),
    ("sound.mp4", "sound only", lambda f: ffmpeg(*tone(), "-c:a", "aac", f)),
    ("truncated.mp4", "second half missing", truncated),
    ("unindexed.mp4", "index missing", without_index),
    ("text.mp4", "a text", lambda f: f.write_text("this is a text")),
    ("random.mp4", "a header and random bytes", lambda f: f.write_bytes(
        struct.pack(">I", 24) + b"ftypisom" + bytes(12) + bytes(range(256)) * 20)),
]  # fmt: skip
