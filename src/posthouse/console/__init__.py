"""The web console: one page with scripts and styles that use the HTTP API; and pages of applications."""

from posthouse.console.app_pages import AppPage, app_page_of, app_pages
from posthouse.console.pages import PUBLIC, router

__all__ = ["PUBLIC", "AppPage", "app_page_of", "app_pages", "router"]
