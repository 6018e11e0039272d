"""Keep the newest result of each entry as the text that `check_nrpe` prints, and answer questions from them.

No question starts a run: an answer costs nothing, and a client can't keep the host busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field, frozen

from equus.nrpe.packets import MAX_ANSWER, Question
from equus.schedule.schedule import Entry
from equus_protocol import results
from equus_protocol.plugin_output import plugin_output
from groundwork.durations import words_of

UNKNOWN = results.UNKNOWN
MAX_DOCUMENT = 262_144  # bytes of a result that is read; a greater one would hold the reactor
MAX_KEPT = 5_000  # results; a schedule has 4,096 entries at most
USUAL_TIMEOUT = 60.0  # seconds of a run, where the entry says nothing
SLACK = 30.0  # seconds beyond two intervals and the timeout, as Helen has it
HELLO = "_NRPE_CHECK"  # check_nrpe without a command asks for the version
PREFIX = "check_"


@frozen
class _Newest:
    at: float  # monotonic seconds
    status: int
    text: str


@define
class NewestResults:
    """Holds the newest results by the ids of entries.

    `seconds`: a monotonic clock; `entries`: the schedule of the moment.
    """

    version: str
    seconds: Callable[[], float]
    entries: Callable[[], Iterable[Entry]] = tuple
    _newest: dict[str, _Newest] = field(factory=dict)

    def take(self, entry_id: str, blob: bytes) -> None:
        """Keep a result. Results of entries that the schedule no longer has are forgotten when there are too many."""
        if len(blob) > MAX_DOCUMENT:
            status, text = UNKNOWN, f"the result has more than {MAX_DOCUMENT:,} bytes"
        else:
            document = results.parse(blob)
            status, text = document.status, plugin_output(document)[:MAX_ANSWER]
        self._newest[entry_id] = _Newest(self.seconds(), status, text)
        if len(self._newest) > MAX_KEPT:
            known = self._known()
            self._newest = {name: one for name, one in self._newest.items() if name in known}

    def answer(self, question: Question) -> tuple[int, str]:
        """Return status and text for a question; UNKNOWN with the reason if there is no result that is good."""
        if question.command == HELLO:
            return results.OK, f"NRPE of Equus {self.version}"
        if question.arguments:
            return UNKNOWN, "UNKNOWN: arguments are never taken: the schedule has those of each check"
        known = self._known()
        name = question.command if question.command in known else question.command.removeprefix(PREFIX)
        if name not in known:
            return UNKNOWN, f"UNKNOWN: this agent runs no check {question.command[:80]!r}"
        newest, entry = self._newest.get(name), known[name]
        if newest is None:
            return UNKNOWN, f"UNKNOWN: {name} has not run since this agent started"
        age = self.seconds() - newest.at
        if age > 2 * entry.every + (entry.timeout or USUAL_TIMEOUT) + SLACK:
            every = words_of(entry.every)
            return UNKNOWN, f"UNKNOWN: {name} has no result for {age:.0f} s, and runs every {every}"
        return newest.status, newest.text

    def _known(self) -> Mapping[str, Entry]:
        return {entry.id: entry for entry in self.entries()}
