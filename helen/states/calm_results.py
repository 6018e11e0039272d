"""Takes the results that change nothing, at once: nearly all that come. Pure.

Such a result says what the one before it said, of a check of which all is settled, from an agent whose clock is known
and right. `Timeline.result` steps it as any other; `calm` comes to the same in one call, without a generator and
without what a step makes on its way. It decides nothing: whatever is not plain is left to `Timeline.result`.
"""

from __future__ import annotations

from groundwork.target_ids import source_of
from helen.states.agent_rules import NO_RULE
from helen.states.clock_offset import TOLERANCE, Newest
from helen.states.clock_steps import BACK_SECONDS, ClockSteps
from helen.states.inputs import Result
from helen.states.machine import LATE_SECONDS
from helen.states.model import Seen, State
from helen.states.silence import deadline

RESERVED = "equus:"  # check ids of an agent's own reports, such as gaps: they are facts about the history, not checks
MOST_PUT_OFF = 50  # checks that are planned anew for one result: those of a great fleet would take too long
OWN_SPOOL = "helen"  # of results that Helen numbers: those of many programs, in no order of their ends


class CalmResults(ClockSteps):
    """Adds `calm` to the states of a fleet."""

    def calm(self, agent: str, check_id: str, given: Result) -> bool:
        """Take a result that counts and changes nothing but when the check was heard of; `ended` by the agent's clock.

        Return False for any other, and then nothing has been said of it: `Timeline.result` has to step it.
        """
        key = agent, check_id
        state, at = self.states.get(key), given.at
        if state is None or at < self.clock - BACK_SECONDS:
            return False
        seen, shown, spool, sequence = state.seen, state.shown, given.spool, given.sequence
        if seen is None or seen.spool != spool or sequence < seen.sequence or state.expected is not None:
            return False
        if shown.status != given.status or shown.reason != given.reason or shown.attempt or state.flap.bits:
            return False
        if state.notice.decided or state.holds or key not in self._deadlines.planned or check_id.startswith(RESERVED):
            return False
        now, ended, newest = at if at > self.clock else self.clock, given.ended, None
        rule = self._rules.get(key, NO_RULE)
        if rule.runners:
            return False
        if ended is not None:
            if key in self.retired:
                return False
            # A target's result has the agent that looked at it in its spool, and is dated by the clock of that one.
            source, own = (agent, spool) if " " not in spool else source_of(agent, spool)
            if not rule.passive or source != agent:
                clock = self.clocks.get(source)
                if clock is None or clock.is_new or clock.since is not None or clock.rivals is not None:
                    return False
                if not clock.offset - TOLERANCE <= ended - at <= clock.offset:
                    return False
                if own != OWN_SPOOL:
                    newest = self.newest.get(source)
                    if newest is None or newest.doubted or newest.spool != own or sequence <= newest.sequence:
                        return False
                    if ended < newest.ended - TOLERANCE:
                        return False
                    newest = Newest(own, sequence, ended, at)
                ended -= clock.offset
            if now - ended >= (rule.stale or LATE_SECONDS):
                return False
        if self._deadlines.next <= at and not self._put_off(at):
            return False
        if newest is not None:
            self.newest[source] = newest
        self.clock = now
        self.states[key] = State(
            shown, state.hard, Seen(now, ended, spool, sequence, given.code), state.flap, state.notice, (), state.ack,
            state.lost, state.number, None, state.trial, state.down, state.ack_at,
        )  # fmt: skip
        self.touched.add(agent)
        if shown.status:  # a list of checks shows of one that is ok when it became so, and nothing of later results
            self.changed.add(key)
        return True

    def _put_off(self, at: float) -> bool:
        """Plan those checks anew that were to be looked at by `at`, as `Timeline.advance` does, as long as none is due.

        Return False at the first entry of which more comes than a later one, and if there are more than MOST_PUT_OFF.
        """
        deadlines = self._deadlines
        for _ in range(MOST_PUT_OFF):
            if deadlines.next > at:
                return True
            time, key = deadlines.first()
            if key is not None:
                if isinstance(key, str):
                    return False
                due = deadline(self.states[key], self.rule(key), self._listening(key), self.started)
                if due is not None and due <= max(self.clock, time):
                    return False
                deadlines.pop()
                deadlines.plan(key, due)
            else:
                deadlines.pop()
        return deadlines.next > at
