"""Sign-in tokens, sessions, and the limit on wrong guesses.

Invariant: a one-time token opens one session; tokens and session ids are compared by
digest, in constant time, and never logged.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from copydesk.app.mcp.limits import Guesses
from copydesk.app.web.names import Fault, fault_of
from copydesk.desk.backends.api import Version
from copydesk.desk.review import Seen, Shown, State

SESSION_MS: Final = 12 * 3_600_000
"""A session expires when it was not used for so long."""

MOST_SESSIONS: Final = 200
MOST_NAME: Final = 60
_MOST_NOTICES: Final = 5
_MOST_SEEN: Final = 10_000


@dataclass(frozen=True, slots=True)
class Notice:
    """A message shown once, on the next page; `kind` is good, bad or plain."""

    kind: str
    words: str


@dataclass(slots=True)
class Session:
    """One browser of one person; `fixed` to a member until its token (digest `token`) goes."""

    name: str
    fixed: bool
    csrf: str
    used_ms: int
    token: bytes = b""
    notices: list[Notice] = field(default_factory=list[Notice])
    viewed: OrderedDict[tuple[Version, State], None] = field(
        default_factory=OrderedDict[tuple[Version, State], None]
    )
    seen: OrderedDict[Seen, None] = field(default_factory=OrderedDict[Seen, None])

    parts: OrderedDict[tuple[Seen, int], frozenset[int]] = field(
        default_factory=OrderedDict[tuple[Seen, int], frozenset[int]]
    )

    def was_shown(self, shown: Shown) -> bool:
        """Whether the plan, as it is, was shown in full in this session."""
        return shown.seen in self.seen

    def show_part(self, one: Seen, context: int, part: int, count: int) -> int:
        """Remember that one of so many parts was shown; the first that was not, 0 for none."""
        key = one, context
        shown = self.parts.get(key, frozenset()) | {min(part, count)}
        self.parts[key] = shown
        while len(self.parts) > _MOST_SEEN:
            with suppress(KeyError):  # another thread did it
                self.parts.popitem(last=False)
        unseen = next((each for each in range(1, count + 1) if each not in shown), 0)
        if not unseen:
            self.remember(one)
        return unseen

    def remember(self, one: Seen) -> None:
        """Remember that a plan was shown in full in this session."""
        self.seen[one] = None
        while len(self.seen) > _MOST_SEEN:
            with suppress(KeyError):  # another thread did it
                self.seen.popitem(last=False)

    def view(self, plan: Version, state: State) -> None:
        """Mark a plan as looked at, as it stands in its file."""
        self.viewed[plan, state] = None
        while len(self.viewed) > _MOST_SEEN:
            with suppress(KeyError):  # another thread did it
                self.viewed.popitem(last=False)

    def notify(self, kind: str, words: str) -> None:
        """Add a notice to the next page."""
        self.notices = [*self.notices, Notice(kind, words)][-_MOST_NOTICES:]

    def take_notices(self) -> tuple[Notice, ...]:
        """Return and clear the pending notices."""
        notices, self.notices = self.notices, []
        return tuple(notices)

    def is_form(self, csrf: str) -> bool:
        """Whether the CSRF token is this session's."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))


class NameRefused(Exception):
    """A one-time token was used with a name that misleads; the token stays valid."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault: Fault = fault


class SessionStore:
    """The sessions of one server. Safe to use from many threads.

    `reviewers` gives the name that belongs to each lasting token now; `clock` is milliseconds since
    1970. `announce` is told each new one-time token; without it there are none.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        reviewers: Callable[[], Mapping[str, str]],
        announce: Callable[[str], None] | None,
    ) -> None:
        self._clock = clock
        self._reviewers = reviewers
        self._announce = announce
        self._once = b""
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._guesses = Guesses()
        self._lock = Lock()

    def new_token(self) -> None:
        """Announce a one-time token, in the place of the one before."""
        if self._announce is None:
            return
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._once = _digest(token)
        self._announce(token)

    def enter(
        self, token: str, name: str, address: str, taken: Collection[str] = ()
    ) -> tuple[str, Session] | None:
        """A new session for the bearer of the token, and its id; None for a wrong token.

        A one-time token is used up by it, and the next one is announced; its bearer
        gives the `name`, which looks like none of those `taken`. Raises TooMany, NameRefused.
        """
        name = unicodedata.normalize("NFC", name.strip()[:MOST_NAME].strip())
        now_ms = self._clock()
        given = _digest(token)
        with self._lock:
            self._guesses.check(address, now_ms)
            known = self._owner(given)
            is_once = bool(self._once) and hmac.compare_digest(self._once, given)
            if known is None and not is_once:
                self._guesses.failed(address, now_ms)
                return None
            if known is None:
                fault = fault_of(name or "reviewer", taken)
                if fault is not None:
                    raise NameRefused(fault)
                self._once = b""
            made = Session(
                known or name or "reviewer",
                known is not None,
                secrets.token_urlsafe(24),
                now_ms,
                given if known is not None else b"",
            )
            session_id = secrets.token_urlsafe(32)
            self._sessions[_digest(session_id)] = made
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        if known is None:
            self.new_token()
        return session_id, made

    def session(self, session_id: str) -> Session | None:
        """The session of that id unless it expired; this renews it."""
        key, now_ms = _digest(session_id), self._clock()
        with self._lock:
            found = self._sessions.get(key)
            if found is None:
                return None
            if now_ms - found.used_ms > SESSION_MS or not self.is_valid(found):
                del self._sessions[key]
                return None
            found.used_ms = now_ms
            self._sessions.move_to_end(key)
            return found

    def _owner(self, given: bytes) -> str | None:
        """The owner of a lasting token; compares with all of them, in constant time."""
        found: str | None = None
        for token, name in self._reviewers().items():
            if hmac.compare_digest(_digest(token), given):
                found = name
        return found

    def is_valid(self, session: Session) -> bool:
        """Whether the token that opened the session is still valid."""
        return not session.fixed or self._owner(session.token) == session.name

    def leave(self, session_id: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_digest(session_id), None)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
