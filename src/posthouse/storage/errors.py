"""Translate errors of Postgres to Posthouse errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from posthouse.errors import (
    DatabaseUnavailable,
    DefinitionExists,
    DuplicateJob,
    Forbidden,
    InactiveDefinition,
    InvalidAlert,
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
    TooManyKeys,
)

BY_SQLSTATE: dict[str, type[PosthouseError]] = {
    "PH001": DuplicateJob,
    "PH002": InvalidJob,
    "PH010": InactiveDefinition,
    "PH011": InvalidDefinition,
    "PH012": InvalidLimit,
    "PH013": InvalidEvent,
    "PH014": InvalidTrigger,
    "PH016": InvalidAlert,
    "PH017": Forbidden,
    "PH020": InvalidKey,
    "PH021": InvalidTenant,
    "PH023": TooManyKeys,
    "PH024": DefinitionExists,
    "22P02": InvalidPayload,  # invalid_text_representation
    "22P05": InvalidPayload,  # untranslatable_character: \u0000
    "22003": InvalidJob,  # numeric_value_out_of_range
    "22008": InvalidJob,  # datetime_field_overflow
    "54001": InvalidPayload,  # statement_too_complex: JSON nested too deep
    "3F000": SchemaError,  # invalid_schema_name
    "42P01": SchemaError,  # undefined_table
    "42883": SchemaError,  # undefined_function
}


def to_posthouse_error(error: Exception) -> PosthouseError | None:
    """Return the Posthouse error for an error of any driver, or None if it is not related to Posthouse."""
    state = getattr(error, "sqlstate", None)
    original = getattr(error, "orig", None) or error.__cause__
    if state is None and isinstance(original, Exception):  # SQLAlchemy and Django wrap the driver's error
        state = getattr(original, "sqlstate", None)
    kind = BY_SQLSTATE.get(state or "")
    if kind is None:
        return None
    message = str(error).partition("\nCONTEXT:")[0]
    if kind is SchemaError:  # the schema of Posthouse, or of the application
        message = message.partition("\n")[0]
        return SchemaError(f"the schema is missing or too old ({message}): run `posthouse migrate`")
    return kind(message)


@contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        ours = to_posthouse_error(error)
        if ours is not None:
            raise ours from error
        raise DatabaseUnavailable(f"cannot connect to Postgres: {error}") from error
    except Exception as error:
        ours = to_posthouse_error(error)
        if ours is None:
            raise
        raise ours from error


def connection_error(error: Exception) -> DatabaseUnavailable:
    """Return the error of a lost connection, after which the work can be retried.

    Raises any other error, translated.
    """
    try:
        with translate_errors():
            raise error
    except DatabaseUnavailable as lost:
        return lost
