"""The web console: one page, its scripts and styles. What it shows and does, it asks the API for."""

from posthouse.console.pages import PUBLIC, router

__all__ = ["PUBLIC", "router"]
