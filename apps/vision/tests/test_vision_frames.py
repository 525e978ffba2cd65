"""Which frames are picked, and what ffmpeg makes."""

from io import BytesIO

import av
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from posthouse_media import FfmpegFailed, NotAVideo, probe
from vision.frame_sampler import KeptFrame, fingerprint, sample_frames, similarity
from vision.media import clamp_with_padding, write_clip, write_hls
from vision.sample_video import FPS

WIDTH, HEIGHT = 1280, 720


def caption(text):
    picture = Image.effect_mandelbrot((WIDTH, HEIGHT), (-2, -1.2, 1, 1.2), 40).convert("RGB")
    font = ImageFont.load_default(size=28)
    ImageDraw.Draw(picture).text(
        (80, 600), text, font=font, fill="white", stroke_width=2, stroke_fill="black"
    )
    return picture


def dhash(picture):
    grey = np.asarray(picture.convert("L").resize((9, 8)), dtype=int)
    return grey[:, 1:] > grey[:, :-1]


def seen(picture):
    return fingerprint(av.VideoFrame.from_image(picture))


def picked(film, fps=10, threshold=0.95):
    return [found for found in sample_frames(film, fps, threshold) if isinstance(found, KeptFrame)]


def test_a_small_caption_that_changes_makes_another_frame_though_a_hash_of_the_whole_does_not_see_it():
    one, other = caption("Room 4711"), caption("Room 4712")
    assert (dhash(one) == dhash(other)).all()
    assert similarity(seen(one), seen(other)) < 0.95
    assert similarity(seen(one), seen(caption("Room 4711"))) == 1


def test_one_frame_is_picked_of_each_scene(film, expected_texts):
    frames = picked(film)
    assert len(frames) == len(expected_texts)
    assert [frame.timestamp_ms for frame in frames] == pytest.approx([0, 750, 1500, 2250], abs=100)
    assert Image.open(BytesIO(frames[0].jpeg)).size == (480, 270)


def test_frames_come_at_the_pace_that_was_asked_for(film):
    assert [found.timestamp_ms for found in sample_frames(film, 4, 0.95)] == pytest.approx(
        range(0, 3000, 250), abs=90
    )
    assert len(list(sample_frames(film, 100, 0.95))) == 3 * FPS


def test_the_threshold_says_how_like_a_frame_may_be(film):
    assert len(picked(film, threshold=0.5)) < len(picked(film, threshold=1))
    assert len(picked(film, threshold=1)) == len(list(sample_frames(film, 10, 1)))


def test_frames_are_read_one_after_the_other(film):
    frames = sample_frames(film, 10, 0.95)
    assert next(frames).timestamp_ms == 0
    frames.close()


@pytest.mark.parametrize("content", [b"", b"this is no video" * 100])
def test_what_is_no_video_is_called_so(tmp_path, content):
    path = tmp_path / "master.mp4"
    path.write_bytes(content)
    with pytest.raises(NotAVideo, match=r"^cannot read the frames of the video$"):
        picked(path)


def test_a_stream_has_all_of_the_video(film, tmp_path):
    positions = []
    write_hls(film, tmp_path, "index.m3u8", positions.append)
    assert "#EXT-X-ENDLIST" in (tmp_path / "index.m3u8").read_text()
    assert probe(tmp_path / "index.m3u8").duration == pytest.approx(3, abs=0.15)
    assert positions[-1] == pytest.approx(3000, abs=200)


def test_a_clip_has_exactly_what_was_asked_for(film, tmp_path):
    write_clip(film, tmp_path / "clip.mp4", 500, 1500, lambda _: None)
    assert probe(tmp_path / "clip.mp4").duration == pytest.approx(1, abs=0.1)


def test_padding_ends_where_the_video_does():
    assert clamp_with_padding(1500, 3000, 2000, 60_000) == (0, 5000)
    assert clamp_with_padding(58_000, 59_000, 2000, 60_000) == (56_000, 60_000)


def test_ffmpeg_says_why_it_failed(film, tmp_path):
    with pytest.raises(FfmpegFailed, match="No such file or directory"):
        write_clip(film, tmp_path / "nowhere" / "clip.mp4", 0, 100, lambda _: None)
