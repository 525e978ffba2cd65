"""Where an application keeps its files: one setting for all applications of an installation.

In this order: ``VISION_STORAGE_URL`` of the application itself; a folder with its name below
``POSTHOUSE_STORAGE_URL``; the bucket that ``S3_BUCKET`` names; a folder in ``data_dir``. Options of a bucket
are read from ``VISION_S3_…``, ``S3_…``, the Supabase project of ``SUPABASE_URL``, and ``AWS_…``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from posthouse.settings import load_settings

OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key")
_SUPABASE_ENDPOINT = "/storage/v1/s3"
_SUPABASE_REGION = "us-east-1"
"""Used if S3_REGION is not set. Supabase checks the signature with the region that the client sends."""


class AppStorage(NamedTuple):
    """The URL of a storage, ``file:///…`` or ``s3://bucket/prefix``, and the options of the bucket."""

    url: str
    options: dict[str, str]


def app_storage(name: str, env: Mapping[str, str] | None = None) -> AppStorage:
    """Return the storage of an application."""
    env = os.environ if env is None else env
    return AppStorage(_url(name, env), s3_options(env, name))


def app_folder(name: str, env: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of an application below POSTHOUSE_STORAGE_URL; None if that is not a folder."""
    shared = urlsplit(load_settings(env=env).storage_url)
    return Path(unquote(shared.path)) / name if shared.scheme == "file" else None


def s3_options(env: Mapping[str, str], name: str = "") -> dict[str, str]:
    """Return the options of a bucket that are set. obstore takes missing ones from AWS_…, or from the role of
    the machine.
    """
    prefixes = [f"{name.upper()}_S3_", "S3_"] if name else ["S3_"]
    found: dict[str, str] = {}
    for option in OPTIONS:
        values = (env.get(prefix + option.upper()) for prefix in prefixes)
        if value := next(filter(None, values), None):
            found[option] = value
    return {**_supabase(env, found), **found}


def _supabase(env: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the Supabase project, if no other endpoint is set."""
    url = env.get("SUPABASE_URL", "").rstrip("/")
    if not url or "endpoint" in found or env.get("AWS_ENDPOINT_URL"):
        return {}
    options = {"endpoint": url + _SUPABASE_ENDPOINT, "region": _SUPABASE_REGION}
    anon, service = env.get("SUPABASE_ANON_KEY"), env.get("SUPABASE_SERVICE_ROLE_KEY")
    if anon and service and "access_key_id" not in found:
        project = (urlsplit(url).hostname or "").partition(".")[0]
        options |= {"access_key_id": project, "secret_access_key": anon, "session_token": service}
    return options


def _url(name: str, env: Mapping[str, str]) -> str:
    if own := env.get(f"{name.upper()}_STORAGE_URL"):
        return own
    settings = load_settings(env=env)
    if settings.storage_url:
        return f"{settings.storage_url.rstrip('/')}/{name}"
    if bucket := env.get("S3_BUCKET"):
        return f"s3://{bucket}"
    return (settings.data_dir.absolute() / name).as_uri()
