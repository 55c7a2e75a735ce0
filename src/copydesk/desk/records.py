"""Plans and changes as bytes, for registries and journals that outlive the process.

What lives here: one packing of the frozen types (MessagePack), by type name and
fields. What must not: what is kept where. Law: `unpacked(packed(value)) == value`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

import msgpack

from copydesk.edit.place import Place
from copydesk.edit.plan import BlockReads, Plan
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
from copydesk.store.notes import protocol as notes
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath

_OF_FILES = (
    Anchor,
    Append,
    BatchEdit,
    BlockDiff,
    BlockReads,
    BlockReplace,
    ChangeSet,
    Edit,
    Insert,
    Place,
    Plan,
    RangeEdit,
    RelPath,
    StringEdit,
)
_OF_NOTES = (notes.Insert, notes.Update, notes.Delete, notes.Restore)

_TYPES: dict[str, Callable[..., Any]] = {
    **{t.__name__: t for t in _OF_FILES},
    **{f"notes.{t.__name__}": t for t in _OF_NOTES},
}
_NAMES: dict[type, str] = {cast(type, t): name for name, t in _TYPES.items()}

_FIELDS: dict[type, tuple[str, ...]] = {
    cast(type, t): tuple(f.name for f in fields(cast(Any, t))) for t in _TYPES.values()
}


def packed(value: object) -> bytes:
    """The bytes of one of the types above."""
    pack = cast("Callable[..., bytes]", msgpack.packb)
    return pack(value, default=_plain, strict_types=True)


def unpacked(data: bytes) -> Any:
    """The value that `packed` made these bytes of."""
    unpack = cast("Callable[..., object]", msgpack.unpackb)
    return _typed(unpack(data, use_list=False))


def _plain(value: object) -> object:
    """A value of ours as [name, fields...]; a tuple of values as [None, values...]."""
    if isinstance(value, tuple):
        return [None, *cast("tuple[object, ...]", value)]
    kind = type(value)
    return [_NAMES[kind], *[getattr(value, name) for name in _FIELDS[kind]]]


def _typed(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    parts: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]  # of anything
    made = [_typed(item) for item in parts[1:]]
    return tuple(made) if parts[0] is None else _TYPES[parts[0]](*made)
