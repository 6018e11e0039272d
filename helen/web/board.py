"""All judged states as JSON rows: the board. A row is written once for each change that it shows, whoever asks.

10,000 rows are three megabytes. They are kept by agent, and an agent of which nothing was heard since the last answer
costs next to nothing. Rows come by agent and check, which is the order of cursors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import msgspec
from attrs import define, frozen

from equus_protocol.results import STATUS_WORDS
from helen.judge import Judge
from helen.judged import ROLLOUT, Rule, State
from helen.timeline import AgentRules, Key

MOST_KEPT = 50_000  # rows; some 300 bytes each make 15 MB
FRESH_A_TURN = 100  # rows that are written anew, some 10 us each
ROWS_A_TURN = 2_000  # rows that are taken as they are, or passed over: a tenth of a microsecond each, and their bytes

BETWEEN = b",\n"
Rows = tuple[Sequence[Key], Sequence[bytes], bytes | None]  # whose they are, each, and all of them as one text


@frozen
class Wanted:
    """`agent` None: all; `statuses` None: those that are not well."""

    agent: str | None = None
    statuses: frozenset[int] | None = None


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
        "held_by": [{"kind": hold.kind, "ref": hold.ref, "detail": hold.detail} for hold in state.holds]
        + _trial(state),
        "told": STATUS_WORDS[state.notice.told],
    }


def _trial(state: State) -> list[dict[str, str]]:
    """A version that is being tried holds back as well."""
    trial = state.trial
    return [] if trial is None else [{"kind": ROLLOUT, "ref": trial.ref, "detail": trial.detail}]


def _show_ack(state: State) -> dict[str, Any]:
    assert state.ack is not None
    ack = state.ack
    return {"owner": ack.owner, "comment": ack.comment, "until": ack.until, "sticky": ack.sticky}


@define
class Block:
    """The rows of one agent, and what they were written from."""

    keys: Sequence[Key]
    rules: AgentRules | None
    states: list[State]
    rows: list[bytes]
    whole: bytes = b""
    unwell: Rows = ((), (), b"")

    @classmethod
    def of(cls, keys: Sequence[Key], rules: AgentRules | None, states: list[State], rows: list[bytes]) -> Block:
        bad = [at for at, state in enumerate(states) if not is_well(state)]
        unwell = [rows[at] for at in bad]
        shown = [keys[at] for at in bad], unwell, BETWEEN.join(unwell)
        return cls(keys, rules, states, rows, BETWEEN.join(rows), shown)

    def wanted(self, wanted: Wanted) -> Rows:
        if wanted.statuses is None:
            return self.unwell
        if len(wanted.statuses) == len(STATUS_WORDS):
            return self.keys, self.rows, self.whole
        found = [
            at for at, state in enumerate(self.states) if state.shown.status in wanted.statuses
        ]  # fmt: skip
        return [self.keys[at] for at in found], [self.rows[at] for at in found], None


NO_BLOCK = Block((), None, [], [])


class Board:
    """Of one judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._blocks: dict[str, Block] = {}
        self._kept = 0  # rows in them
        self._builds = 0
        self._numbers: dict[str, int] = {}  # which build a block is of
        self._building: Counter[str] = Counter()  # agents whose rows are being written, and how often

    def rows(self, wanted: Wanted, after: Key | None = None) -> Iterator[Rows | None]:
        """Every row that is wanted, some of an agent at a time; None is a moment in which other things may be done.

        Between two moments states may change: each row is true when it comes.
        """
        seen = 0
        for agent in self._agents(wanted, after):
            block = yield from self._block(agent)
            keys, rows, text = block.wanted(wanted)
            if after is not None and agent == after[0]:
                first = bisect_right(keys, after)
                keys, rows, text = keys[first:], rows[first:], None
            if rows:
                yield keys, rows, text
            seen += len(block.keys)
            if seen >= ROWS_A_TURN:
                seen = 0
                yield None

    def _agents(self, wanted: Wanted, after: Key | None) -> list[str]:
        if wanted.agent is not None:
            return [wanted.agent]
        agents = self._judge.timeline.agents()
        return agents if after is None else agents[bisect_left(agents, after[0]) :]

    def _block(self, agent: str) -> Generator[None, None, Block]:
        """As it is now; what is shown as before is not written again."""
        timeline = self._judge.timeline
        keys, rules, held = timeline.keys_of(agent), timeline.rules.get(agent), self._blocks.get(agent, NO_BLOCK)
        is_old = agent in timeline.touched or self._building[agent] > 0
        if held.keys is keys and held.rules is rules and not is_old:
            return held
        timeline.touched.discard(agent)
        self._builds = number = self._builds + 1
        self._building[agent] += 1  # whoever asks meanwhile must not take the block of before for the newest
        try:
            block = yield from self._build(keys, rules, held)
        finally:
            self._building[agent] -= 1
            if not self._building[agent]:
                del self._building[agent]
        if number > self._numbers.get(agent, 0):  # else another was begun later, and is done
            self._keep(agent, block, number)
        return block

    def _build(self, keys: Sequence[Key], rules: AgentRules | None, held: Block) -> Generator[None, None, Block]:
        timeline, rows, fresh = self._judge.timeline, list[bytes](), 0
        states = list(map(timeline.states.__getitem__, keys))
        for at, (key, state) in enumerate(zip(keys, states, strict=True)):
            if held.keys is keys and held.rules is rules and _looks_alike(held.states[at], state):
                rows.append(held.rows[at])
                continue
            rows.append(msgspec.json.encode(_show(key, state, timeline.rule(key))))
            fresh += 1
            if fresh % FRESH_A_TURN == 0:
                yield None
        return Block.of(keys, rules, states, rows)

    def _keep(self, agent: str, block: Block, number: int) -> None:
        self._kept += len(block.rows) - len(self._blocks.get(agent, NO_BLOCK).rows)
        self._blocks[agent], self._numbers[agent] = block, number
        if self._kept > MOST_KEPT:
            self._numbers.clear()
            self._blocks.clear()  # of agents that are no more, most likely; the others are written again
            self._kept = 0


def _looks_alike(held: State, state: State) -> bool:
    """Whether a row shows the same of both. A result that changes nothing leaves these parts as they are."""
    if held is state:
        return True
    same = held.shown is state.shown and held.hard is state.hard and held.holds is state.holds
    same = same and held.ack is state.ack and held.trial is state.trial
    return same and held.flap.on == state.flap.on and held.notice.told == state.notice.told


def write_board(
    found: Iterator[Rows | None], limit: int | None, write: Callable[[bytes], object],
    end: Callable[[Key | None], bytes], is_gone: Callable[[], bool],
) -> Iterator[None]:  # fmt: skip
    """For `cooperate`: the document in pieces. `end(place)` is what comes after the rows; place None: that was all."""
    count, part, last, more, separator = 0, list[bytes](), None, False, b""
    write(b'{"states": [')

    def flush() -> None:
        nonlocal part, separator
        if part:
            write(separator + BETWEEN.join(part))
            part, separator = [], BETWEEN

    for some in found:
        if some is None:
            flush()
            yield
            if is_gone():
                return
            continue
        keys, rows, text = some
        if limit is not None and count + len(rows) > limit:
            rows = rows[: limit - count]
            more = True
        if rows:
            count += len(rows)
            last = keys[len(rows) - 1]
            if text is None or more:
                part.extend(rows)
            else:
                part.append(text)
        if more:
            break
    flush()
    write(b"]" + end(last if more else None))
