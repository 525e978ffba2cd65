"""Recorded calls are heard, transcribed and analysed, those of each organisation by themselves."""

from calls.handlers import app

__all__ = ["app"]
