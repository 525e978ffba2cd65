"""Pages of applications: static files in the layout of the console, with its login."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from posthouse.console.assets import Assets, read_files
from posthouse.console.serving import POLICY, console_assets, render, root_of, send_asset
from posthouse.errors import ConfigurationError

_POLICY = f"{POLICY}; media-src 'self' blob:; worker-src 'self' blob:"
_OWN_MODULES = {
    f"posthouse/{name}": Path(__file__).with_name("app_modules") / name
    for name in ("app.js", "row-actions.js", "search.js", "upload.js")
}
"""Modules that the console itself does not load."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


class AppPage(NamedTuple):
    """The page of an application. Endpoints that have it as an attribute serve static files to all."""

    name: str
    title: str


LIST = AppPage("", "Applications")


def app_pages(name: str, title: str, folder: Path, *, modules: Mapping[str, Path] | None = None) -> APIRouter:
    """Return a router that serves the pages of an application below ``/apps/{name}/``.

    - ``folder``: static files, with ``main.js`` as the entry point. All style sheets in it are linked.
    - ``modules``: further JavaScript modules by the name that scripts import, such as ``hls.js``.

    The files are public, like those of the console. The routes that they call authenticate.
    """
    if not _NAME.fullmatch(name) or name == "assets":
        raise ConfigurationError(
            f"invalid name of pages {name!r}: use lower-case letters, digits and hyphens, but not 'assets'"
        )
    pages = _Pages(f"/apps/{name}", title, folder, {**_OWN_MODULES, **(modules or {})})
    return _router(pages, "/{path:path}", AppPage(name, title))


def app_list() -> APIRouter:
    """Return a router that serves the list of all applications at ``/apps/``."""
    pages = _Pages("/apps", "Applications", Path(__file__).with_name("app_list"), _OWN_MODULES)
    return _router(pages, "/", LIST)


def _router(pages: _Pages, page_path: str, page: AppPage) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, endpoint in pages.endpoints(page_path).items():
        setattr(endpoint, "app_page", page)  # noqa: B010 - functions have no such attribute
        router.add_api_route(f"{pages.path}{path}", endpoint, methods=["GET"])
    return router


def app_page_of(endpoint: object) -> AppPage | None:
    """Return the page of an application that an endpoint serves, or None."""
    page = getattr(endpoint, "app_page", None)
    return page if isinstance(page, AppPage) else None


class _Pages:
    def __init__(self, path: str, title: str, folder: Path, modules: dict[str, Path]) -> None:
        self.path = path
        self._title = title
        self._modules = modules
        self._assets = cache(lambda: _read(folder, modules))

    def endpoints(self, page_path: str) -> dict[str, Callable[..., Any]]:
        async def redirect(request: Request) -> Response:
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"{self._base(request)}{query}")

        async def asset(request: Request, version: str, path: str) -> Response:
            return send_asset(request, self._assets(), version, path)

        async def page(request: Request) -> Response:
            return self._page(request)

        return {"": redirect, "/assets/{version}/{path:path}": asset, page_path: page}

    def _base(self, request: Request) -> str:
        return f"{root_of(request)}{self.path[1:]}/"

    def _page(self, request: Request) -> Response:
        base = self._base(request)
        own = f"{base}assets/{self._assets().version}"
        modules = {name: f"{own}/modules/{path.name}" for name, path in self._modules.items()}
        return render(
            request,
            title=self._title,
            base=base,
            main=f"{own}/main.js",
            modules={"posthouse/": f"{console_assets(request)}/js/", **modules},
            styles=[f"{own}/{path}" for path in self._assets().paths(".css")],
            policy=_POLICY,
        )


def _read(folder: Path, modules: dict[str, Path]) -> Assets:
    contents = {f"modules/{path.name}": path.read_bytes() for path in modules.values()}
    return Assets(read_files(folder) | contents)
