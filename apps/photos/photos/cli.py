"""photos: a photo library per tenant, synced from folders.

Exit codes: 0 for success, 65 for permanent errors, 75 for errors that can be retried. The last line of the
output is the result as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from photos.config import library_root
from photos.errors import PermanentError, TemporaryError
from photos.library import TENANT, Library
from photos.progress import Progress

EX_DATAERR, EX_TEMPFAIL = 65, 75


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the console script."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        with _library(options.tenant_id) as library:
            result = options.command(library, options)
    except PermanentError as error:
        return _fail(error, EX_DATAERR)
    except (TemporaryError, sqlite3.OperationalError) as error:
        return _fail(error, EX_TEMPFAIL)
    _print(json.dumps(result))
    return 0


def _library(tenant: str) -> Library:
    if not TENANT.fullmatch(tenant):
        raise PermanentError(f"invalid tenant {tenant!r}: use letters, digits, dots, dashes and underscores")
    return Library(library_root() / tenant)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="photos", description="Manage the photo library of a tenant.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    sync = _command(
        commands, "sync", _sync, "sync new, changed and deleted photos of a provider, and tag them"
    )
    sync.add_argument("--provider-id", required=True, help="id printed by add-provider")
    tag = _command(commands, "tag", _tag, "tag photos by color, brightness and shape")
    for subcommand in (sync, tag):
        subcommand.add_argument("--path-prefix", default="/", help="only photos below this path (default: /)")
    train = _command(commands, "train", _train, "train a model with the folder names as keywords")
    train.add_argument(
        "--min-photos", type=int, default=3, help="minimum number of photos per keyword (default: 3)"
    )
    retag = _command(commands, "retag", _retag, "tag all photos with the keywords of a trained model")
    for subcommand in (train, retag):
        subcommand.add_argument("--model", default="default", help="name of the model (default: default)")
    add = _command(
        commands, "add-provider", _add_provider, "register a folder as a provider, protected by PHOTOS_TOKEN"
    )
    add.add_argument("--folder", required=True, help="folder with the photos")
    add.add_argument("--label", default="", help="name of the provider (default: name of the folder)")
    connect = _command(
        commands, "connect", _connect, "register a folder inside the library of the tenant as a provider"
    )
    connect.add_argument("--folder", required=True, help="name of the folder inside the library")
    create = _command(commands, "create-list", _create_list, "list the photos with a keyword under a name")
    create.add_argument("--name", required=True, help="name of the list")
    create.add_argument("--keyword", required=True, help="keyword of the photos")
    _command(commands, "list", _list, "list all photos with their tags")
    return parser


def _command(
    commands: Any, name: str, function: Callable[..., Any], help_text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.add_argument("--tenant-id", required=True, help="tenant that owns the library")
    parser.add_argument("--progress", action="store_true", help="write progress lines for Posthouse")
    parser.set_defaults(command=function)
    return parser


# Commands import their modules when they run, because numpy and Pillow load slowly.


def _sync(library: Library, options: argparse.Namespace) -> dict[str, Any]:
    from photos.provider import open_provider  # noqa: PLC0415
    from photos.sync import sync  # noqa: PLC0415

    provider = open_provider(library, options.provider_id, os.environ.get("PHOTOS_TOKEN", ""))
    result = sync(library, provider, options.path_prefix, Progress(on=options.progress))
    return {**result, "provider_id": provider.id, "path_prefix": options.path_prefix}


def _tag(library: Library, options: argparse.Namespace) -> dict[str, int]:
    from photos.tagging import tag_all  # noqa: PLC0415

    return tag_all(library, options.path_prefix, Progress(on=options.progress))


def _train(library: Library, options: argparse.Namespace) -> dict[str, Any]:
    from photos.training import train  # noqa: PLC0415

    return train(library, options.model, options.min_photos, Progress(on=options.progress))


def _retag(library: Library, options: argparse.Namespace) -> dict[str, int]:
    from photos.training import retag  # noqa: PLC0415

    return retag(library, options.model, Progress(on=options.progress))


def _add_provider(library: Library, options: argparse.Namespace) -> dict[str, str]:
    from photos.provider import add_provider  # noqa: PLC0415

    token = os.environ.get("PHOTOS_TOKEN", "")
    return {"provider_id": add_provider(library, Path(options.folder), options.label, token)}


def _connect(library: Library, options: argparse.Namespace) -> dict[str, str]:
    from photos.provider import connect  # noqa: PLC0415

    token = os.environ.get("PHOTOS_TOKEN", "")
    return connect(library, library_root() / options.tenant_id, options.folder, token)


def _create_list(library: Library, options: argparse.Namespace) -> dict[str, Any]:
    from photos.lists import create_list  # noqa: PLC0415

    return create_list(library, options.name, options.keyword)


def _list(library: Library, options: argparse.Namespace) -> list[dict[str, Any]]:
    del options
    return library.pictures()


def _fail(error: Exception, code: int) -> int:
    sys.stderr.write(f"photos: error: {error}\n")
    return code


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
