"""Whether the server is there, for whoever balances load over several."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["health"])


@router.get("/health")
async def health() -> dict[str, str]:
    """Whether this process answers. It says nothing of the database: a restart would not mend that."""
    return {"status": "ok"}
