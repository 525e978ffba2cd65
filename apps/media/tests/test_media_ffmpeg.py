import hashlib
import re
from contextlib import aclosing

import av
import psutil
import pytest
from media_kit import H264, PICTURE, TONE

from posthouse_media import (
    HLS_JS,
    FfmpegFailed,
    ffmpeg_path,
    run_ffmpeg,
    stream_ffmpeg,
    write_picture,
)

ENDLESS = ("-re", *PICTURE, "-f", "null", "-")


class Stop(Exception):
    pass


def running():
    """The ffmpeg processes that this process started."""
    children = psutil.Process().children()
    return [one for one in children if "ffmpeg" in one.name() and one.status() != psutil.STATUS_ZOMBIE]


def size_of(picture):
    with av.open(str(picture)) as container:
        stream = container.streams.video[0]
        return stream.width, stream.height


def test_progress_ends_with_the_length_of_the_output(film, tmp_path):
    seen = []
    run_ffmpeg("-i", str(film), *H264, str(tmp_path / "copy.mp4"), on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(3, abs=0.3)


def test_an_exception_of_the_callback_kills_ffmpeg():
    def stop(_):
        raise Stop

    with pytest.raises(Stop):
        run_ffmpeg(*ENDLESS, on_progress=stop)
    assert running() == []


async def test_a_stream_of_progress_ends_with_the_length_of_the_output(film, tmp_path):
    seen = [at async for at in stream_ffmpeg("-i", str(film), *H264, str(tmp_path / "copy.mp4"))]
    assert seen[-1] == pytest.approx(3, abs=0.3)


async def test_leaving_a_stream_of_progress_kills_ffmpeg():
    async with aclosing(stream_ffmpeg(*ENDLESS)) as progress:
        async for _ in progress:
            break
        assert len(running()) == 1
    assert running() == []


async def test_failures_are_reported_without_folders(tmp_path):
    source = tmp_path / "a folder" / "film.mp4"
    source.parent.mkdir()
    source.write_text("not a video")
    command = ("-i", str(source), str(tmp_path / "copy.mp4"))
    with pytest.raises(FfmpegFailed) as at_once:
        run_ffmpeg(*command)
    with pytest.raises(FfmpegFailed) as streamed:
        [at async for at in stream_ffmpeg(*command)]
    for failed in at_once, streamed:
        assert "film.mp4" in str(failed.value)
        assert str(tmp_path) not in str(failed.value)
        assert "a folder" not in str(failed.value)


def test_ffmpeg_from_pypi_is_used_where_the_system_has_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "imageio_ffmpeg" in ffmpeg_path()


def test_a_picture_is_not_wider_than_asked_for_and_never_enlarged(film, tmp_path):
    for limit, width in ((80, 80), (1000, 160), (None, 160)):
        assert write_picture(film, tmp_path / "poster.jpg", at=1.5, max_width=limit)
        assert size_of(tmp_path / "poster.jpg")[0] == width


def test_a_second_after_the_end_gives_the_first_frame(film, tmp_path):
    assert write_picture(film, tmp_path / "poster.jpg", at=99)
    assert size_of(tmp_path / "poster.jpg") == (160, 90)


def test_a_film_of_one_frame_has_a_picture(media, tmp_path):
    one = media("one.ts", *PICTURE, "-frames:v", "1", *H264)
    assert write_picture(one, tmp_path / "poster.jpg", at=0.01)


@pytest.mark.parametrize("name", ["song.wav", "text.mp4", "missing.mp4"])
def test_media_without_a_frame_give_no_picture(media, tmp_path, name):
    source = media("song.wav", *TONE, "-t", "1") if name == "song.wav" else tmp_path / name
    if name == "text.mp4":
        source.write_text("not a video")
    assert not write_picture(source, tmp_path / "poster.jpg", at=0)
    assert not (tmp_path / "poster.jpg").exists()


def test_the_player_is_the_published_file():
    notice = (HLS_JS / "NOTICE.txt").read_text()
    (expected,) = re.findall(r"[0-9a-f]{64}", notice)
    assert hashlib.sha256((HLS_JS / "hls.js").read_bytes()).hexdigest() == expected


def test_your_own_ffmpeg_is_used(tmp_path, monkeypatch):
    own = tmp_path / "own-ffmpeg"
    own.symlink_to(ffmpeg_path())
    monkeypatch.setenv("MEDIA_FFMPEG", str(own))
    assert ffmpeg_path() == str(own)
    monkeypatch.setenv("MEDIA_FFMPEG", str(tmp_path / "missing"))
    with pytest.raises(FfmpegFailed, match="MEDIA_FFMPEG names"):
        run_ffmpeg("-version")
