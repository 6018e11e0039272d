"""All judged states as JSON rows: the board. A row is written once for each change of its state, whoever asks.

10,000 rows are five megabytes: they go out some hundred a turn, and what did not change since the last answer is not
written anew. Rows come by agent and check, which is the order of cursors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from attrs import frozen

from equus_protocol.results import STATUS_WORDS
from helen.judge import Judge
from helen.judged import Rule, State
from helen.timeline import Key

MOST_KEPT = 50_000  # rows; some 500 bytes each make 25 MB
FRESH_A_TURN = 100  # rows that are written anew, some 10 us each
ROWS_A_TURN = 1_000  # rows that are only looked at, or taken as they are: half a microsecond each


@frozen
class Wanted:
    """`agent` None: all; `statuses` None: those that are not well."""

    agent: str | None = None
    statuses: frozenset[int] | None = None

    def takes(self, state: State) -> bool:
        return not is_well(state) if self.statuses is None else state.shown.status in self.statuses


def is_well(state: State) -> bool:
    """Ok, sure to be, and steady."""
    return state.shown.status == 0 and not state.shown.attempt and not state.flap.on


def show_state(judge: Judge, agent: str, check_id: str) -> dict[str, Any] | None:
    """A state for people and programs; None where nothing is known of the check."""
    state = judge.timeline.states.get((agent, check_id))
    return None if state is None else _show((agent, check_id), state, judge.timeline.rule((agent, check_id)))


def _show(key: Key, state: State, rule: Rule) -> dict[str, Any]:
    return {
        "agent": key[0],
        "check_id": key[1],
        **state.shown.to_json(),
        "attempts": rule.recover if state.shown.status == 0 else rule.attempts,
        "confirmed": state.hard.to_json(),
        "flapping": state.flap.on,
        "acknowledged": None if state.ack is None else _show_ack(state),
        "held_by": [{"kind": hold.kind, "ref": hold.ref, "detail": hold.detail} for hold in state.holds],
        "told": STATUS_WORDS[state.notice.told],
    }


def _show_ack(state: State) -> dict[str, Any]:
    assert state.ack is not None
    ack = state.ack
    return {"owner": ack.owner, "comment": ack.comment, "until": ack.until, "sticky": ack.sticky}


class Board:
    """Of one judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._kept: dict[Key, tuple[State, Rule, bytes]] = {}

    def rows(self, wanted: Wanted, after: Key | None = None) -> Iterator[tuple[Key, bytes] | None]:
        """Every row that is wanted, by agent and check; None is a moment in which something else may be done.

        Between two moments states may change: each row is true when it comes.
        """
        timeline, seen, fresh = self._judge.timeline, 0, 0
        for agent in self._agents(wanted, after):
            for key in timeline.keys_of(agent):
                seen += 1
                if seen % ROWS_A_TURN == 0 or fresh >= FRESH_A_TURN:
                    fresh = 0
                    yield None
                state = timeline.states.get(key)
                if state is None or (after is not None and key <= after) or not wanted.takes(state):
                    continue
                rule, kept = timeline.rule(key), self._kept.get(key)
                if kept is not None and kept[0] is state and kept[1] is rule:
                    yield key, kept[2]
                    continue
                fresh += 1
                yield key, self._write(key, state, rule)

    def _agents(self, wanted: Wanted, after: Key | None) -> list[str]:
        if wanted.agent is not None:
            return [wanted.agent]
        agents = self._judge.timeline.agents()
        return agents if after is None else agents[bisect_left(agents, after[0]) :]

    def _write(self, key: Key, state: State, rule: Rule) -> bytes:
        row = msgspec.json.encode(_show(key, state, rule))
        if len(self._kept) >= MOST_KEPT and key not in self._kept:
            self._kept.clear()  # of checks that are no more, most likely; the others are written again
        self._kept[key] = state, rule, row
        return row


def write_board(
    rows: Iterator[tuple[Key, bytes] | None], limit: int | None, write: Callable[[bytes], object],
    end: Callable[[Key | None], bytes], is_gone: Callable[[], bool],
) -> Iterator[None]:  # fmt: skip
    """For `cooperate`: the document in pieces. `end(place)` is what comes after the rows; place None: that was all."""
    write(b'{"states": [')
    part: list[bytes] = []
    count, last = 0, None
    for row in rows:
        if row is None:
            if part:
                write((b",\n" if count > len(part) else b"") + b",\n".join(part))
                part = []
            yield
            if is_gone():
                return
            continue
        if limit is not None and count == limit:
            break
        last = row[0]
        count += 1
        part.append(row[1])
    else:
        last = None
    if part:
        write((b",\n" if count > len(part) else b"") + b",\n".join(part))
    write(b"]" + end(last))
