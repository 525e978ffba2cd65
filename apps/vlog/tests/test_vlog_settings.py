"""The names that the settings of the fleet have in the requirement document."""

from __future__ import annotations

from datetime import timedelta

import pytest

from posthouse import PosthouseError
from posthouse.cli.apps import settings_for
from posthouse.errors import ConfigurationError
from posthouse.settings import Settings
from vlog import app, settings
from vlog.library import Library, workspace

HOOK, SECRET = "https://example.com/hook", "a secret with more than thirty-two characters"
POSTHOUSE_VARIABLES = {
    "VLOG_WORKER_ADMIN_SECRET": (SECRET, "admin_secret", SECRET, ""),
    "VLOG_WORKER_CLAIM_DURATION_MINUTES": ("10", "simple_claim_seconds", 600, 1800),
    "VLOG_WORKER_HEARTBEAT_INTERVAL": ("15", "simple_heartbeat_seconds", 15, 30),
    "VLOG_WORKER_OFFLINE_THRESHOLD_MINUTES": ("2", "offline_seconds", 120, 0),
    "VLOG_STALE_JOB_CHECK_INTERVAL": ("90", "rescue_seconds", 90, 1),
    "VLOG_SSE_HEARTBEAT_INTERVAL": ("30", "sse_heartbeat_seconds", 30, 15),
    "VLOG_SSE_RECONNECT_TIMEOUT": ("3", "sse_retry_seconds", 3, 1),
    "VLOG_ALERT_WEBHOOK_URL": (HOOK, "alert_webhook_url", HOOK, ""),
    "VLOG_ALERT_RATE_LIMIT_SECONDS": ("60", "alert_cooldown_seconds", 60, 300),
    "VLOG_ALERT_WEBHOOK_TIMEOUT": ("5", "alert_timeout_seconds", 5, 10),
}


def test_variables_of_the_fleet_set_settings_of_posthouse(monkeypatch):
    assert POSTHOUSE_VARIABLES.keys() <= settings.POSTHOUSE_VARIABLES.keys()
    for variable, (value, name, _, default) in POSTHOUSE_VARIABLES.items():
        assert getattr(Settings(), name) == default, name
        monkeypatch.setenv(variable, value)
    found = settings_for({"vlog:app": app})
    assert {name: getattr(found, name) for _, name, _, _ in POSTHOUSE_VARIABLES.values()} == {
        name: expected for _, name, expected, _ in POSTHOUSE_VARIABLES.values()
    }
    monkeypatch.setenv("VLOG_WORKER_HEARTBEAT_INTERVAL", "often")
    with pytest.raises(ConfigurationError, match="VLOG_WORKER_HEARTBEAT_INTERVAL must be a number"):
        settings_for({"vlog:app": app})


def test_the_defaults_of_the_application(monkeypatch, tmp_path):
    for name in ("QUALITIES", "PRESET", "KEEP_REPLACED_SECONDS", "UPLOADS_DIR", "VIDEOS_DIR"):
        monkeypatch.delenv(f"VLOG_{name}")
    assert (settings.max_attempts(), settings.stale_timeout()) == (3, 1800)
    assert (settings.keep_completed_qualities(), settings.cleanup_partial_on_failure()) == (True, True)
    assert settings.critical_qualities() is None
    assert (settings.playback_links(), settings.playback_link_lifetime()) == ("signed", timedelta(hours=6))
    monkeypatch.setenv("VLOG_PLAYBACK_LINKS", "secret")
    with pytest.raises(PosthouseError, match="VLOG_PLAYBACK_LINKS must be public or signed, not 'secret'"):
        settings.playback_links()
    assert settings.qualities() == ["source", "2160p", "1440p", "1080p", "720p", "480p", "360p"]
    assert settings.uploads_dir(tmp_path) == tmp_path / "vlog" / "uploads"


def test_an_attempt_deletes_what_killed_attempts_left_and_they_cannot_publish_it(library, tmp_path):
    videos = Library(tmp_path)
    killed = library / "a-film" / ".7-killed"
    killed.mkdir(parents=True)
    (killed / "index.m3u8").write_text("half of it")
    with videos.build_output("a-film", "7") as folder:
        (folder / "index.m3u8").write_text("all of it")
        with pytest.raises(FileNotFoundError):  # the late attempt, which lost its lease
            killed.rename(videos.output("a-film", "7"))
    assert [file.name for file in (library / "a-film").iterdir()] == ["7"]
    assert (videos.output("a-film", "7") / "index.m3u8").read_text() == "all of it"


@pytest.mark.parametrize("kept", [False, True])
def test_files_of_a_failed_attempt_are_deleted_unless_they_are_to_be_kept(monkeypatch, tmp_path, kept):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("VLOG_CLEANUP_PARTIAL_ON_FAILURE", "false" if kept else "true")
    with pytest.raises(FileNotFoundError), workspace() as folder:
        (folder / "no such folder" / "segment_00000.ts").write_bytes(b"x")
    assert folder.exists() == kept
