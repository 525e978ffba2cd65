"""Sound in and out: what is extracted, and what the local recognizer hears."""

import subprocess

import av
import pytest

from calls import whisper
from calls.audio import NoAudio, convert_to_flac, convert_to_opus, probe
from calls.speechkit import Operation
from posthouse_media import ffmpeg_path


def made(target, *options):
    subprocess.run([ffmpeg_path(), "-v", "error", "-y", *options, target], check=True)
    return target


def test_two_channels_stay_two_at_sixteen_thousand_samples(audio_files, recording):
    flac, ogg = audio_files
    with av.open(str(flac)) as container:
        assert (container.streams.audio[0].rate, container.streams.audio[0].codec_context.name) == (
            16_000,
            "flac",
        )
    assert ogg.read_bytes()[:4] == b"OggS"
    lengths = [probe(path).duration for path in (recording, flac, ogg)]
    assert lengths == pytest.approx([lengths[0]] * 3, abs=0.1)
    assert {probe(path).channels for path in (flac, ogg)} == {2}


def test_the_sound_of_a_video_is_taken_and_more_channels_become_two(tmp_path):
    video = made(
        tmp_path / "meeting.mkv",
        *("-f", "lavfi", "-i", "testsrc=size=64x64:rate=5:duration=1"),
        *("-f", "lavfi", "-i", "anoisesrc=duration=1", "-ac", "6", "-c:a", "flac"),
    )
    with convert_to_flac(video) as flac:
        assert probe(flac).channels == 2
        with av.open(str(flac)) as container:
            assert not container.streams.video


def test_what_has_no_sound_is_refused(tmp_path):
    silent = made(tmp_path / "film.mkv", "-f", "lavfi", "-i", "testsrc=size=64x64:rate=5:duration=1")
    with pytest.raises(NoAudio), convert_to_flac(silent):
        pass
    torn = tmp_path / "torn.wav"
    torn.write_bytes(b"RIFF")
    with pytest.raises(NoAudio), convert_to_opus(torn):
        pass


def test_silence_yields_no_words(tmp_path):
    quiet = made(
        tmp_path / "quiet.ogg", "-f", "lavfi", "-i", "anullsrc=r=16000:cl=mono", "-t", "2", "-c:a", "libopus"
    )
    answer = whisper.recognize(quiet, "an operation", lambda _: None)
    assert Operation.model_validate(answer).transcript().phrases == []


def test_other_weights_are_refused(tmp_path):
    forged = tmp_path / "model.bin"
    forged.write_bytes(b"weights")
    with pytest.raises(whisper.ModelMismatch, match="not 1a5afae0"):
        whisper.verify_checksum(forged)
