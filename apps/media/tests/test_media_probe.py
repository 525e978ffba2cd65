import shutil

import av
import pytest
from media_kit import AAC, H264, PICTURE, TONE

from posthouse_media import NotAVideo, VideoInfo, is_truncated, measured_duration, probe


@pytest.fixture
def rotated(film):
    """The film with a display matrix, as phones write it: older versions of ffmpeg have no option for one."""

    def make(degrees):
        target = film.with_name(f"rotated-{degrees}.mp4")
        _write_rotated(film, target, degrees)
        return target

    return make


def _write_rotated(source, target, degrees):
    """Set the matrix in the header of the video track of an MP4 file."""
    content = bytearray(source.read_bytes())
    at = content.index(b"tkhd") + 4 + 40
    parts = {90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}[degrees]
    for offset, value in zip((0, 4, 12, 16), parts, strict=True):
        content[at + offset : at + offset + 4] = (value * 65536).to_bytes(4, "big", signed=True)
    target.write_bytes(content)


def test_the_properties_of_a_film(film):
    found = probe(film)
    assert found == VideoInfo(160, 90, 0, pytest.approx(3, abs=0.1), 10.0, has_audio=True)


@pytest.mark.parametrize(("degrees", "size"), [(90, (90, 160)), (180, (160, 90)), (270, (90, 160))])
def test_the_size_is_that_of_the_displayed_picture(rotated, degrees, size):
    found = probe(rotated(degrees))
    assert ((found.width, found.height), found.rotation) == (size, degrees)


def test_the_duration_is_measured_where_the_container_has_none(media):
    live = ("-t", "2", "-c:v", "libvpx", "-deadline", "realtime", "-b:v", "100k", "-f", "webm", "-live", "1")
    recorded = media("browser.webm", *PICTURE, *live)
    with av.open(str(recorded)) as container:
        assert not container.duration
    assert probe(recorded).duration == pytest.approx(2, abs=0.15)


def test_a_film_of_one_frame_has_the_duration_of_a_frame(media):
    one = media("one.mp4", *PICTURE, "-frames:v", "1", *H264)
    assert probe(one).duration == pytest.approx(0.1, abs=0.05)


def test_a_stream_that_starts_later_has_the_same_duration(media):
    late = media("late.ts", *PICTURE, "-t", "2", *H264, "-output_ts_offset", "500")
    assert measured_duration(late) == pytest.approx(2, abs=0.15)


def test_a_song_with_a_cover_is_not_a_video(media):
    cover = media("cover.jpg", *PICTURE, "-frames:v", "1")
    song = media("song.mp3", *TONE, "-i", cover, "-t", "1", "-map", "0", "-map", "1", "-c:v", "copy")
    with pytest.raises(NotAVideo, match="no video stream"):
        probe(song)


def test_a_cover_before_the_film_is_not_the_film(media, film):
    cover = media("cover.jpg", *PICTURE, "-frames:v", "1")
    order = ("-map", "1", "-map", "0", "-c", "copy", "-disposition:v:0", "attached_pic")
    found = probe(media("covered.mp4", "-i", film, "-i", cover, *order))
    assert (found.duration, found.fps) == (pytest.approx(3, abs=0.1), 10.0)


@pytest.mark.parametrize("content", [b"", b"not a video", bytes(5000)])
def test_other_files_are_refused_without_their_path(tmp_path, content):
    (tmp_path / "text.mp4").write_bytes(content)
    for function in probe, measured_duration:
        with pytest.raises(NotAVideo) as refused:
            function(tmp_path / "text.mp4")
        assert str(tmp_path) not in str(refused.value)


def test_a_file_cut_off_is_measured_up_to_the_cut(film, tmp_path):
    cut = tmp_path / "cut.mp4"
    content = film.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    assert probe(cut).duration == pytest.approx(3, abs=0.1)
    assert is_truncated(probe(cut).duration, measured_duration(cut))


def test_a_playlist_is_as_long_as_its_segments(media, film, tmp_path):
    cutting = (
        "-f",
        "hls",
        "-hls_time",
        "1",
        "-hls_playlist_type",
        "vod",
        "-force_key_frames",
        "expr:gte(t,n_forced)",
    )
    playlist = media("index.m3u8", "-i", film, *H264, *AAC, *cutting)
    for file in playlist.parent.glob("index*"):
        shutil.copy(file, tmp_path)
    assert measured_duration(tmp_path / "index.m3u8") == pytest.approx(3, abs=0.2)
    (tmp_path / "index2.ts").unlink()
    assert measured_duration(tmp_path / "index.m3u8") < 2.3


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        (10, 10, False),
        (10, 9.6, False),
        (10, 9.4, True),
        (1000, 981, False),
        (1000, 979, True),
        (1, 3, False),
    ],
)
def test_more_than_half_a_second_and_two_percent_must_be_missing(source, output, expected):
    assert is_truncated(source, output) is expected
