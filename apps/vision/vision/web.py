"""What the application serves: its API below /vision, and its page at /apps/vision."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter

from posthouse.server import app_pages
from posthouse_media import HLS_JS
from vision import routes

PAGE = Path(__file__).with_name("page")

router = APIRouter()
router.include_router(routes.router)
router.include_router(app_pages("vision", "Vision", PAGE, modules={"hls.js": HLS_JS / "hls.js"}))
