"""Tell of the journal's troubles: in the log, in what Helen says of itself, and by its end."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from helen.journal.values import REFUSING, SEALING, WRITING, Trouble
from helen.parts import Live


class JournalTroubles:
    """Keeps the troubles that last. `live`, given when there is one, shows the worst; `end` is called with a status."""

    log = Logger()

    def __init__(self, end: Callable[[int], None]) -> None:
        self.live: Live | None = None
        self._end = end
        self._lasting: dict[str, str] = {}  # by their part

    def take(self, trouble: Trouble) -> None:
        """Log a trouble or its end, and show the worst that lasts: without writing nothing is sealed either."""
        assert self.live is not None
        told = self.live.trouble
        if trouble.over:
            self._lasting.pop(trouble.part, None)
            self.log.info("{sentence}", sentence=trouble.sentence)
        elif trouble.part == REFUSING:
            self.log.critical("{sentence}", sentence=trouble.sentence)
        else:
            self._lasting[trouble.part] = trouble.sentence
        self.live.trouble = self._lasting.get(WRITING) or self._lasting.get(SEALING)
        if self.live.trouble not in (None, told):
            self.log.critical("{sentence}", sentence=self.live.trouble)
        if trouble.fatal:
            self._end(1)
