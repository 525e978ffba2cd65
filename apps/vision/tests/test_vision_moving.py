"""Where everything moves, only frames with other texts are read."""

from vision.bench.scenes import moving_footage, write_video
from vision.frame_sampler import EmptyFrame, KeptFrame, sample_frames
from vision.ocr import read_text

SIZE = (640, 360)


def test_a_caption_over_moving_footage_is_read_once(tmp_path):
    pictures, captions = moving_footage(SIZE, 6, texts=True)
    write_video(tmp_path / "film.mp4", SIZE, pictures)
    found = list(sample_frames(tmp_path / "film.mp4", 10, 0.95))
    picked = [one for one in found if isinstance(one, KeptFrame)]
    assert len(picked) <= 0.3 * len(found)
    got = {line.text for one in picked for line in read_text(one.jpeg, ["eng"], 0.6)}
    assert got == set(captions)
    empty = [one.timestamp_ms for one in found if isinstance(one, EmptyFrame)]
    assert empty, "a caption that disappears must end"
    assert all(at % 4000 >= 3000 for at in empty)


def test_moving_footage_without_text_is_not_read(tmp_path):
    pictures, _ = moving_footage(SIZE, 2, texts=False)
    write_video(tmp_path / "film.mp4", SIZE, pictures)
    assert {type(one) for one in sample_frames(tmp_path / "film.mp4", 10, 0.95)} == {EmptyFrame}
