"""Where a handler is, so that another process can import it: ``module:name``."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from posthouse.errors import ConfigurationError
from posthouse.worker.definition import Definition


def place_of(definition: Definition) -> str:
    """Its place, made sure of: a job that no process could find must not be claimed."""
    handler = definition.handler
    module, name = handler.__module__, handler.__qualname__
    if module == "__main__":
        raise _unfindable(definition, "it is in the script itself; move it to a module and import that")
    if "<locals>" in name:
        raise _unfindable(definition, "it is defined inside a function; define it in a module")
    loaded = sys.modules.get(module)
    if loaded is None or _definition(loaded, name) is not definition:
        raise _unfindable(
            definition, f"{name} in module {module} is something else; decorate it there with @app.job"
        )
    return f"{module}:{name}"


def find(place: str) -> Definition:
    """Imports what is at this place."""
    module, _, name = place.partition(":")
    definition = _definition(importlib.import_module(module), name)
    if definition is None:
        raise ConfigurationError(f"{place} is not a job when it is imported in a process of its own")
    return definition


def _definition(module: ModuleType, name: str) -> Definition | None:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    definition = getattr(found, "definition", None)
    return definition if isinstance(definition, Definition) else None


def _unfindable(definition: Definition, why: str) -> ConfigurationError:
    return ConfigurationError(f'{definition.kind}: runner="process" has to import the handler, but {why}')
