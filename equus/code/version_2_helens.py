"""Remember which Helens have spoken version 2, and keep the age of the news on disk.

Code comes only in version 2. So a Helen that spoke it before and speaks version 1 now keeps news back, without a
message that could be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from equus.code.news import AGE_FILE, FILE, dump_speakers, load_speakers
from equus.code.update import Updater
from equus.link.connection import Connection
from equus_protocol.freshness import LIFE

SURE_AFTER = 60.0  # seconds of a connection without a message of version 2: then the Helen doesn't speak it


class Version2Helens:
    """Keeps the addresses of such Helens in the folder `state`; `write` replaces a file there. Making it blocks."""

    def __init__(
        self, state: Path, updater: Updater, write: Callable[[Path, bytes], None], steady: Callable[[], float]
    ) -> None:
        self._state, self._updater, self._write, self._steady = state, updater, write, steady
        self._addresses = load_speakers(state)
        updater.news.restore(state)

    def add(self, helen: str) -> None:
        """Remember that a Helen has spoken version 2."""
        if helen not in self._addresses:
            self._addresses |= {helen}
            self._write(self._state / FILE, dump_speakers(self._addresses))

    def greeted(self, helen: str, version: int) -> None:
        """Take note of the version in which a Helen is greeted: 1 means that it has refused 2."""
        if version == 1 and helen in self._addresses:
            how = "spoke version 2 before and refuses it now: no code comes from it"
            self._updater.news.kept_back(helen, how)

    def look_at(self, connection: Connection) -> None:
        """Notice that the Helen of a connection speaks version 1 now. Call it each minute."""
        is_old = self._steady() - connection.began >= SURE_AFTER and connection.alive
        if is_old and not connection.conversation.speaks_v2 and connection.helen in self._addresses:
            how = "spoke version 2 before and speaks version 1 now: no code comes from it"
            self._updater.news.kept_back(connection.helen, how)

    def look_at_age(self) -> None:
        """Store the age of the newest proof, and log when it has become too old. Call it each minute."""
        self.keep_age()
        news = self._updater.news
        if self._updater.stale() is not None or news.age <= LIFE:
            news.look()

    def keep_age(self) -> None:
        """Store the age of the newest proof if it has changed much."""
        content = None if self._updater.is_local else self._updater.news.dump()
        if content is not None:
            self._write(self._state / AGE_FILE, content)
