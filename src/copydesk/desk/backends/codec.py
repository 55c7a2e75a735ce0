"""Plans and changes as bytes, for registries and journals that outlive the process.

A record says which schema it has and names the fields of its types, so that a build that
knows more fields, or fewer, reads it all the same. `decode(encode(value)) == value` and
`decompress(compress(data)) == data`; bytes that are damaged raise `RecordError`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from threading import Lock
from typing import Any, cast

import msgpack

from copydesk.edit.draft import Approval, BlockReads, Place, Plan
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockDiff,
    BlockReplace,
    ChangeMode,
    DeleteFile,
    Insert,
    MoveFile,
    PatchEdit,
    PatchHunk,
    RangeEdit,
    RangeEdits,
    ReplaceText,
    StringEdit,
)
from copydesk.store.protocol import MadeDirectories, ModeChanged, Moved, Removed
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath

SCHEMA = 4
"""The schema number of all that is stored, in SQLite and on Redis.

A field that may be ignored by who does not know it is added without a new number; anything
else that an older build would misread needs one. 3: decisions and statistics are in the file of
the plans. 4: the journal keeps what each edit is for.
"""

_SMALL = 4_096
"""Bytes; to compress fewer takes longer than to write them."""

_CHECKSUM_BYTES = 4

_TYPES: dict[str, Callable[..., Any]] = {}
_NAMES: dict[type, str] = {}
_FIELDS: dict[type, tuple[str, ...]] = {}
_REQUIRED: dict[str, frozenset[str]] = {}


class RecordError(ValueError):
    """Stored bytes that cannot be read."""


class UnknownRecord(RecordError):
    """The bytes are sound; a build that knows more wrote them."""


def _know(types: Iterable[type], prefix: str = "") -> None:
    """Take in some types, each by its name."""
    for kind in types:
        name = prefix + kind.__name__
        _TYPES[name], _NAMES[kind] = kind, name
        found = fields(cast(Any, kind))
        _FIELDS[kind] = tuple(f.name for f in found)
        _REQUIRED[name] = frozenset(
            f.name for f in found if MISSING is f.default is f.default_factory
        )


def _know_notes() -> None:
    """Take in the changes of notes, which few have a use for."""
    from copydesk.store.notes.protocol import Delete, InsertText, Restore, Update

    _know((InsertText, Update, Delete, Restore), "notes.")


_know(
    (
        *(
            Anchor,
            Append,
            Approval,
            BatchEdit,
            BlockDiff,
            BlockReads,
            BlockReplace,
            ChangeSet,
            Edit,
        ),
        *(Insert, PatchEdit, PatchHunk, Place, Plan, RangeEdit, RangeEdits, RelPath),
        *(DeleteFile, MadeDirectories, MoveFile, Moved, Removed, ReplaceText, StringEdit),
        *(ChangeMode, ModeChanged),
    )
)


_HEAD = b"\x93" + cast("Callable[..., bytes]", msgpack.packb)(SCHEMA)
"""A list of three, the schema first."""


def encode(value: object) -> bytes:
    """The bytes of one of the types above, of a tuple, or of a mapping of names to such."""
    used: dict[str, tuple[str, ...]] = {}

    def plain(part: object) -> object:
        """A value of ours as [name, fields...]; a tuple of values as [None, values...]."""
        kind = type(part)
        if kind is tuple:
            return [None, *cast("tuple[object, ...]", part)]
        name = _NAMES.get(kind)
        if name is None:
            if isinstance(part, Mapping):  # one that cannot be changed
                return dict(cast("Mapping[str, object]", part))
            _know_notes()
            name = _NAMES[kind]
        names = used[name] = _FIELDS[kind]
        return [name, *[getattr(part, each) for each in names]]

    pack = cast("Callable[..., bytes]", msgpack.packb)
    body = pack(value, default=plain, strict_types=True)
    return _with_checksum(_HEAD + pack(used) + body)


def decode(data: bytes) -> Any:
    """The value that `encode` made these bytes of; unknown fields are dropped; RecordError."""
    body = _checked(data)
    unpack = cast("Callable[..., Any]", msgpack.unpackb)
    try:
        schema, used, value = unpack(body, use_list=False)
        if schema == SCHEMA:
            return _typed(value, {name: _maker(name, names) for name, names in used.items()})
    except RecordError:
        raise
    except Exception as error:  # the checksum is right: another build made it
        raise UnknownRecord(f"not a record of this build: {error}") from None
    raise UnknownRecord(f"a record of schema {schema}; this build reads schema {SCHEMA}")


_plans: dict[bytes, Plan] = {}
"""Plans by their bytes, those seen last."""

_plans_lock = Lock()
_PLANS, _PLAN_BYTES = 1_024, 1 << 14
"""So many plans are kept decoded, none of more bytes."""


def encode_plan(plan: Plan) -> bytes:
    """The same of a plan, which this process need not decode again."""
    data = encode(plan)
    _keep_plan(data, plan)
    return data


def known_plan(data: bytes) -> Plan | None:
    """The plan that these bytes were made of, or decoded to, not long ago."""
    return _plans.get(data)


def decode_plan(data: bytes) -> Plan:
    """The same of a plan; one that is asked for again and again is unpacked once."""
    plan = _plans.get(data)
    if plan is None:
        plan = cast(Plan, decode(data))
        _keep_plan(data, plan)
    return plan


def _keep_plan(data: bytes, plan: Plan) -> None:
    if len(data) > _PLAN_BYTES:
        return
    with _plans_lock:
        _plans[data] = plan
        if len(_plans) > _PLANS:
            del _plans[next(iter(_plans))]


def compress(data: bytes) -> bytes:
    """Compressed when that is worth it; the first byte tells."""
    if len(data) < _SMALL:
        return b"\0" + _with_checksum(data)
    return b"\1" + zlib.compress(data, 1)


def decompress(data: bytes) -> bytes:
    """The bytes that `compress` made these of; raises RecordError."""
    if data[:1] == b"\0":
        return _checked(data[1:])
    try:
        if data[:1] == b"\1":
            return zlib.decompress(data[1:])
    except zlib.error as error:
        raise RecordError(f"damaged: {error}") from None
    raise RecordError("damaged: neither compressed nor plain")


def _with_checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big") + data


def _checked(data: bytes) -> bytes:
    body = data[_CHECKSUM_BYTES:]
    if zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "big") != data[:_CHECKSUM_BYTES]:
        raise RecordError("damaged: its checksum is wrong")
    return body


def _maker(name: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """What makes a value of the type of the fields that a record has of it."""
    if name not in _TYPES:
        _know_notes()
    if name not in _TYPES:
        raise UnknownRecord(f"a record of a kind that this build does not know: {name}")
    kind = _TYPES[name]
    known = _FIELDS[cast(type, kind)]
    if names == known:
        return kind
    missing = _REQUIRED[name].difference(names)
    if missing:
        raise UnknownRecord(f"a record without {', '.join(sorted(missing))} of {name}")

    def make(*values: Any) -> Any:
        pairs = zip(names, values, strict=True)
        return kind(**{each: value for each, value in pairs if each in known})

    return make


def _typed(value: Any, makers: Mapping[str, Callable[..., Any]]) -> Any:
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        return {name: _typed(part, makers) for name, part in mapping.items()}
    if not isinstance(value, tuple):
        return value
    parts: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]  # of anything
    made = [_typed(item, makers) for item in parts[1:]]
    return tuple(made) if parts[0] is None else makers[parts[0]](*made)
