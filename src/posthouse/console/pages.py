"""Routes of the console. They need no authentication: they serve static files only; the API authenticates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from posthouse.console.assets import assets
from posthouse.console.serving import POLICY, new_nonce, render, root_of, send_asset

router = APIRouter(include_in_schema=False)
PUBLIC = {"/", "/console", "/console/assets/{version}/{path:path}", "/console/{path:path}"}


@router.get("/")
@router.get("/console")
async def enter(request: Request) -> Response:
    """Redirect to the console."""
    return RedirectResponse(f"{root_of(request)}console/")


@router.get("/console/assets/{version}/{path:path}")
async def asset(request: Request, version: str, path: str) -> Response:
    return send_asset(request, assets(), version, path)


@router.get("/console/{path:path}")
async def page(request: Request, path: str) -> Response:  # noqa: ARG001 - the script reads the path itself
    """Serve the page of the console, which is the same for all paths; its script routes by the URL."""
    nonce, base = new_nonce(), f"{root_of(request)}console/"
    preloads = "\n".join(
        f'    <link rel="modulepreload" href="{base}assets/{assets().version}/{path}" nonce="{nonce}">'
        for path in assets().paths(".js")
    )
    apps = escape(json.dumps(_navigation(getattr(request.app.state, "applications", []))))
    return render(request, "index.html", POLICY, nonce=nonce, base=escape(base), preloads=preloads, apps=apps)


def _navigation(applications: Sequence[Any]) -> list[tuple[str, str]]:
    """Return titles and paths of the applications for the navigation: the list of all, then their pages."""
    pages = [(one.title, one.page) for one in applications if one.page]
    return [("Applications", "/apps/"), *pages] if applications else []
