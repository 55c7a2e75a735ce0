"""What all tests share: how long Hypothesis looks, that a slow machine is no failure, what is told.

A test tells by `record_property("told", ...)`: such a line stands in the summary of the run.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if os.environ.get("LACKING"):
    import support.lacking  # noqa: F401

if TYPE_CHECKING:  # a test that needs none of them starts without them
    from copydesk.app.workspace import OpenWorkspace
    from support.desks import Setup
    from support.large_files import Desks
    from support.redis_servers import RedisServer

STALLED_SECONDS = 600
ARMED_SECONDS = 60


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as `make test &` has it, and its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as `nohup make test` has it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:  # as a shell without job control has it
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

settings.register_profile(
    "here", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
ALWAYS = settings.get_profile("ci" if os.environ.get("CI") else "here")
settings.register_profile("full", ALWAYS, max_examples=100)
settings.register_profile("fast", ALWAYS, max_examples=25)
settings.load_profile("fast")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that Hypothesis draws texts for: `make test-slow` runs them too, in full."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("drawn")


class Watchdog:
    """Ends a process that stands still in a test, with all stacks, so that the test is named.

    As `faulthandler_timeout` does, which starts a thread for each test: a fiftieth of the time.
    A process that hands tests to others has none: it would end with them, before it names the test.
    """

    def __init__(self) -> None:
        self._stderr = os.dup(2)  # nothing captures it yet
        self._armed = -math.inf

    def pytest_runtest_logstart(self) -> None:
        if time.monotonic() - self._armed > ARMED_SECONDS:
            self._armed = time.monotonic()
            faulthandler.dump_traceback_later(STALLED_SECONDS, exit=True, file=self._stderr)

    def pytest_sessionfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()  # others may still be at work for long


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        config.pluginmanager.register(Watchdog())


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep what was collected, which stays to the end, out of all garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anyio_backend() -> str:
    """What asynchronous tests run on."""
    return "asyncio"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for the shared `desk` once for each of the module's stores."""
    setup = getattr(metafunc.module, "DESK", None)
    if "desk" in metafunc.fixturenames and setup is not None and len(setup.stores) > 1:
        metafunc.parametrize("desk", setup.stores, indirect=True)


@pytest.fixture
def desk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenWorkspace]:
    """The workspace that the module's `DESK` describes."""
    from copydesk.app.workspace import open_workspace
    from copydesk.text import sizes

    setup: Setup = request.module.DESK
    store = getattr(request, "param", setup.stores[0])
    config = setup.config
    if store == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        config = replace(
            config, registry="redis", redis_url=server.url, registry_name=server.fresh_name()
        )
    for name, size in {**setup.sizes, **({"LARGE": 0} if store == "large" else {})}.items():
        monkeypatch.setattr(sizes, name, size)
    setup.lay_files(tmp_path)
    with open_workspace(str(tmp_path), config, shared=store in ("shared", "redis")) as opened:
        yield opened


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Desks]:
    """Two workspaces for one file, a small one and a large one."""
    from support.large_files import Desks

    with Desks(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A server that many tests share, each under names of its own; nobody ends it."""
    from support.redis_servers import running

    with running() as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                for name, value in report.user_properties:
                    if name == "told":
                        terminalreporter.write_line(str(value))
