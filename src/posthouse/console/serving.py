"""What the console and the pages of applications share: static files, and pages with a content policy."""

from __future__ import annotations

import secrets
from html import escape
from string import Template

from fastapi import HTTPException, Request, Response

from posthouse.console.assets import Assets, assets

_FOREVER = "public, max-age=31536000, immutable"
POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


def send_asset(request: Request, kept: Assets, version: str, path: str) -> Response:
    """Return a static file, compressed if the browser accepts that; 404 for other versions."""
    found = kept.find(path)
    if found is None or version != kept.version:
        raise HTTPException(404, "file not found: the page was updated; reload it")
    headers = {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            found.zipped, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"}
        )
    return Response(found.content, media_type=found.media_type, headers=headers)


def render(request: Request, template: str, policy: str, *, nonce: str, **values: str) -> Response:
    """Return a page of the console's static files. The values must be escaped."""
    shell = assets().find(template)
    assert shell is not None
    text = Template(shell.content.decode()).substitute(
        values, nonce=nonce, root=escape(root_of(request)), assets=escape(console_assets(request))
    )
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": policy.format(nonce=nonce),
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Response(text, media_type=shell.media_type, headers=headers)


def new_nonce() -> str:
    return secrets.token_urlsafe(16)


def root_of(request: Request) -> str:
    """Return the URL path that the server is mounted at, with a slash at the end."""
    return f"{request.scope.get('root_path', '')}/"


def console_assets(request: Request) -> str:
    return f"{root_of(request)}console/assets/{assets().version}"
