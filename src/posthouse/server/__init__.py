"""The HTTP API server.

``create_app`` returns an ASGI application: run it with ``posthouse server`` or mount it in your own
application. Application routes declare their permission with ``allow`` and receive an ``Access``: the
authenticated principal, and transactions restricted to its tenant. A router made by ``api_router`` answers
422 to bodies that are not valid JSON or that Postgres cannot store. Routes that accept file uploads read the
body with ``file_body``; routes that send files are declared with ``file_route`` and return ``stored_file``
or ``local_file``. ``app_pages`` serves pages in the layout of the console. ``signed_link`` gives players
access without a credential, on routes with ``allow_linked``.
"""

from posthouse.console import app_pages
from posthouse.identity import Permission
from posthouse.server.app import create_app
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.files import file_route, local_file, stored_file
from posthouse.server.http.links import allow_linked, signed_link, verify_link
from posthouse.server.http.requests import api_router, file_body

__all__ = [
    "Access",
    "Permission",
    "allow",
    "allow_linked",
    "api_router",
    "app_pages",
    "create_app",
    "file_body",
    "file_route",
    "local_file",
    "signed_link",
    "stored_file",
    "verify_link",
]
