"""Vectors in the binary format of pgvector. Writing and reading them as text takes 0.15 ms each."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from embeddings.db import Db
from embeddings.providers import Vector
from embeddings.settings import DIMENSIONS

_ITEM = np.dtype([("size", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("numbers", ">f4", DIMENSIONS)])


class PackedVectors(bytes):
    """A parameter of the type ``vector[]``."""


def pack(vectors: Sequence[Vector]) -> PackedVectors:
    """Return the vectors as an array, padded with zeros to the length of the column."""
    items = np.zeros(len(vectors), _ITEM)
    items["size"], items["dimensions"] = _ITEM.itemsize - 4, DIMENSIONS
    for numbers, vector in zip(items["numbers"], vectors, strict=True):
        numbers[: len(vector)] = vector
    return PackedVectors(items.tobytes())


class _PackedVectorDumper(Dumper):
    format = Format.BINARY
    vector_oid: int

    def dump(self, obj: PackedVectors) -> bytes:
        count = len(obj) // _ITEM.itemsize
        return struct.pack(">iiIii", 1, 0, self.vector_oid, count, 1) + obj


async def register_vector_type(db: Db) -> None:
    """Let a connection send packed vectors. The number of the type differs between databases."""
    if db.adapters.types.get("vector") is None:
        found = await TypeInfo.fetch(db, "vector")
        assert found is not None
        found.register(db)
        dumper = type(
            "VectorsDumper", (_PackedVectorDumper,), {"oid": found.array_oid, "vector_oid": found.oid}
        )
        db.adapters.register_dumper(PackedVectors, dumper)
