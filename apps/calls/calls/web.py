"""What the application serves: its API below /calls, and its page at /apps/calls."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter

from calls import routes
from posthouse.server import app_pages

PAGE = Path(__file__).with_name("page")

router = APIRouter()
router.include_router(routes.router)
router.include_router(app_pages("calls", "Calls", PAGE))
