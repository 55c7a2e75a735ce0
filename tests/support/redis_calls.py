"""Connections of one workspace to the server that the tests share."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from copydesk.desk.backends.redis import Leases, Server
from support.redis_servers import LONG_MS, RedisServer

Connect = Callable[[], tuple[Server, Leases]]


def connections(request: pytest.FixtureRequest, lease_ms: int = LONG_MS) -> Connect:
    """What makes one more connection to a workspace of this test alone; closed after it."""
    shared: RedisServer = request.getfixturevalue("redis_server")
    name = shared.fresh_name()

    def connect() -> tuple[Server, Leases]:
        server = Server(shared.url, name)
        leases = Leases(server, time.monotonic, lease_ms)
        request.addfinalizer(server.close)
        request.addfinalizer(leases.close)
        return server, leases

    return connect
