"""What can be wrong with a kernel, as switches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Fault = Literal[
    "refused",  # code -1, nothing done
    "ignored",  # code 0 and an answer as if, nothing done
    "panic",  # code 0, data null, nothing done
    "panic_after",  # done, then code 0, data null
    "hung_up",  # the connection is closed, nothing done
    "hung_up_after",  # done, then the connection is closed
    "error_page",  # HTTP 500, nothing done
    "error_page_after",  # done, then HTTP 500
    "nonsense_after",  # done, then something that is no JSON
    "flooded_after",  # done, then an answer without end
    "silent",  # no answer in time, nothing done
    "silent_after",  # done, but no answer in time
    "late",  # no answer in time, but done when some other requests have been answered
    "cut",  # only the first half of the text is written
    "cleared",  # nothing of the text is written, an empty block is
    "stripped",  # the attributes of an updated block are dropped
    "twice",  # what is inserted is inserted twice
    "astray",  # what is inserted comes to stand elsewhere
    "unnamed",  # done, but the answer names nothing
    "renamed",  # done, but the blocks get other ids than the text says
    "blinks_after",  # done, then the next request is not answered
    "blind_after",  # done, then the next few are not
    "unauthorized",  # HTTP 401 from then on
    "gone",  # nobody listens from then on
]
"""What happens to one write."""

FAULTS: tuple[Fault, ...] = get_args(Fault)


@dataclass
class Habits:
    """How the kernel behaves. `faults`: by the number of a write, from 1, counted since `begin`.

    `progress`: percent booted. `lateness`: so many requests are answered
    before a late write is done. `dark`: so many requests are not answered. `hangs_up`: after each answer, without having said so.
    """

    version: str = "3.7.3"
    progress: int = 100
    forbidden: bool = False
    read_only: bool = False
    redirect: str = ""
    hangs_up: bool = False
    lateness: int = 10
    faults: dict[int, Fault] = field(default_factory=dict)
    writes: int = 0
    dark: int = 0
    calls: list[str] = field(default_factory=list)

    def begin(self, **faults: Fault) -> None:
        """Count writes from here; `at_3="cut"` is what happens to the third."""
        self.writes = self.dark = 0
        self.calls = []
        self.faults = {int(name.removeprefix("at_")): fault for name, fault in faults.items()}

    @property
    def since(self) -> tuple[int, ...]:
        """The version in numbers."""
        return tuple(int(part) for part in self.version.split("."))
