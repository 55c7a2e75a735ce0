"""Records and remembered texts on every backend, each opened as often as a test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copydesk.desk.backends.api import Records
from copydesk.desk.backends.redis import RedisRecords, RedisSnapshots
from copydesk.desk.backends.snapshots import Snapshots
from copydesk.desk.backends.sqlite import Database, SqliteRecords, SqliteSnapshots
from copydesk.store.state import StateFile
from support.redis_calls import connections

KEPT = ("sqlite", "redis")
STORES = ("memory", *KEPT)
Open = Callable[[], Records]


def opener_of(request: pytest.FixtureRequest, folder: Path) -> Iterator[Open]:
    """What opens one more connection to the records of the fixture's parameter, one of `STORES`.

    The memory has only the first one.
    """
    opened: list[Records] = []
    connection = connections(request) if request.param == "redis" else None

    def connect() -> Records:
        if connection is not None:
            made: Records = RedisRecords(*connection())
        elif request.param == "memory":
            made = opened[0] if opened else SqliteRecords(Database())
        else:
            made = SqliteRecords(Database(StateFile(str(folder / "state.sqlite"))))
        opened.append(made)
        return made

    yield connect
    for each in opened:
        each.close()


def snapshots_of(request: pytest.FixtureRequest, folder: Path) -> Snapshots:
    """Texts that are remembered where the fixture's parameter says, one of `KEPT`."""
    if request.param == "redis":
        return RedisSnapshots(connections(request)()[0], 1 << 20)
    return SqliteSnapshots(Database(StateFile(str(folder / "x.sqlite"))))
