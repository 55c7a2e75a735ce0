"""What is there once all that was sent to a kernel is written.

What lives here: flushing, looking, and looking again. What must not: what is
looked for. Invariant: nothing is looked at before the kernel's queues are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from copydesk.store.notes.kernel_calls import Kernel

Pause = Callable[[float], None]

WAITS_S = (0.05, 0.2, 0.5)
"""How long to wait, again and again, for what was written and cannot be seen."""

Seen = TypeVar("Seen")


def settled(
    kernel: Kernel, pause: Pause, look: Callable[[], Seen], good: Callable[[Seen], bool]
) -> Seen:
    """What `look` sees; a few times, until it is good."""
    kernel.flush()
    seen = look()
    for wait_s in WAITS_S:
        if good(seen):
            break
        pause(wait_s)
        kernel.flush()
        seen = look()
    return seen
