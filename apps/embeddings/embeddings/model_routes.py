"""HTTP routes to change the model of all tenants, for operators."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException

from embeddings.bodies import ModelChange, NewModel, required
from embeddings.db import Db, Row, fetch_one
from embeddings.models import find_models, store_models
from embeddings.providers import Rejected, configured_model, embed, full_name
from posthouse.server import Access, Permission, allow, api_router

router = api_router("", "embeddings")
Operator = Annotated[Access, allow(Permission.DEFINITIONS_WRITE)]
NONE = "no change of the model is in progress; start one with POST /embeddings/model"


@router.get("/embeddings/model")
async def show_model(access: Operator) -> Row:
    """Get the model of searches, and the progress of its change."""
    async with access.platform() as db:
        return await _shown(db)


@router.post("/embeddings/model", status_code=202)
async def change_model(new: NewModel, access: Operator) -> Row:
    """Change the model.

    All texts are embedded in the background. The active model serves searches until the next one has all
    vectors.
    """
    model = full_name(new.model)
    try:
        await embed(model, ["a text to see whether the model exists"])
    except Rejected as error:
        raise HTTPException(422, f"cannot use model {model}: {error}") from None
    except ConnectionError as error:
        raise HTTPException(503, f"cannot reach model {model}: {error}; retry later") from None
    async with access.platform() as db:
        if (await store_models(db)).active == model:
            raise HTTPException(409, f"model {model} is already active")
        asked = {"next": model, "texts_per_minute": new.texts_per_minute, "actor": access.actor}
        required(
            await fetch_one(db, "models_start", asked), "another change is in progress; cancel it first", 409
        )
        return await _shown(db)


@router.patch("/embeddings/model")
async def control_change(change: ModelChange, access: Operator) -> Row:
    """Pause or resume the change of the model, or set its rate.

    A pause takes effect after the current batch. Resuming also restarts a change whose job has failed.
    """
    async with access.platform() as db:
        asked = change.model_dump() | {
            "has_rate": "texts_per_minute" in change.model_fields_set,
            "actor": access.actor,
        }
        required(await fetch_one(db, "models_control", asked), NONE, 409)
        return await _shown(db)


@router.delete("/embeddings/model")
async def cancel_change(access: Operator) -> Row:
    """Cancel the change of the model.

    The active model stays; vectors of the other one are deleted when they have been unused for long enough.
    """
    async with access.platform() as db:
        required(await fetch_one(db, "models_cancel", {}), NONE, 409)
        return await _shown(db)


async def _shown(db: Db) -> Row:
    models = await find_models(db)
    shown = required(await fetch_one(db, "models_shown", {"next": models.next}), NONE)
    return {"active": models.active, "configured": configured_model()} | shown
