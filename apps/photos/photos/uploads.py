"""Uploaded photos: written beside their destination, checked, then moved into place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from uuid import uuid4

from photos.features import decode_image


async def store_upload(pieces: AsyncIterator[bytes], folder: Path, name: str) -> Path:
    """Store an uploaded photo and return its file. Existing files are never replaced.

    Raises UnreadableImage, and stores nothing, if the content is no image.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    partial = folder / f".{uuid4().hex}.part"
    try:
        with partial.open("xb") as file:
            async for piece in pieces:
                await asyncio.to_thread(file.write, piece)
        return await asyncio.to_thread(_check_and_link, partial, folder / name)
    finally:
        partial.unlink(missing_ok=True)


def _check_and_link(partial: Path, wanted: Path) -> Path:
    content = partial.read_bytes()
    decode_image(content)
    for number in count(1):
        file = wanted if number == 1 else wanted.with_stem(f"{wanted.stem}-{number}")
        try:
            os.link(partial, file)
        except FileExistsError:
            if file.read_bytes() == content:
                return file
        else:
            return file
    raise AssertionError("unreachable: count() does not end")
