"""Uploaded videos become HLS quality ladders, made by workers that have neither the database nor the disk."""

from vlog.handlers import app

__all__ = ["app"]
