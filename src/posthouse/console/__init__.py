"""The web console: one page with scripts and styles that use the HTTP API; and pages of applications."""

from posthouse.console.app_pages import LIST, AppPage, app_list, app_page_of, app_pages
from posthouse.console.routes import PUBLIC, router

__all__ = ["LIST", "PUBLIC", "AppPage", "app_list", "app_page_of", "app_pages", "router"]
