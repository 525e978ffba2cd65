"""The Redis settings of the application."""

import os

import pytest

from posthouse.settings import load_settings
from vlog.dispatch import REDIS_VARIABLES, channel, use_redis_settings


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    for name in (*REDIS_VARIABLES, *REDIS_VARIABLES.values()):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_redis_settings_have_names_of_the_application(monkeypatch, tmp_path):
    monkeypatch.setenv("VLOG_REDIS_URL", "redis://cache:6379/3")
    monkeypatch.setenv("VLOG_JOB_QUEUE_MODE", "hybrid")
    monkeypatch.setenv("VLOG_REDIS_POOL_SIZE", "12")
    use_redis_settings()
    found = load_settings(directory=tmp_path)
    assert (found.redis_url, found.dispatch, found.redis_pool_size) == ("redis://cache:6379/3", "hybrid", 12)


def test_without_a_redis_url_the_mode_is_database(monkeypatch, tmp_path):
    monkeypatch.setenv("VLOG_JOB_QUEUE_MODE", "hybrid")
    use_redis_settings()
    assert load_settings(directory=tmp_path).dispatch == "database"


def test_the_settings_of_posthouse_win(monkeypatch):
    monkeypatch.setenv("POSTHOUSE_REDIS_URL", "redis://own:6379/0")
    monkeypatch.setenv("VLOG_REDIS_URL", "redis://cache:6379/3")
    use_redis_settings()
    assert os.environ["POSTHOUSE_REDIS_URL"] == "redis://own:6379/0"


def test_a_video_has_channels_of_its_own():
    transcode = {"definition_key": "vlog.transcode", "subject": "vlog/12"}
    assert channel("progress", transcode) == "transcode_progress:12"
    assert channel("complete", transcode) == "transcode_complete:12"
    assert channel("complete", {**transcode, "definition_key": "vlog.publish"}) is None
