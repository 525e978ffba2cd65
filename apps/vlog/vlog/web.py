"""What the application serves: its API below /api/videos, and its page at /apps/vlog."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter

from posthouse.server import app_pages
from posthouse_media import HLS_JS
from vlog import routes, settings

PAGE = Path(__file__).with_name("page")

settings.playback_links()  # an invalid value stops the start
router = APIRouter()
router.include_router(routes.router)
router.include_router(app_pages("vlog", "Vlog", PAGE, modules={"hls.js": HLS_JS / "hls.js"}))
