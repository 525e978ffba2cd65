"""Measurements of reading and frame selection on generated videos: ``python -m vision.bench``."""
