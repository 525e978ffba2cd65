"""HTTP routes to change the model of all tenants, for operators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import HTTPException

from embeddings import models
from embeddings.db import Db, Row
from embeddings.providers import Rejected
from embeddings.requests import ModelChange, NewModel
from posthouse.server import Access, Permission, allow, api_router

router = api_router("", "embeddings")
Operator = Annotated[Access, allow(Permission.DEFINITIONS_WRITE)]


@asynccontextmanager
async def _session(access: Access) -> AsyncIterator[Db]:
    try:
        async with access.platform_transaction() as db:
            yield db
    except models.ChangeConflict as error:
        raise HTTPException(409, str(error)) from None


@router.get("/embeddings/model")
async def show_model(access: Operator) -> Row:
    """Get the active model and the progress of a change."""
    async with _session(access) as db:
        return await models.show_models(db)


@router.post("/embeddings/model", status_code=202)
async def change_model(new: NewModel, access: Operator) -> Row:
    """Change the model.

    All texts are embedded in the background. The active model serves searches until the next one has all
    vectors.
    """
    try:
        model = await models.check_model(new.model)
    except Rejected as error:
        raise HTTPException(422, f"cannot use model {new.model}: {error}") from None
    except ConnectionError as error:
        raise HTTPException(503, f"cannot reach model {new.model}: {error}; retry later") from None
    async with _session(access) as db:
        await models.start_change(db, model, new.texts_per_minute, access.actor)
        return await models.show_models(db)


@router.patch("/embeddings/model")
async def control_change(change: ModelChange, access: Operator) -> Row:
    """Pause or resume the change of the model, or set its rate.

    A pause takes effect after the current batch. Resuming also restarts a change whose job has failed.
    """
    async with _session(access) as db:
        await models.control_change(db, change.model_dump(exclude_unset=True), access.actor)
        return await models.show_models(db)


@router.delete("/embeddings/model")
async def cancel_change(access: Operator) -> Row:
    """Cancel the change of the model.

    The active model stays; vectors of the other one are deleted when they have been unused for long enough.
    """
    async with _session(access) as db:
        await models.cancel_change(db)
        return await models.show_models(db)
