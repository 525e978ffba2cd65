"""What the console and the pages of applications share: static files, and pages with a content policy."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from html import escape
from string import Template

from fastapi import HTTPException, Request, Response

from posthouse.console.assets import Assets, assets

_FOREVER = "public, max-age=31536000, immutable"
POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)
_VENDORED = {"preact": "preact.js", "preact/hooks": "hooks.js", "htm": "htm.js"}


def send_asset(request: Request, served: Assets, version: str, path: str) -> Response:
    """Return a static file, compressed if the browser accepts that; 404 for other versions."""
    found = served.find(path)
    if found is None or version != served.version:
        raise HTTPException(404, "file not found: the page was updated; reload it")
    headers = {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            found.zipped, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"}
        )
    return Response(found.content, media_type=found.media_type, headers=headers)


def render(
    request: Request,
    *,
    title: str,
    base: str,
    main: str,
    modules: dict[str, str] | None = None,
    styles: Iterable[str] = (),
    preloads: Iterable[str] = (),
    apps: Sequence[tuple[str, str]] = (),
    policy: str = POLICY,
) -> Response:
    """Return a page with the layout of the console.

    - ``base``: the URL path that links of the page are relative to.
    - ``main``: the URL of the script that renders the page; ``modules``: URLs of modules by importable name.
    - ``styles``, ``preloads``: URLs of further style sheets, and of modules that are loaded early.
    - ``apps``: titles and paths of the applications in the navigation.
    """
    template = assets().find("page.html")
    assert template is not None
    nonce, own = secrets.token_urlsafe(16), console_assets(request)
    imports = {name: f"{own}/vendor/{file}" for name, file in _VENDORED.items()} | (modules or {})
    text = Template(template.content.decode()).substitute(
        root=escape(root_of(request)),
        assets=escape(own),
        title=escape(title),
        base=escape(base),
        main=escape(main),
        apps=escape(json.dumps(apps)),
        nonce=nonce,
        imports=json.dumps({"imports": imports}).replace("<", "\\u003c"),
        styles="\n".join(f'    <link rel="stylesheet" href="{escape(url)}">' for url in styles),
        preloads="\n".join(
            f'    <link rel="modulepreload" href="{escape(url)}" nonce="{nonce}">' for url in preloads
        ),
    )
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": policy.format(nonce=nonce),
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Response(text, media_type=template.media_type, headers=headers)


def root_of(request: Request) -> str:
    """Return the URL path that the server is mounted at, with a slash at the end."""
    return f"{request.scope.get('root_path', '')}/"


def console_assets(request: Request) -> str:
    return f"{root_of(request)}console/assets/{assets().version}"
