"""Takes pings: a job says that it began, ended or failed with nothing but a GET, as healthchecks.io has it.

helen/web/foreign_routes/pings.py has the URLs. The URL is the secret: it can't be guessed, and no token is needed.
"""

from __future__ import annotations

import hmac
import re
import time
from collections import OrderedDict
from typing import Any
from uuid import UUID

from attrs import frozen

from equus_protocol.results import CRITICAL, OK, STATUS_WORDS
from helen.evaluation.commands import Commands, NotDurable
from helen.journal.values import JournalError
from helen.passive.declarations import DEFAULT_HOST, Declared
from helen.passive.intake import PassiveIntake
from helen.passive.rate_limit import RateLimit
from helen.passive.submission import NotTaken, Submission, TooOften

MAX_OUTPUT = 100_000  # bytes of a body that are kept, as many as healthchecks.io keeps
PINGS_A_MINUTE, PINGS_AT_ONCE = 60.0, 30  # of one ping
MISSES_A_MINUTE, MISSES_AT_ONCE = 20.0, 20  # of one address that asks for what isn't there
MAX_BEGUN = 50  # runs of one ping that have begun and not ended
SIGNALS = ("start", "fail", "log")
EXIT_STATUS = re.compile("[0-9]{1,3}")


@frozen
class Begun:
    """Holds a run of a ping's job that has begun and not ended. `first`: monotonic seconds.

    Its newest start is `last` in unix seconds, for the stamp, and `last_steady` in monotonic seconds, to measure by.
    """

    first: float
    last: float
    last_steady: float


class Pings:
    """Finds the ping of a URL, and makes a result of each signal; it remembers when runs began."""

    def __init__(self, passive: PassiveIntake, commands: Commands) -> None:
        self._passive = passive
        self._commands = commands
        self._quota = RateLimit(PINGS_A_MINUTE, PINGS_AT_ONCE)
        self._misses = RateLimit(MISSES_A_MINUTE, MISSES_AT_ONCE)
        self._begun: dict[tuple[str, str], OrderedDict[str, Begun]] = {}  # runs by their ids; "" has none

    def find(self, code: str) -> Declared | None:
        """Return the ping with this UUID in its URL, however it is written."""
        try:
            return self._passive.ping(str(UUID(code)))
        except ValueError:
            return None

    def find_named(self, key: str, name: str) -> Declared | None:
        """Return the ping NAME of the host `pings`, or HOST:NAME, for a caller that shows the key of all pings."""
        return self.find_declared(name) if self.is_key(key) else None

    def is_key(self, key: str) -> bool:
        """Return True for the key of all pings, /ping/KEY/NAME."""
        return hmac.compare_digest(key.encode(), self._passive.keys.ping_key(self._passive.config).encode())

    def find_declared(self, name: str) -> Declared | None:
        """Return the ping NAME of the host `pings`, or HOST:NAME."""
        host, colon, check = name.partition(":")
        declared = self._passive.config.named.get(host if colon else DEFAULT_HOST, {}).get(check if colon else name)
        return declared if declared is not None and declared.is_ping else None

    def miss(self, address: str) -> float:
        """Count a request of an address for a ping that isn't there; return seconds that it has to wait, or 0."""
        return self._misses.take(address, time.monotonic())

    async def take(self, ping: Declared, signal: str, body: bytes, run: str) -> None:
        """Take a signal: one of SIGNALS, an exit status, or nothing for a job that is done.

        `run` tells runs apart that overlap. Raises TooOften for too many pings, NotReported if it is not on disk.
        """
        wait = self._quota.take(f"{ping.host}/{ping.id}", time.monotonic())
        if wait:
            raise TooOften(f"more than {PINGS_A_MINUTE:g} pings a minute", wait)
        if signal == "start":
            await self._begin(ping, run)
            return
        document = _document(signal, body) | ({"run": run} if run else {})
        if signal == "log":
            await self._passive.note(ping, document, "ping")
            return
        begun = self._end(ping, run)
        if begun is not None:
            document |= {"started": begun.last, "took_ms": round((time.monotonic() - begun.last_steady) * 1_000, 3)}
        await self._passive.submit(Submission(ping.host, ping.id, document, "ping"))
        await self._expect_others(ping)

    async def _begin(self, ping: Declared, run: str) -> None:
        self._passive.find(ping.host, ping.id)
        await self._expect(ping, ping.grace, "it has begun")
        runs = self._begun.setdefault((ping.host, ping.id), OrderedDict())
        now = time.monotonic()
        runs[run] = Begun(runs[run].first if run in runs else now, time.time(), now)
        if len(runs) > MAX_BEGUN:
            runs.popitem(last=False)

    def _end(self, ping: Declared, run: str) -> Begun | None:
        """End a run, and those without an id; without an id all. Return it if its start is known."""
        runs = self._begun.get((ping.host, ping.id), OrderedDict())
        begun = runs.pop(run, None)
        runs.pop("", None)
        if not run:
            runs.clear()
        return begun

    async def _expect_others(self, ping: Declared) -> None:
        """Expect the end of the runs that go on: the result that came ended the expectation of all."""
        runs = self._begun.get((ping.host, ping.id), OrderedDict())
        now = time.monotonic()
        for run in [run for run, begun in runs.items() if begun.first + ping.grace <= now]:
            del runs[run]  # it was missed, and that was told
        if runs:
            first = min(begun.first for begun in runs.values())
            await self._expect(ping, first + ping.grace - now, "another run goes on")

    async def _expect(self, ping: Declared, within: float, why: str) -> None:
        """Bring the deadline of the next result forward. Raises NotTaken if that is not on disk."""
        try:
            document = {"within": within, "why": why, "begun": True}
            await self._commands.write("expect", document, ping.host, ping.id)
        except (NotDurable, JournalError) as error:
            raise NotTaken(str(error)) from error


def is_signal(text: str) -> bool:
    """Return True for start, fail, log, or an exit status."""
    return text in SIGNALS or (EXIT_STATUS.fullmatch(text) is not None and int(text) <= 255)


def _document(signal: str, body: bytes) -> dict[str, Any]:
    status = OK if signal in ("", "0", "log") else CRITICAL
    output = body[:MAX_OUTPUT].decode("utf-8", "replace").strip()
    said = {"": "done", "fail": "failed", "log": "said something"}.get(signal, f"exit status {signal}")
    first = output.partition("\n")[0][:200]
    document: dict[str, Any] = {"status": STATUS_WORDS[status], "summary": f"{said}: {first}" if first else said}
    if output:
        document["output"] = output
    if len(body) > MAX_OUTPUT:
        document["truncated"] = {"output": len(body)}
    return document
