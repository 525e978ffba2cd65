"""Diagnostics for operators: doctor findings and effective settings."""

from __future__ import annotations

from fastapi import Request, Response

from posthouse.identity import Permission
from posthouse.insights.doctor import Report
from posthouse.insights.settings import SettingInfo
from posthouse.server.access import allow
from posthouse.server.answers import answer
from posthouse.server.bodies import api_router
from posthouse.server.examining import Examiner

router = api_router("/admin", "monitoring")
OPERATORS = [allow(Permission.OVERVIEW_READ)]


@router.get("/doctor", response_model=Report, dependencies=OPERATORS)
async def ask_doctor(request: Request) -> Response:
    """Run the doctor checks of the database and the queue.

    Each finding says what is wrong, what it means and what to do. Results are cached for a few seconds.
    """
    examiner: Examiner = request.app.state.examiner
    return answer(await examiner.report.get())


@router.get("/settings", response_model=list[SettingInfo], dependencies=OPERATORS)
async def list_settings(request: Request) -> Response:
    """List the effective settings and their sources.

    Secrets are masked.
    """
    return answer(request.app.state.settings_in_effect)
