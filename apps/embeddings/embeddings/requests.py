"""Bodies of requests, and the error for a row that does not exist."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import HTTPException
from pydantic import BaseModel, Field, StringConstraints, ValidationInfo, field_validator

from embeddings.db import Row

NonEmptyText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
Rate = Annotated[int, Field(ge=1, le=1_000_000)] | None


def row_or_error(row: Row | None, detail: str, status: int = 404) -> Row:
    """Return the row; without one, raise an error with this message."""
    if row is None:
        raise HTTPException(status, detail)
    return row


class NewRule(BaseModel, extra="forbid"):
    """A rule to create."""

    rule_id: Annotated[NonEmptyText, Field(max_length=200)] = Field(
        description="Name of the rule, unique per tenant."
    )
    title: NonEmptyText = Field(description="Title of the rule.")
    guidance: NonEmptyText = Field(description="What the rule demands.")
    rationale: NonEmptyText | None = Field(default=None, description="Why the rule exists.")
    priority: Literal["low", "medium", "high", "critical"] = Field(
        default="medium", description="Priority of the rule, which sets the priority of its job."
    )


class RuleChange(BaseModel, extra="forbid"):
    """The fields to change; omitted fields stay unchanged. Null removes the rationale."""

    title: NonEmptyText | None = Field(default=None, description="Title of the rule.")
    guidance: NonEmptyText | None = Field(default=None, description="What the rule demands.")
    rationale: NonEmptyText | None = Field(default=None, description="Why the rule exists.")
    priority: Literal["low", "medium", "high", "critical"] | None = Field(
        default=None, description="Priority of the rule, which sets the priority of its job."
    )

    @field_validator("title", "guidance", "priority", mode="before")
    @classmethod
    def _reject_null(cls, value: Any, field: ValidationInfo) -> Any:
        if value is None:
            raise ValueError(f"`{field.field_name}` must not be null; omit the field to leave it unchanged")
        return value


class NewJob(BaseModel, extra="forbid"):
    """An embedding to request."""

    rule_id: UUID = Field(description="Id of the rule.")
    priority: Literal["low", "normal", "high", "urgent"] = Field(
        default="normal", description="Priority of the job."
    )
    embedding_model: NonEmptyText | None = Field(
        default=None, description="Model; default: that of the provider."
    )


class NewModel(BaseModel, extra="forbid"):
    """A change of the model."""

    model: NonEmptyText = Field(description="Model, with or without its provider: `ollama/nomic-embed-text`.")
    texts_per_minute: Rate = Field(default=None, description="Maximum rate; null for no limit.")


class ModelChange(BaseModel, extra="forbid"):
    """The fields of a running change to set; omitted fields stay unchanged."""

    is_paused: bool | None = Field(default=None, description="Whether the change is paused.")
    texts_per_minute: Rate = Field(default=None, description="Maximum rate; null for no limit.")
