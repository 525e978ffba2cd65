"""python -m embeddings: show and change the model, with a connection to the database."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import sys
from collections.abc import Sequence

from psycopg import AsyncConnection

from embeddings import app, models
from embeddings.db import Db, Row
from embeddings.providers import Rejected


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        models_shown = asyncio.run(_run(options))
    except (models.ChangeConflict, Rejected, ConnectionError) as error:
        sys.stderr.write(f"embeddings: error: {error}\n")
        return 1
    sys.stdout.write(f"{json.dumps(models_shown, default=str, indent=2)}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m embeddings", description="Show or change the model.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("show", help="show the active model and the progress of a change")
    change = commands.add_parser("change", help="embed all texts with another model, then switch to it")
    change.add_argument("model", help="such as ollama/nomic-embed-text")
    change.add_argument("--texts-per-minute", type=_positive, help="maximum rate (default: no limit)")
    commands.add_parser("pause", help="pause the change after the current batch")
    commands.add_parser("resume", help="resume the change, or restart it after a failure")
    commands.add_parser("cancel", help="end the change without a switch")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


async def _run(options: argparse.Namespace) -> Row:
    model = await models.check_model(options.model) if options.command == "change" else ""
    async with await AsyncConnection.connect(app.database_url()) as db:
        await _act(db, options, model)
        return await models.show_models(db)


async def _act(db: Db, options: argparse.Namespace, model: str) -> None:
    actor = f"cli:{getpass.getuser()}"
    if options.command == "change":
        await models.start_change(db, model, options.texts_per_minute, actor)
    elif options.command == "cancel":
        await models.cancel_change(db)
    elif options.command in {"pause", "resume"}:
        await models.control_change(db, {"is_paused": options.command == "pause"}, actor)


if __name__ == "__main__":
    sys.exit(main())
