"""The application. Its jobs are commands: schema.sql defines them, and no handler is needed."""

from __future__ import annotations

from pathlib import Path

import posthouse

app = posthouse.App(schema=Path(__file__).with_name("schema.sql"))
