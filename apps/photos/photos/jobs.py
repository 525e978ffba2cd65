"""The application. Its jobs are commands: schema.sql defines them, and no handler is needed."""

from __future__ import annotations

import os
from pathlib import Path

import posthouse
from photos.place import settle

settle(os.environ)
app = posthouse.App(schema=Path(__file__).with_name("schema.sql"))
