"""Command lines of encoders, progress by segments, and encodings that hang."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from posthouse_media import VideoInfo, probe
from vlog import encoders
from vlog.encoders import CPU, ENCODERS, first_working
from vlog.encoding import EncodingStalled, encode, ffmpeg_arguments, segment_count
from vlog.ladder import RUNGS

INFO = VideoInfo(1920, 1080, 0, 60.0, 25.0, has_audio=True)
HARDWARE = {
    "h264_nvenc": ("", "scale=1280:720,setsar=1,format=yuv420p", "-preset p4 -rc vbr -forced-idr 1"),
    "h264_qsv": (
        "-init_hw_device qsv=hw -filter_hw_device hw ",
        "scale=1280:720,setsar=1,format=nv12,hwupload=extra_hw_frames=64",
        "-preset veryfast -forced_idr 1",
    ),
    "h264_vaapi": (
        "-vaapi_device /dev/dri/renderD128 ",
        "scale=1280:720,setsar=1,format=nv12,hwupload",
        "-rc_mode VBR",
    ),
}


def line(encoder):
    return " ".join(ffmpeg_arguments(Path("in.mp4"), Path("out"), RUNGS["720p"], INFO, encoder))


@pytest.mark.parametrize("name", HARDWARE)
def test_the_command_line_of_a_hardware_encoder(name):
    before, filters, options = HARDWARE[name]
    text = line(ENCODERS[name])
    assert text.startswith(f"{before}-i in.mp4 -map 0:V:0 -map 0:a:0? ")
    assert f"-vf {filters} -c:v {name} {options} -b:v 2500000 -maxrate 2500000 " in text
    assert "-force_key_frames expr:gte(t,n_forced*6) -f hls" in text


def test_the_command_line_of_the_cpu(monkeypatch):
    monkeypatch.setenv("VLOG_PRESET", "slow")
    assert "format=yuv420p -c:v libx264 -preset slow -b:v 2500000" in line(CPU)


def test_an_encoder_is_chosen_by_what_works_on_the_machine(monkeypatch):
    def pick(*devices, broken=()):
        return first_working(devices.__contains__, lambda each: each.name not in broken).name

    assert pick() == "libx264"
    assert pick("/dev/nvidia0", "/dev/dri/renderD128") == "h264_nvenc"
    assert pick("/dev/dri/renderD128") == "h264_qsv"
    assert pick("/dev/dri/renderD128", broken=["h264_qsv"]) == "h264_vaapi"
    assert pick("/dev/nvidia0", broken=["h264_nvenc"]) == "libx264"
    assert encoders._can_encode(CPU)
    monkeypatch.setenv("VLOG_ENCODER", "h264_vaapi")
    assert encoders.selected_encoder() is ENCODERS["h264_vaapi"]


async def test_progress_counts_the_segments_that_exist(clip, tmp_path):
    folder = tmp_path / "144p"
    reports = [
        (progress.percent, progress.segments, segment_count(folder))
        async for progress in encode(clip, folder, RUNGS["144p"], probe(clip))
    ]
    assert all(reported <= there for _, reported, there in reports)
    assert (reports[-1][0], segment_count(folder)) == (pytest.approx(100, abs=3), 2)


async def test_an_encoding_without_progress_fails_however_long_it_runs(clip, tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "ffmpeg"
    script.write_text("#!/bin/sh\necho out_time_us=1000000\nexec tail -f /dev/null\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    info = probe(clip)
    monkeypatch.setenv("PATH", f"{folder}:{Path(shutil.which('tail')).parent}")
    monkeypatch.setenv("VLOG_JOB_STALE_TIMEOUT", "0.2")
    running = encode(clip, tmp_path / "out", RUNGS["144p"], info)
    assert (await anext(running)).percent == pytest.approx(14, abs=1)
    with pytest.raises(EncodingStalled, match=r"no progress for 0\.2 s"):
        await anext(running)
