"""Applications: what this server runs, and their demos."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import HTTPException, Path, Request, Response
from pydantic import Field

from posthouse import insights
from posthouse.console import AppPage
from posthouse.identity import Permission
from posthouse.insights import JobDetail, JobFilter
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import api_router
from posthouse.server.http.responses import json_response
from posthouse.server.schemas.jobs import ApiModel
from posthouse.storage.actions import DEMO_KIND, DEMO_TENANT, demo_subject, enqueue_demo
from posthouse.storage.queries import Db

router = api_router("/apps", "apps")
Reader = Annotated[Access, allow(Permission.JOBS_READ)]
Runner = Annotated[Access, allow(Permission.DEMOS_RUN)]
Name = Annotated[str, Path(max_length=40, description="Name of the application.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationInfo:
    """An application of this server."""

    name: str
    title: str
    summary: str
    page: str | None
    has_demo: bool
    demo: JobDetail | None


class NewDemo(ApiModel):
    """A run of a demo."""

    size: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Amount of work, like --size of `posthouse demo`."
    )


@router.get("", response_model=list[ApplicationInfo])
async def list_apps(request: Request, access: Reader) -> Response:
    """List the applications that this server runs.

    Callers who may run demos also get the latest run of each.
    """
    applications: list[Application] = request.app.state.applications
    shows_demos = access.principal.can(Permission.DEMOS_RUN)
    async with access.platform_transaction() as db:
        runs = {
            one.name: await _latest_run(db, one.name) for one in applications if shows_demos and one.has_demo
        }
    return json_response([ApplicationInfo(**one._asdict(), demo=runs.get(one.name)) for one in applications])


@router.post("/{name}/demo", status_code=202, response_model=JobDetail)
async def run_demo(request: Request, name: Name, new: NewDemo, access: Runner) -> Response:
    """Run the demo of an application as a job.

    The demo uses the database and the workers of this installation, and its data stays there. While a run of
    the same demo is active, that run is returned.
    """
    if not any(one.name == name and one.has_demo for one in request.app.state.applications):
        raise HTTPException(
            404, f"application {name!r} has no demo that this server can run; start it with `posthouse up`"
        )
    async with access.platform_transaction() as db:
        await enqueue_demo(db, name, new.model_dump(exclude_none=True), actor=access.actor)
        return json_response(await _latest_run(db, name), 202)


async def _latest_run(db: Db, name: str) -> JobDetail | None:
    chosen = JobFilter(kind=DEMO_KIND, tenant=DEMO_TENANT, subject=demo_subject(name), limit=1)
    found = await insights.list_jobs(db, chosen)
    return await insights.get_job(db, found[0].id) if found else None


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
