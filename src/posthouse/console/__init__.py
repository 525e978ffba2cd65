"""The web console: one page with scripts and styles that use the HTTP API."""

from posthouse.console.pages import PUBLIC, router

__all__ = ["PUBLIC", "router"]
