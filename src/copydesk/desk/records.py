"""Plans and changes as bytes, for registries and journals that outlive the process.

What lives here: one packing of the frozen types (MessagePack), by type name and
fields, and its squeezing. What must not: what is kept where. Laws:
`unpacked(packed(value)) == value`, `full(squeezed(data)) == data`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, cast

import msgpack

from copydesk.edit.place import Place
from copydesk.edit.plan import Plan
from copydesk.edit.reads import BlockReads
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockDiff,
    BlockReplace,
    Insert,
    RangeEdit,
    StringEdit,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath

_SMALL = 4_096
"""Bytes; to compress fewer takes longer than to write them."""

_TYPES: dict[str, Callable[..., Any]] = {}
_NAMES: dict[type, str] = {}
_FIELDS: dict[type, tuple[str, ...]] = {}


def _know(types: Iterable[type], prefix: str = "") -> None:
    """Take in some types, each by its name."""
    for kind in types:
        name = prefix + kind.__name__
        _TYPES[name], _NAMES[kind] = kind, name
        _FIELDS[kind] = tuple(f.name for f in fields(cast(Any, kind)))


def _know_notes() -> None:
    """Take in the changes of notes, which few have a use for."""
    from copydesk.store.notes.protocol import Delete, Insert, Restore, Update

    _know((Insert, Update, Delete, Restore), "notes.")


_know(
    (
        *(Anchor, Append, BatchEdit, BlockDiff, BlockReads, BlockReplace, ChangeSet, Edit),
        *(Insert, Place, Plan, RangeEdit, RelPath, StringEdit),
    )
)


def packed(value: object) -> bytes:
    """The bytes of one of the types above."""
    pack = cast("Callable[..., bytes]", msgpack.packb)
    return pack(value, default=_plain, strict_types=True)


def unpacked(data: bytes) -> Any:
    """The value that `packed` made these bytes of."""
    unpack = cast("Callable[..., object]", msgpack.unpackb)
    return _typed(unpack(data, use_list=False))


def squeezed(data: bytes) -> bytes:
    """Compressed when that is worth it; the first byte tells."""
    return b"\0" + data if len(data) < _SMALL else b"\1" + zlib.compress(data, 1)


def full(data: bytes) -> bytes:
    """The bytes that `squeezed` made these of."""
    return zlib.decompress(data[1:]) if data[:1] == b"\1" else data[1:]


def _plain(value: object) -> object:
    """A value of ours as [name, fields...]; a tuple of values as [None, values...]."""
    if isinstance(value, tuple):
        return [None, *cast("tuple[object, ...]", value)]
    kind = type(value)
    if kind not in _NAMES:
        _know_notes()
    return [_NAMES[kind], *[getattr(value, name) for name in _FIELDS[kind]]]


def _typed(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    parts: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]  # of anything
    made = [_typed(item) for item in parts[1:]]
    if parts[0] is None:
        return tuple(made)
    if parts[0] not in _TYPES:
        _know_notes()
    return _TYPES[parts[0]](*made)
