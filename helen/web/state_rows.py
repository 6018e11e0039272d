"""Keeps all judged states as JSON rows: a row is written once for each change that it shows, however many clients ask.

10,000 rows are three megabytes. They are kept by agent, and an agent that has said nothing since the last answer
costs next to nothing. Rows come by agent and check, which is the order of cursors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Annotated, TypedDict

import msgspec
from attrs import define, frozen

from equus_protocol.results import STATUS_WORDS
from helen.agents.sight import Sight
from helen.evaluation.evaluator import Evaluator
from helen.states.agent_rules import AgentRules
from helen.states.model import ROLLOUT, Condition, Key, Rule, State
from helen.web.json_types import Status, words
from helen.web.sight.redaction import seen_state

MOST_KEPT = 50_000  # rows; some 300 bytes each make 15 MB
FRESH_A_TURN = 100  # rows that are written anew, some 10 us each, of however many agents
ROWS_OF_HIDDEN = 20  # that could be taken in the time in which an agent is found to be out of sight
ROWS_A_TURN = 2_000  # rows that are taken as they are, or passed over: a tenth of a microsecond each, and their bytes

BETWEEN = b",\n"
Rows = tuple[Sequence[Key], Sequence[bytes], bytes | None]  # their keys, each row, and all of them as one text


class ConditionJson(TypedDict):
    """Holds a status, soft or hard, since when (unix seconds), and why. `attempt`: the number of a soft result."""

    status: Status
    kind: Annotated[str, words("soft", "hard")]
    since: float
    reason: str | None
    attempt: int


class AcknowledgedJson(TypedDict):
    """Describes the acknowledgement of a state. `until` is in unix seconds."""

    owner: str
    comment: str
    until: float | None
    sticky: bool


class HoldJson(TypedDict):
    """Names one reason for which people are not told."""

    kind: str
    ref: str
    detail: str


class StateJson(ConditionJson):
    """Describes the judged state of one check: how it looks, how it is confirmed, and whether people are told."""

    agent: str
    check_id: str
    attempts: int
    confirmed: ConditionJson
    flapping: bool
    acknowledged: AcknowledgedJson | None
    held_by: list[HoldJson]
    told: Status


@frozen
class StateFilter:
    """Picks the states that are asked for. `agent` None: of all agents; `statuses` None: those that are not well.

    `sight` None: the caller is not limited to some agents.
    """

    agent: str | None = None
    statuses: frozenset[int] | None = None
    sight: Sight | None = None


def is_well(state: State) -> bool:
    """Return True if a state is ok, confirmed, and steady."""
    return state.shown.status == 0 and not state.shown.attempt and not state.flap.on


def show_state(evaluator: Evaluator, agent: str, check_id: str, sight: Sight | None = None) -> StateJson | None:
    """Return a state for people and programs; None where nothing is known of the check.

    With `sight`, holds tell nothing of parents that are out of it.
    """
    key = agent, check_id
    state = evaluator.timeline.states.get(key)
    return None if state is None else _show(key, seen_state(state, sight), evaluator.timeline.rule(key))


def _show(key: Key, state: State, rule: Rule) -> StateJson:
    return {
        "agent": key[0],
        "check_id": key[1],
        **_show_condition(state.shown),
        "attempts": rule.recover if state.shown.status == 0 else rule.attempts,
        "confirmed": _show_condition(state.hard),
        "flapping": state.flap.on,
        "acknowledged": _show_ack(state),
        "held_by": _show_holds(state),
        "told": STATUS_WORDS[state.notice.told],
    }


def _show_condition(condition: Condition) -> ConditionJson:
    shown: ConditionJson = condition.to_json()  # type: ignore[assignment]  # a dict of just these keys
    return shown


def _show_holds(state: State) -> list[HoldJson]:
    """Return the holds of a state; a version that is being tried holds back as well."""
    shown: list[HoldJson] = [{"kind": hold.kind, "ref": hold.ref, "detail": hold.detail} for hold in state.holds]
    if state.trial is not None:
        shown.append({"kind": ROLLOUT, "ref": state.trial.ref, "detail": state.trial.detail})
    return shown


def _show_ack(state: State) -> AcknowledgedJson | None:
    ack = state.ack
    if ack is None:
        return None
    return {"owner": ack.owner, "comment": ack.comment, "until": ack.until, "sticky": ack.sticky}


@define
class Block:
    """Holds the rows of one agent, and the states and rules that they were written from."""

    keys: Sequence[Key]
    rules: AgentRules | None
    states: list[State]
    rows: list[bytes]
    whole: bytes = b""
    unwell: Rows = ((), (), b"")

    @classmethod
    def of(cls, keys: Sequence[Key], rules: AgentRules | None, states: list[State], rows: list[bytes]) -> Block:
        """Return the block of these rows; those that are not well are picked out, since they are asked for most."""
        bad = [at for at, state in enumerate(states) if not is_well(state)]
        unwell = [rows[at] for at in bad]
        shown = [keys[at] for at in bad], unwell, BETWEEN.join(unwell)
        return cls(keys, rules, states, rows, BETWEEN.join(rows), shown)

    def fitting(self, wanted: StateFilter) -> Rows:
        """Return the rows that are asked for."""
        if wanted.statuses is None:
            return self.unwell
        if len(wanted.statuses) == len(STATUS_WORDS):
            return self.keys, self.rows, self.whole
        found = [
            at for at, state in enumerate(self.states) if state.shown.status in wanted.statuses
        ]  # fmt: skip
        return [self.keys[at] for at in found], [self.rows[at] for at in found], None


NO_BLOCK = Block((), None, [], [])


class StateRows:
    """Holds the rows of all states of an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._blocks: dict[str, Block] = {}
        self._kept = 0  # rows in them
        self._builds = 0
        self._numbers: dict[str, int] = {}  # which build a block is of
        self._dropped = 0  # the newest build when all blocks were dropped: none up to it is kept any more
        self._building: Counter[str] = Counter()  # agents whose rows are being written, and how often

    def rows(self, wanted: StateFilter, after: Key | None = None) -> Iterator[Rows | None]:
        """Yield every row that is wanted, some of an agent at a time; None is a moment in which other work may be done.

        Between two moments states may change: each row is true when it comes.
        """
        seen = 0
        for agent in self._agents(wanted, after):
            if wanted.agent is None and wanted.sight is not None and not wanted.sight(agent):
                seen += ROWS_OF_HIDDEN
                if seen >= ROWS_A_TURN:
                    seen = 0
                    yield None
                continue
            block, fresh = yield from self._block(agent)
            seen += fresh * (ROWS_A_TURN // FRESH_A_TURN)
            keys, rows, text = self._redacted(block, block.fitting(wanted), wanted.sight)
            if after is not None and agent == after[0]:
                first = bisect_right(keys, after)
                keys, rows, text = keys[first:], rows[first:], None
            if rows:
                yield keys, rows, text
            seen += len(block.keys)
            if seen >= ROWS_A_TURN:
                seen = 0
                yield None

    def _redacted(self, block: Block, found: Rows, sight: Sight | None) -> Rows:
        """Return the rows without what is out of a caller's sight; few have anything of that."""
        if sight is None or all(seen_state(state, sight) is state for state in block.states):
            return found
        timeline, keys = self._evaluator.timeline, found[0]
        states = dict(zip(block.keys, block.states, strict=True))
        shown = [_show(key, seen_state(states[key], sight), timeline.rule(key)) for key in keys]
        return keys, [msgspec.json.encode(each) for each in shown], None

    def _agents(self, wanted: StateFilter, after: Key | None) -> list[str]:
        if wanted.agent is not None:
            return [wanted.agent]
        agents = self._evaluator.timeline.agents()
        return agents if after is None else agents[bisect_left(agents, after[0]) :]

    def _block(self, agent: str) -> Generator[None, None, tuple[Block, int]]:
        """Return the block of an agent as it is now, and how many of its rows were written since the last moment.

        A row that shows the same as before is not written again.
        """
        timeline = self._evaluator.timeline
        keys, rules, held = timeline.keys_of(agent), timeline.rules.get(agent), self._blocks.get(agent, NO_BLOCK)
        is_old = agent in timeline.touched or self._building[agent] > 0
        if held.keys is keys and held.rules is rules and not is_old:
            return held, 0
        timeline.touched.discard(agent)
        self._builds = number = self._builds + 1
        self._building[agent] += 1  # a client that asks meanwhile must not take the block of before for the newest
        try:
            block, fresh = yield from self._build(keys, rules, held)
        except BaseException:  # the client has hung up, most likely: what has changed is in no block yet
            timeline.touched.add(agent)
            raise
        finally:
            self._building[agent] -= 1
            if not self._building[agent]:
                del self._building[agent]
        if number > self._numbers.get(agent, self._dropped):  # else another was begun later, and is done
            self._keep(agent, block, number)
        return block, fresh

    def _build(
        self, keys: Sequence[Key], rules: AgentRules | None, held: Block
    ) -> Generator[None, None, tuple[Block, int]]:
        timeline, rows, fresh = self._evaluator.timeline, list[bytes](), 0
        states = list(map(timeline.states.__getitem__, keys))
        for at, (key, state) in enumerate(zip(keys, states, strict=True)):
            if held.keys is keys and held.rules is rules and _looks_alike(held.states[at], state):
                rows.append(held.rows[at])
                continue
            rows.append(msgspec.json.encode(_show(key, state, timeline.rule(key))))
            fresh += 1
            if fresh % FRESH_A_TURN == 0:
                yield None
        return Block.of(keys, rules, states, rows), fresh % FRESH_A_TURN

    def _keep(self, agent: str, block: Block, number: int) -> None:
        self._kept += len(block.rows) - len(self._blocks.get(agent, NO_BLOCK).rows)
        self._blocks[agent], self._numbers[agent] = block, number
        if self._kept > MOST_KEPT:
            self._numbers.clear()
            self._dropped = self._builds
            self._blocks.clear()  # of agents that are no more, most likely; the others are written again
            self._kept = 0


def _looks_alike(held: State, state: State) -> bool:
    """Return True if a row shows the same of both. A result that changes nothing leaves these parts as they are."""
    if held is state:
        return True
    same = held.shown is state.shown and held.hard is state.hard and held.holds is state.holds
    same = same and held.ack is state.ack and held.trial is state.trial
    return same and held.flap.on == state.flap.on and held.notice.told == state.notice.told


def write_states(
    found: Iterator[Rows | None], limit: int | None, write: Callable[[bytes], object],
    end: Callable[[Key | None], bytes], is_gone: Callable[[], bool],
) -> Iterator[None]:  # fmt: skip
    """Write the document in pieces, for `cooperate`. `end(place)` comes after the rows; place None: that was all."""
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
