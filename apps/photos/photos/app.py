"""The application. Its jobs are commands, defined in schema.sql; there are no handlers."""

from __future__ import annotations

import os
from pathlib import Path

import posthouse
from photos.config import apply_defaults
from posthouse.blobs import app_folder

apply_defaults(os.environ, app_folder("photos"))
app = posthouse.App(schema=Path(__file__).with_name("schema.sql"))
