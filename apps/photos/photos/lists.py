"""Lists of photos, selected by a keyword."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from photos.errors import PermanentError
from photos.library import Library


def create_list(library: Library, name: str, keyword: str) -> dict[str, Any]:
    """Create a list of the photos with a keyword, and return it. Repeating it returns the same list."""
    pictures = library.rows("pictures_tagged", keyword=keyword)
    if not pictures:
        raise PermanentError(f"no photo has the keyword {keyword!r}; tag the photos first")
    library.change(
        ("list_insert", [{"id": str(uuid4()), "name": name}]),
        ("list_add_picture", [{"name": name, "picture_id": row["id"]} for row in pictures]),
    )
    (created,) = library.rows("list_get", name=name)
    return {"list_id": created["id"], "name": name, "keyword": keyword, "pictures": created["pictures"]}
