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
from copydesk.edit.plan import Plan
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockReplace,
    Insert,
    RangeEdit,
    StringEdit,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath

_TYPES: dict[str, Callable[..., Any]] = {
    t.__name__: t
    for t in (
        Anchor,
        Append,
        BatchEdit,
        StringEdit,
        BlockReplace,
        ChangeSet,
        Edit,
        Insert,
        Place,
        Plan,
        RangeEdit,
        RelPath,
    )
}


def packed(value: object) -> bytes:
    """The bytes of one of the types above."""
    pack = cast("Callable[[object], bytes]", msgpack.packb)
    return pack(_plain(value))


def unpacked(data: bytes) -> Any:
    """The value that `packed` made these bytes of."""
    unpack = cast("Callable[..., object]", msgpack.unpackb)
    return _typed(unpack(data, use_list=False))


def _plain(value: object) -> object:
    """A value of ours as (name, fields...); a tuple of values as (None, values...)."""
    if isinstance(value, tuple):
        return (None, *(_plain(item) for item in cast("tuple[object, ...]", value)))
    if type(value).__name__ in _TYPES:
        own = fields(value)  # type: ignore[arg-type]  # every type above is a dataclass
        return (type(value).__name__, *(_plain(getattr(value, f.name)) for f in own))
    return value


def _typed(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    parts: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]  # of anything
    made = [_typed(item) for item in parts[1:]]
    return tuple(made) if parts[0] is None else _TYPES[parts[0]](*made)
