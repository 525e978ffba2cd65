"""The import path of a handler, ``module:name``, so that another process can import it."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from posthouse.errors import ConfigurationError
from posthouse.worker.definition import Definition


def place_of(definition: Definition) -> str:
    """Return the import path. Raises ConfigurationError if a process could not import it."""
    handler = definition.handler
    module, name = handler.__module__, handler.__qualname__
    if module == "__main__":
        raise _unfindable(definition, "it is defined in the main script; move it to a module and import it")
    if "<locals>" in name:
        raise _unfindable(definition, "it is defined inside a function; define it in a module")
    loaded = sys.modules.get(module)
    found = None if loaded is None else _definition(loaded, name)
    if found is None or found.arguments is not definition.arguments:  # aliases share them
        raise _unfindable(
            definition, f"{name} in module {module} is a different object; decorate it there with @app.job"
        )
    return f"{module}:{name}"


def find(place: str) -> Definition:
    """Import the definition at this path."""
    module, _, name = place.partition(":")
    definition = _definition(importlib.import_module(module), name)
    if definition is None:
        raise ConfigurationError(f"{place} is not a job when a job process imports it")
    return definition


def _definition(module: ModuleType, name: str) -> Definition | None:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    definition = getattr(found, "definition", None)
    return definition if isinstance(definition, Definition) else None


def _unfindable(definition: Definition, why: str) -> ConfigurationError:
    return ConfigurationError(f'{definition.kind}: runner="process" must import the handler, but {why}')
