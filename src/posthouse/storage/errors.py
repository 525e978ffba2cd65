"""Turns what Postgres says into the error tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from posthouse.errors import (
    DatabaseUnavailable,
    DuplicateJob,
    InactiveDefinition,
    InvalidDefinition,
    InvalidEvent,
    InvalidJob,
    InvalidKey,
    InvalidLimit,
    InvalidPayload,
    InvalidTenant,
    InvalidTrigger,
    PosthouseError,
    SchemaError,
)

_BY_SQLSTATE: dict[str, type[PosthouseError]] = {
    "PH001": DuplicateJob,
    "PH002": InvalidJob,
    "PH010": InactiveDefinition,
    "PH011": InvalidDefinition,
    "PH012": InvalidLimit,
    "PH013": InvalidEvent,
    "PH014": InvalidTrigger,
    "PH020": InvalidKey,
    "PH021": InvalidTenant,
    "22P02": InvalidPayload,  # invalid_text_representation
    "22P05": InvalidPayload,  # untranslatable_character: \u0000
    "22003": InvalidJob,  # numeric_value_out_of_range
    "22008": InvalidJob,  # datetime_field_overflow
    "54001": InvalidPayload,  # statement_too_complex: JSON nested too deep
    "3F000": SchemaError,  # invalid_schema_name
    "42P01": SchemaError,  # undefined_table
    "42883": SchemaError,  # undefined_function
}


def explain(error: Exception) -> PosthouseError | None:
    """The error of ours that this one from any driver means; None if it is not about us."""
    state = getattr(error, "sqlstate", None)
    original = getattr(error, "orig", None) or error.__cause__
    if state is None and isinstance(original, Exception):  # SQLAlchemy and Django wrap the driver's
        state = getattr(original, "sqlstate", None)
    kind = _BY_SQLSTATE.get(state or "")
    if kind is None:
        return None
    told = str(error).partition("\nCONTEXT:")[0]
    if kind is SchemaError:  # ours, or that of an application
        told = told.partition("\n")[0]
        return SchemaError(f"the schema is missing or too old ({told}): run `posthouse migrate`")
    return kind(told)


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        ours = explain(error)
        if ours is not None:
            raise ours from error
        raise DatabaseUnavailable(f"Postgres cannot be reached: {error}") from error
    except Exception as error:
        ours = explain(error)
        if ours is None:
            raise
        raise ours from error
