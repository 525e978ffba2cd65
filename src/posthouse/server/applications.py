"""The applications that a server runs, as the start page lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from posthouse.console import AppPage


class Application(NamedTuple):
    """An application, without the state of its demo."""

    name: str
    title: str
    summary: str
    """One sentence: the description of its package."""
    page: str | None = None
    """The path of its page."""
    has_demo: bool = False
    """Whether a worker of this server can run its demo."""


def listed(installed: Sequence[Application], pages: Iterable[AppPage]) -> list[Application]:
    """Return the applications by title, with their pages. A page alone is an application too."""
    found = {one.name: one for one in installed}
    for page in pages:
        known = found.get(page.name, Application(page.name, page.title, ""))
        found[page.name] = known._replace(title=page.title, page=f"/apps/{page.name}/")
    return sorted(found.values(), key=lambda one: one.title)
