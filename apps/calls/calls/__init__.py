"""Transcription and analysis of recorded calls, isolated by organisation."""

from calls.handlers import app

__all__ = ["app"]
