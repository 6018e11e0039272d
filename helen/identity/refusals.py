"""Counts requests of agents that are refused, and writes them into the audit, as many a minute as it bears."""

from __future__ import annotations

from collections import Counter, deque

from twisted.logger import Logger

from helen.storage.agent_rows import AuditEntry, audit
from helen.storage.database import Store

AUDITED_A_MINUTE = 60  # refusals; clients must not fill the disk. Those that are left out are counted all the same

log = Logger()


class Refusals:
    """Keeps `counts` of refusals by their kind: "enrol", "renew", "shut-out", "conflict", "identify"; for metrics."""

    def __init__(self, store: Store) -> None:
        self.counts: Counter[str] = Counter()
        self._store = store
        self._audited: deque[float] = deque(maxlen=AUDITED_A_MINUTE)

    def add(self, kind: str, actor: str, name: str, address: str, reason: str, now: float) -> None:
        """Count a refusal at `now`, unix seconds, and have the audit tell of it unless it has told of too many."""
        self.counts[kind] += 1
        if len(self._audited) == AUDITED_A_MINUTE and now - self._audited[0] < 60:
            return
        self._audited.append(now)
        text = "{kind} of {name!r} from {address} is refused: {reason}"
        log.info(text, kind=kind, name=name, address=address, reason=reason)
        written = self._store.call(audit, AuditEntry(now, actor, f"{kind}-refused", name[:63], address, reason))
        written.addErrback(lambda failure: log.failure("The store did not take an entry", failure))
