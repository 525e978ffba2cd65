"""Load the apps that a command runs, and combine them into one."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any

from posthouse.app import App
from posthouse.errors import ConfigurationError
from posthouse.settings import Settings, Variable, load_settings, settings_of

if TYPE_CHECKING:
    from posthouse.server.routes.admin.apps import Application


def load_apps(paths: Sequence[str]) -> dict[str, App]:
    """Return the apps at these paths, by path."""
    return {path: load_app(path) for path in dict.fromkeys(paths)}


def load_app(path: str) -> App:
    """Return the app at ``module:name``; the default name is ``app``.

    If the name is a module, such as ``shop.app`` for ``shop:app``, the app is in that module.
    """
    module_name, _, given = path.partition(":")
    name = given or "app"
    module = _import(module_name, path)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, ModuleType):
        found = getattr(found, "app", None)
    if isinstance(found, App):
        return found
    others = [other for other, value in vars(module).items() if isinstance(value, App)]
    hint = f"; did you mean {module_name}:{others[0]}?" if others else ""
    wrong = f"has no {name}" if found is None else f"has a {name}, but it is not a posthouse.App"
    raise ConfigurationError(f"--app {path}: {module_name} {wrong}{hint}")


def _import(module_name: str, path: str) -> Any:
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"--app {path}: module {error.name!r} does not exist; "
                "run the command in the folder that contains the module, or install it"
            ) from None
        raise ConfigurationError(f"--app {path}: the import failed: {_where(error)}") from error
    except Exception as error:  # a user's module may raise anything
        raise ConfigurationError(f"--app {path}: the import failed: {_where(error)}") from error


def _where(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):  # its message names the file and the line
        return text
    frames = traceback.extract_tb(error.__traceback__)
    last = next(frame for frame in reversed(frames) if not frame.filename.startswith("<frozen"))
    return f"{text} ({last.filename}, line {last.lineno})"


def resolve_app_paths(given: Sequence[str], settings: Settings) -> list[str]:
    """Return the paths of the command line, or those of the setting ``app``."""
    return list(given) or [path.strip() for path in settings.app.split(",") if path.strip()]


def installed_apps() -> dict[str, str]:
    """Return the apps of installed packages by name: their entry points in ``posthouse.apps``."""
    return {point.name: point.value for point in entry_points(group="posthouse.apps")}


def installed_demos() -> dict[str, EntryPoint]:
    """Return the demos of installed packages by name: their entry points in ``posthouse.demos``."""
    return {point.name: point for point in sorted(entry_points(group="posthouse.demos"))}


def described(apps: Mapping[str, App]) -> list[Application]:
    """Return the installed applications among these, as the page /apps lists them.

    Their demos can be run if a worker of this server has the built-in jobs, of which one runs demos.
    """
    from posthouse.server.routes.admin.apps import Application
    from posthouse.storage.actions import DEMO_KIND

    demos = installed_demos() if any(DEMO_KIND in app.definitions for app in apps.values()) else {}
    return [
        Application(point.name, point.name.capitalize(), _summary(point), has_demo=point.name in demos)
        for point in entry_points(group="posthouse.apps")
        if point.value in apps
    ]


def _summary(point: EntryPoint) -> str:
    metadata = {} if point.dist is None else point.dist.metadata.json
    return str(metadata.get("summary", ""))


def routers_of(apps: Iterable[App]) -> list[Any]:
    """Return the routers of apps, to be served beside the API."""
    found = []
    for app in apps:
        if app.routes is not None:
            module_name, _, name = app.routes.partition(":")
            router = getattr(_import(module_name, app.routes), name or "router", None)
            if not hasattr(router, "routes"):
                raise ConfigurationError(f"routes={app.routes!r} does not name a FastAPI router")
            found.append(router)
    return found


def merge_apps(apps: dict[str, App], settings: Settings) -> App:
    """Return one app with the jobs of all; raise if two apps define the same kind."""
    whole = App(settings=settings)
    homes: dict[str, str] = {}
    for path, app in apps.items():
        for kind, definition in app.definitions.items():
            if kind in homes:
                raise ConfigurationError(
                    f"both {homes[kind]} and {path} define the job kind {kind!r}; rename one of them"
                )
            homes[kind] = path
            whole.definitions[kind] = definition
    return whole


def settings_for(apps: dict[str, App], **flags: Any) -> Settings:
    """Return the settings of this process, with those that variables of the apps set."""
    return load_settings(variables=_variables(apps), **flags)


def shared_settings(apps: dict[str, App], **flags: Any) -> Settings:
    """Return the settings of the apps, which must use one database, with the flags applied."""
    if not apps:
        return load_settings(**flags)
    first, *others = apps.values()
    for path, other in zip(list(apps)[1:], others, strict=True):
        if other.settings.database_url != first.settings.database_url:
            raise ConfigurationError(
                f"{path} uses another database than {next(iter(apps))}; start a separate worker for each"
            )
    given = {name: value for name, value in flags.items() if value is not None}
    return dataclasses.replace(first.settings, **{**settings_of(_variables(apps)), **given})


def _variables(apps: dict[str, App]) -> dict[str, Variable]:
    return {name: meaning for app in apps.values() for name, meaning in app.variables.items()}
