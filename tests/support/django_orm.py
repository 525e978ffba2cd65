"""Databases of Django's ORM for tests. Django is configured once per process, whichever tests come first."""

from contextlib import contextmanager
from uuid import uuid4

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict


@contextmanager
def django_database(url, **options):
    """Let Django know a database, and yield its connections and the alias of this one."""
    if not settings.configured:
        settings.configure(DATABASES={})
        django.setup()
    from django.db import connections  # noqa: PLC0415 - needs the settings

    parts = conninfo_to_dict(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
        "OPTIONS": options,
    }
    alias = f"test-{uuid4()}"
    connections.settings[alias] = connections.configure_settings({"default": database})["default"]
    yield connections, alias
    connections.settings.pop(alias)
