"""Routes of the console. They need no authentication: they serve static files only; the API authenticates."""

from __future__ import annotations

import secrets
from html import escape
from string import Template

from fastapi import APIRouter, HTTPException, Request, Response
from starlette.responses import RedirectResponse

from posthouse.console.assets import assets

router = APIRouter(include_in_schema=False)
PUBLIC = {"/", "/console", "/console/assets/{version}/{path:path}", "/console/{path:path}"}
_FOREVER = "public, max-age=31536000, immutable"
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/")
@router.get("/console")
async def enter(request: Request) -> Response:
    """Redirect to the console."""
    return RedirectResponse(f"{_base(request)}")


@router.get("/console/assets/{version}/{path:path}")
async def asset(request: Request, version: str, path: str) -> Response:
    found = assets().find(path)
    if found is None or version != assets().version:
        raise HTTPException(404, "file not found: the console was updated; reload the page")
    headers = {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            found.zipped, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"}
        )
    return Response(found.content, media_type=found.media_type, headers=headers)


@router.get("/console/{path:path}")
async def page(request: Request, path: str) -> Response:  # noqa: ARG001 - the script reads the path itself
    """Serve the page of the console, which is the same for all paths; its script routes by the URL."""
    nonce = secrets.token_urlsafe(16)
    kept = assets()
    shell = kept.find("index.html")
    assert shell is not None
    at = f"{_base(request)}assets/{kept.version}"
    preloads = "\n".join(
        f'    <link rel="modulepreload" href="{at}/{path}" nonce="{nonce}">' for path in kept.paths(".js")
    )
    text = Template(shell.content.decode()).substitute(
        base=escape(_base(request)), assets=escape(at), nonce=nonce, preloads=preloads
    )
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": _POLICY.format(nonce=nonce),
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Response(text, media_type=shell.media_type, headers=headers)


def _base(request: Request) -> str:
    """Return the URL path of the console, including the path it is mounted at."""
    return f"{request.scope.get('root_path', '')}/console/"
