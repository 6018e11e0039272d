"""Routes of queries, which answer in lines: run a check on agents now, or one-off code. docs/api.rst lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred

from equus_protocol import one_off
from equus_protocol.codec import MAX_BLOB, Role, encode
from equus_protocol.errors import LocalProtocolError
from equus_protocol.messages import Check
from groundwork.authority import Caller
from groundwork.counts import count
from helen.agents.roster import Agent, unclaimed
from helen.parts import Parts
from helen.queries.live_queries import Query, Target
from helen.queries.one_off_code import Code, Signed
from helen.sessions.delivery import encode_args
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import (
    DEFAULT_TIMEOUT,
    AnswerTime,
    Duration,
    Files,
    Object,
    OptionalPatterns,
    OptionalText,
    Patterns,
    Text,
    read_patterns,
    read_text,
)
from helen.web.connections.short_turns import take_turns
from helen.web.lines import Lines
from helen.web.problems import bad_request
from helen.web.request import ApiRequest
from helen.web.route import LINES, V1, Routes
from helen.web.sight.agents_in_turns import agents_in_sight, meant_by, steps_of
from helen.web.targets import targets_of, targets_of_query, would_ask

routes = Routes()


class AskCheck(Body, frozen=True, kw_only=True):
    """Asks agents to run a check of their set."""

    check: Text
    on: Patterns
    args: Object = {}
    timeout: AnswerTime = DEFAULT_TIMEOUT


class OneOffCode(Body, frozen=True, kw_only=True):
    """Has code that is in no set. With `order` it is signed already; else `check` and `on` are needed."""

    files: Files
    check: OptionalText = None
    on: OptionalPatterns = None
    args: Object = {}
    timeout: AnswerTime = DEFAULT_TIMEOUT
    order: OptionalText = None


class RunOnce(OneOffCode, frozen=True, kw_only=True):
    """Asks agents to run code that is in no set, now. Agents may be given it for `life` seconds."""

    life: Duration = one_off.LIFE


@routes.post(
    f"{V1}/runs", "run", "Run a check now", body=AskCheck, answer=dict[str, Any], kind=LINES, action="run",
    errors={404: "no such agent"}, streams=True,
)  # fmt: skip
async def run_check(parts: Parts, request: ApiRequest, body: AskCheck) -> bytes:
    """Answer in lines: first {"targets": N}, then one target a line as they become known.

    Raises Problem for arguments that can't be sent, and if no agent fits.
    """
    check = _judge_name(body.check)
    try:
        fits = len(encode_args(body.args)) <= MAX_BLOB
    except UnicodeEncodeError as error:
        raise bad_request(f"`args` holds what is no text: {error.reason}") from error
    if not fits:
        raise bad_request(f"`args` has more than {MAX_BLOB} bytes")
    targets = await targets_of_query(parts, request.caller, body.on)
    request.subject = f"{check} on {' '.join(body.on)}"
    if body.dry_run:
        return write_json(request, would_ask(targets))
    return await LiveQuery(parts, request).ask(check, targets, body.args, body.timeout)


@routes.post(
    f"{V1}/once", "once", "Run code that is in no set", body=RunOnce, answer=dict[str, Any], kind=LINES,
    errors={404: "no such agent", 409: "needs a signature, or order refused"}, streams=True,
)  # fmt: skip
async def run_once(parts: Parts, request: ApiRequest, body: RunOnce) -> bytes:
    """Answer in lines, as of /runs. No answer is kept."""
    wanted = await code_of(parts, request.caller, body, body.life)
    if isinstance(wanted, Code):
        await targets_of_query(parts, request.caller, wanted.on)  # code for no agent need not be signed
    prepared = await parts.one_off.prepare(wanted, request.caller.actor, body.dry_run)
    targets = await targets_of_query(parts, request.caller, prepared.on)
    if body.dry_run:
        return write_json(request, would_ask(targets))
    return await LiveQuery(parts, request).ask(one_off.NAME, targets, prepared.blob, body.timeout)


async def code_of(parts: Parts, caller: Caller, body: OneOffCode, life: float) -> Code | Signed:
    """Return the code to be run: with `order` it is signed already, else Helen signs it for `life` seconds.

    Raises Problem if `check` or `on` is missing then, or if too many agents would have to be named.
    """
    if body.order is not None:
        return Signed(body.order.encode(), body.files)
    check = body.check if body.check is not None else read_text({}, "check")
    on = body.on if body.on is not None else read_patterns({}, "on")
    named = await named_by(parts, caller, on)
    if len(named) > one_off.MAX_PATTERNS >= len(on):
        have = count(len(named) - len(on), "agent has", "agents have")
        raise bad_request(
            f"{have} the label by Helen's word alone, so the order has to name them, and it"
            f" names {one_off.MAX_PATTERNS} at most: ask in parts, or give names by a pattern"
        )
    return Code(check, body.files, body.args, named, life)


async def named_by(parts: Parts, caller: Caller, on: list[str]) -> tuple[str, ...]:
    """Return the patterns of an order; of a caller with a limit the names of its agents, so that no other one fits.

    Else with the names of those that only a given label fits: an agent holds an order against its name and its own
    labels, and doesn't know what was given to it.
    """
    if caller.on is not None:
        return tuple(sorted(agent.name for agent in await targets_of(parts, caller, on)))
    named = list[str]()
    fitting = await agents_in_sight(parts.sessions.roster.agents.values(), None, meant_by(on, askable=True))

    def take(agents: Sequence[Agent]) -> None:
        named.extend(unclaimed(on, ((agent.name, agent.claimed) for agent in agents)))

    await take_turns(steps_of(fitting, take))
    return (*on, *sorted(named))


class LiveQuery:
    """Answers one query with a line for each target; once the client has hung up, agents are told to give up."""

    def __init__(self, parts: Parts, request: ApiRequest) -> None:
        self._sessions = parts.sessions
        self._lines = Lines(request)
        self._done: Deferred[bytes] = Deferred()
        self._query: Query | None = None
        request.notifyFinish().addErrback(self._hung_up)

    def ask(self, check: str, targets: list[Agent], args: dict[str, Any] | bytes, timeout: float) -> Deferred[bytes]:
        """Ask the targets, which have `timeout` seconds. Fires when each has its outcome, or the client has gone."""
        self._lines.write({"targets": len(targets)})
        self._query = self._sessions.ask(check, targets, args, timeout, self._tell, self._end)
        if self._lines.is_gone:
            self._sessions.queries.abandon(self._query)
        return self._done

    def _tell(self, target: Target) -> None:
        self._lines.write_line(target.to_line())

    def _end(self) -> None:
        if not self._done.called:
            self._done.callback(b"")

    def _hung_up(self, _: object) -> None:
        if self._query is not None:
            self._sessions.queries.abandon(self._query)
        self._end()


def _judge_name(check: str) -> str:
    """Return the name of a check if a `check` line can carry it. Raises Problem."""
    if check.startswith(one_off.RESERVED):
        raise bad_request(f"{check[:80]!r} is no check: such names are the protocol's own")
    try:
        encode(Check(check, 1, b""), Role.HELEN)
    except LocalProtocolError as error:
        raise bad_request(f"no check can be called {check[:80]!r}: {error}") from error
    return check
