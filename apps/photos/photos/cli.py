"""photos: a library of pictures for each tenant, from folders.

It ends with 0 if all is well, with 65 if another try would end the same, with 75 if a later one may do
better. The last line that it writes is what it did, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from photos.errors import Hopeless, Later
from photos.library import Library
from photos.place import library_root
from photos.progress import Progress

HOPELESS, LATER = 65, 75
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """What it would exit with."""
    given = _parser().parse_args(arguments)
    try:
        with _library(given.tenant_id) as library:
            done = given.command(library, given)
    except Hopeless as error:
        return _complain(error, HOPELESS)
    except (Later, sqlite3.OperationalError) as error:
        return _complain(error, LATER)
    _say(json.dumps(done))
    return 0


def _library(tenant: str) -> Library:
    if not TENANT.fullmatch(tenant):
        raise Hopeless(f"a tenant is named by letters, digits, dots and dashes, not {tenant!r}")
    return Library(library_root() / tenant)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="photos", description="A library of pictures for each tenant.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    sync = _command(commands, "sync", _sync, "take over what changed in a provider's folder, and tag it")
    sync.add_argument("--provider-id", required=True)
    tag = _command(commands, "tag", _tag, "tag by colours, light and shape")
    for each in (sync, tag):
        each.add_argument("--path-prefix", default="/", help="only what is below it")
    train = _command(commands, "train", _train, "learn the keywords that pictures are filed under")
    train.add_argument("--min-photos", type=int, default=3, help="a keyword with fewer is not learned")
    retag = _command(commands, "retag", _retag, "give every picture the keywords that were learned")
    for each in (train, retag):
        each.add_argument("--model", default="default", help="its name")
    add = _command(commands, "add-provider", _add_provider, "make a folder a provider; PHOTOS_TOKEN opens it")
    add.add_argument("--folder", required=True)
    add.add_argument("--label", default="")
    _command(commands, "list", _list, "all pictures, with their tags")
    return parser


def _command(commands: Any, name: str, function: Callable[..., Any], told: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=told, description=told)
    parser.add_argument("--tenant-id", required=True)
    parser.add_argument("--progress", action="store_true", help="write lines that Posthouse reads")
    parser.set_defaults(command=function)
    return parser


# What a command needs is imported when it runs: numpy and Pillow take their time to load.


def _sync(library: Library, given: argparse.Namespace) -> dict[str, int]:
    from photos.provider import opened  # noqa: PLC0415
    from photos.sync import sync  # noqa: PLC0415

    provider = opened(library, given.provider_id, os.environ.get("PHOTOS_TOKEN", ""))
    return sync(library, provider, given.path_prefix, Progress(on=given.progress))


def _tag(library: Library, given: argparse.Namespace) -> dict[str, int]:
    from photos.tagging import tag_all  # noqa: PLC0415

    return tag_all(library, given.path_prefix, Progress(on=given.progress))


def _train(library: Library, given: argparse.Namespace) -> dict[str, Any]:
    from photos.training import train  # noqa: PLC0415

    return train(library, given.model, given.min_photos, Progress(on=given.progress))


def _retag(library: Library, given: argparse.Namespace) -> dict[str, int]:
    from photos.training import retag  # noqa: PLC0415

    return retag(library, given.model, Progress(on=given.progress))


def _add_provider(library: Library, given: argparse.Namespace) -> dict[str, str]:
    from photos.provider import add_provider  # noqa: PLC0415

    token = os.environ.get("PHOTOS_TOKEN", "")
    return {"provider_id": add_provider(library, Path(given.folder), given.label, token)}


def _list(library: Library, given: argparse.Namespace) -> list[dict[str, Any]]:
    del given
    return library.pictures()


def _complain(error: Exception, code: int) -> int:
    sys.stderr.write(f"photos: {error}\n")
    return code


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
