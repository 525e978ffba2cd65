"""posthouse migrate: the database schema."""

from __future__ import annotations

from posthouse.cli.options import app_option, json_option
from posthouse.cli.output import say, show_json
from posthouse.errors import ConfigurationError


def migrate(app: list[str] = app_option(), as_json: bool = json_option()) -> None:
    """Migrate the database schema to the current version. Safe to run at any time and concurrently.

    With --app, also the tables of the applications.

    [b]Examples:[/b]

    POSTHOUSE_DATABASE_URL=postgresql://app@db/app posthouse migrate

    posthouse migrate --app shop.jobs:app
    """
    from posthouse.cli.apps import chosen_paths, load_apps
    from posthouse.cli.session import reachable
    from posthouse.settings import load_settings
    from posthouse.storage.connect import connect_sync
    from posthouse.storage.errors import translated
    from posthouse.storage.migrate import check_guarded, schema_version
    from posthouse.storage.migrate import migrate as apply

    settings = load_settings()
    url = reachable(settings, check_schema=False)
    with translated(), connect_sync(url, "migrate") as connection:
        applied = apply(connection)
        version = schema_version(connection).number
        try:
            check_guarded(connection)
        except ConfigurationError as error:  # jobs work without it
            say(f"warning: {error}", err=True, style="yellow")
    for loaded in load_apps(chosen_paths(app, settings)).values():
        loaded.migrate()
    if as_json:
        done = [{"number": item.number, "name": item.name} for item in applied]
        show_json({"version": version, "applied": done})
        return
    for item in applied:
        say(f"applied {item.number:04} {item.name}", style="green")
    say(f"schema version {version:04}" + ("" if applied else ": up to date, nothing to do"))
