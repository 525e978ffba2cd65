"""Lists of photos, selected by a keyword."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from photos.errors import Hopeless
from photos.library import Library


def create_list(library: Library, name: str, keyword: str) -> dict[str, Any]:
    """Create a list of the photos with a keyword, and return it. Repeating it returns the same list."""
    found = library.rows("tagged_pictures", keyword=keyword)
    if not found:
        raise Hopeless(f"no photo has the keyword {keyword!r}; tag the photos first")
    library.change(
        ("add_list", [{"id": str(uuid4()), "name": name}]),
        ("add_to_list", [{"name": name, "picture_id": row["id"]} for row in found]),
    )
    (made,) = library.rows("show_list", name=name)
    return {"list_id": made["id"], "name": name, "keyword": keyword, "pictures": made["pictures"]}
