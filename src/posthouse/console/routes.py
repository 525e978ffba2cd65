"""Routes of the console. They need no authentication: they serve static files only; the API authenticates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from posthouse.console.assets import assets
from posthouse.console.serving import console_assets, render, root_of, send_asset

router = APIRouter(include_in_schema=False)
PUBLIC = {"/", "/console", "/console/assets/{version}/{path:path}", "/console/{path:path}"}


@router.get("/")
@router.get("/console")
async def redirect_to_console(request: Request) -> Response:
    return RedirectResponse(f"{root_of(request)}console/")


@router.get("/console/assets/{version}/{path:path}")
async def serve_asset(request: Request, version: str, path: str) -> Response:
    return send_asset(request, assets(), version, path)


@router.get("/console/{path:path}")
async def serve_page(request: Request, path: str) -> Response:  # noqa: ARG001 - the script reads the path itself
    """Serve the page of the console, which is the same for all paths; its script routes by the URL."""
    own = console_assets(request)
    return render(
        request,
        title="Posthouse",
        base=f"{root_of(request)}console/",
        main=f"{own}/js/main.js",
        preloads=[f"{own}/{path}" for path in assets().paths(".js")],
        apps=_navigation(getattr(request.app.state, "applications", [])),
    )


def _navigation(applications: Sequence[Any]) -> list[tuple[str, str]]:
    """Return titles and paths of the applications for the navigation: the list of all, then their pages."""
    pages = [(app.title, app.page) for app in applications if app.page]
    return [("Applications", "/apps/"), *pages] if applications else []
