"""Shows downtimes, silences and acknowledgements as the silences of Alertmanager's API (v2). Pure.

Each has a UUID, as Alertmanager's tools demand.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID, uuid5

from helen.notify.payloads import rfc3339
from helen.states.downtimes import Scope, Window, spans
from helen.states.matchers import ALERTNAME, Matcher
from helen.states.model import SILENCE, Key, State
from helen.web.alertmanager.globs import label_name, matcher_of_globs

NAMESPACE = UUID("2b3f6a52-7c0e-5d6c-9d5f-5a5b1e0c8d11")  # from which the UUIDs of names of ours are made
NO_END = "9999-12-31T23:59:59.000Z"
LAST_TIME = 253_370_764_800  # unix seconds, the year 9999: later ones are no end
ACK_END = 10 * 365 * 86_400.0  # seconds: of an acknowledgement without an end; Alertmanager's tools want one


def uuid_of(name: str) -> str:
    """Return the name itself if it is a UUID, else one that is always the same for it."""
    try:
        return str(UUID(name))
    except ValueError:
        return str(uuid5(NAMESPACE, name))


def ack_id(key: Key) -> str:
    """Return the UUID of the silence that an acknowledgement is shown as."""
    return uuid_of(f"ack {key[0]}/{key[1]}")


def silence_of_window(window: Window, now: float, ended: float | None = None) -> dict[str, Any]:
    """Return a downtime or a silence, one that recurs as its present or its next time.

    `now` and `ended` are in unix seconds. The keys are Alertmanager's: `id`, `status`, `startsAt`, `matchers` ...
    """
    begin, end = next(islice(spans(window, now), 1), (window.begin, window.until or now))
    if ended is not None:
        begin, end = min(window.begin, ended), ended
    state = "expired" if ended is not None else "active" if begin <= now else "pending"
    what = "" if window.kind == SILENCE else f"{window.kind}: "
    again = " (it recurs)" if window.recurrence is not None and ended is None else ""
    return _silence(
        uuid_of(window.id), state, matchers_of(window.scope), (begin, end, window.created or window.begin),
        window.author, f"{what}{window.comment or window.id}{again}",
    )  # fmt: skip


def silence_of_ack(key: Key, state: State, now: float) -> dict[str, Any]:
    """Return an acknowledgement, with the keys of `silence_of_window`. `now` is in unix seconds."""
    assert state.ack is not None
    matchers = (Matcher("agent", key[0]), Matcher("check", key[1]))
    until = state.ack.until or now + ACK_END
    return _silence(
        ack_id(key), "active", matchers, (state.hard.since, until, state.hard.since), state.ack.owner,
        f"acknowledged: {state.ack.comment}" if state.ack.comment else "acknowledged",
    )  # fmt: skip


def matchers_of(scope: Scope) -> tuple[Matcher, ...]:
    """Return the same scope in Alertmanager's words, which can't pair an agent with a check: of keys it names both."""
    found = list(scope.matchers)
    agents, checks = (tuple(sorted({key[at] for key in scope.keys})) for at in (0, 1))
    for name, globs in (("agent", scope.agents + agents), ("check", scope.checks + checks)):
        if "*" not in globs:
            found.append(matcher_of_globs(name, globs))
    for label, glob in scope.labels:
        found.append(matcher_of_globs(label_name(label), (glob,)))
    return tuple(found) or (Matcher("alertname", ALERTNAME),)


def read_time(text: object, name: str) -> float:
    """Return the unix seconds of a time in RFC 3339. Raises ValueError, with a sentence, for anything else."""
    try:
        moment = datetime.fromisoformat(text)  # type: ignore[arg-type]  # a TypeError is as good an answer
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is no time such as 2026-11-28T14:00:00Z") from error
    if moment.tzinfo is None:
        raise ValueError(f"{name} has no zone: end it with Z")
    return moment.timestamp()


def _silence(
    name: str, state: str, matchers: Iterable[Matcher], times: tuple[float, float, float], author: str, comment: str
) -> dict[str, Any]:
    begin, end, updated = times
    return {
        "id": name, "status": {"state": state}, "updatedAt": rfc3339(updated), "startsAt": rfc3339(begin),
        "endsAt": NO_END if end >= LAST_TIME else rfc3339(end), "createdBy": author or "helen",
        "comment": comment, "matchers": [matcher.to_json() for matcher in matchers],
    }  # fmt: skip
