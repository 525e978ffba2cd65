"""Where applications keep their files: one setting, and the names that other deployments use."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.blobs import app_folder, app_storage

SHARED = {"POSTHOUSE_STORAGE_URL": "s3://shared/files"}
KEYS = {"S3_ACCESS_KEY_ID": "id", "S3_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({"POSTHOUSE_DATA_DIR": "/data"}, "file:///data/vision"),
        ({"S3_BUCKET": "videos"}, "s3://videos"),
        ({**SHARED, "S3_BUCKET": "videos"}, "s3://shared/files/vision"),
        ({"POSTHOUSE_STORAGE_URL": "file:///srv/files/"}, "file:///srv/files/vision"),
        ({**SHARED, "VISION_STORAGE_URL": "s3://own"}, "s3://own"),
        ({**SHARED, "CALLS_STORAGE_URL": "s3://own"}, "s3://shared/files/vision"),
    ],
)
def test_an_application_uses_the_shared_storage_unless_it_has_its_own(env, url):
    assert app_storage("vision", env).url == url


def test_the_file_of_the_settings_counts_too(tmp_path):
    (tmp_path / "posthouse.toml").write_text('storage_url = "file:///srv/files"\n')
    assert app_storage("calls", {}).url == "file:///srv/files/calls"


def test_options_of_a_bucket_are_read_from_the_names_of_the_application_first():
    env = {**KEYS, "S3_ENDPOINT": "https://spaces.example", "VISION_S3_ENDPOINT": "https://own.example"}
    assert app_storage("vision", env).options == {
        "endpoint": "https://own.example", "access_key_id": "id", "secret_access_key": "secret",
    }  # fmt: skip
    assert app_storage("calls", env).options["endpoint"] == "https://spaces.example"


def test_a_supabase_project_is_an_endpoint_and_its_keys_a_session():
    env = {"SUPABASE_URL": "https://abc.supabase.co", "SUPABASE_SERVICE_ROLE_KEY": "service"}
    assert app_storage("vision", env).options == {
        "endpoint": "https://abc.supabase.co/storage/v1/s3", "region": "us-east-1",
    }  # fmt: skip
    session = app_storage("vision", {**env, "SUPABASE_ANON_KEY": "anon"}).options
    assert (session["access_key_id"], session["secret_access_key"]) == ("abc", "anon")
    assert session["session_token"] == "service"
    assert "session_token" not in app_storage("vision", {**env, **KEYS, "SUPABASE_ANON_KEY": "anon"}).options
    other = app_storage("vision", {**env, "S3_ENDPOINT": "https://spaces.example"}).options
    assert other == {"endpoint": "https://spaces.example"}


def test_applications_that_need_a_folder_get_one_only_from_a_folder():
    folder = {"POSTHOUSE_STORAGE_URL": "file:///srv/my%20files"}
    assert app_folder("vlog", folder) == Path("/srv/my files/vlog")
    assert app_folder("vlog", SHARED) is None
    assert app_folder("vlog", {}) is None
