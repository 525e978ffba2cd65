"""The settings in effect, and where each came from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from posthouse.errors import ConfigurationError
from posthouse.settings import ENV_PREFIX, Settings, load_settings, setting_sources

Source: TypeAlias = Literal["default", "file", "environment", "flag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """A setting. ``source`` is flag if a command-line flag or the embedding program set it."""

    name: str
    variable: str
    value: Any
    source: Source
    secret: bool
    help: str


def settings_in_effect(settings: Settings) -> list[SettingInfo]:
    """Return the settings with secrets masked."""
    shown, sources = settings.shown(), _sources(settings)
    return [
        SettingInfo(
            name=item.name,
            variable=f"{ENV_PREFIX}{item.name.upper()}",
            value=shown[item.name],
            source=sources[item.name],
            secret=bool(item.metadata.get("secret")),
            help=item.metadata["help"],
        )
        for item in fields(Settings)
    ]


def _sources(settings: Settings) -> dict[str, Source]:
    try:
        loaded, sources = load_settings(), setting_sources()
    except ConfigurationError:  # settings given in code do not depend on the environment
        loaded, sources = Settings(), {}
    found: dict[str, Source] = {}
    for item in fields(Settings):
        same = getattr(loaded, item.name) == getattr(settings, item.name)
        source: Any = sources.get(item.name, "default") if same else "flag"
        found[item.name] = source
    return found
