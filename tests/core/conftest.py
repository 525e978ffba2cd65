"""Fewer examples than Hypothesis tries by default, and no limit of the time that one may take."""

from hypothesis import settings

settings.register_profile("suite", max_examples=40, deadline=None)
settings.load_profile("suite")
