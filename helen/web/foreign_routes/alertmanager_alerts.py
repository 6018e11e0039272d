"""Routes of Alertmanager's API, version 2: status, receivers and alerts, as far as amtool and Karma use it.

docs/alertmanager.rst says what is what. Faults are answered in Alertmanager's form, a JSON string, because that is what
its tools print.
"""

from __future__ import annotations

import json
import time

from twisted.internet.threads import deferToThread

from helen.parts import Parts
from helen.passive.firing_alerts import Alert, read_alert
from helen.passive.submission import NoSubmission, NotAllowed, NotDeclared, NotReported
from helen.states.linear_regex import BadExpression, read_expression
from helen.states.model import Key
from helen.web.alertmanager import alerts as view
from helen.web.alertmanager.alerts import AlertFilter, Facts, View
from helen.web.alertmanager.configuration import VERSION, configuration, started
from helen.web.alertmanager.requests import answer_plainly, read_filter, read_json_list
from helen.web.alertmanager.silences import read_time
from helen.web.answers import write_json
from helen.web.problems import Problem, bad_request
from helen.web.query import first_text
from helen.web.request import ApiRequest, credential
from helen.web.route import V2, Routes
from helen.web.routes.passive import demand_submitter
from helen.web.sight.window_sight import seen_keys
from helen.web.web_parts import WebParts

routes = Routes()
MAX_ALERTS = 1_000  # of one POST: Prometheus sends 64 at a time
MAX_SHOWN = 20_000  # alerts that one answer has: a fleet that broke as a whole, some 10 MB of JSON


@routes.foreign("GET", f"{V2}/status", "read", "Alertmanager: version, configuration")
async def get_status(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the version of the API, and the routes as an alertmanager.yml; of a limited caller without rules."""
    config = parts.notifier.config_file.config if request.caller.on is None else None  # rules may name any agent
    info = {"branch": "helen", "buildDate": "", "buildUser": "", "goVersion": "", "revision": parts.version}
    return write_json(request, {
        "cluster": {"name": "", "peers": [], "status": "disabled"},
        "config": {"original": configuration(config)},
        "uptime": started(parts.started_at),
        "versionInfo": info | {"version": VERSION},
    })  # fmt: skip


@routes.foreign("GET", f"{V2}/receivers", "read", "Alertmanager: the channels")
def list_receivers(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the channels."""
    return write_json(request, view.receivers(parts.notifier.config_file.config))


@routes.foreign("GET", f"{V2}/alerts", "read", "Alertmanager: what is broken")
async def list_alerts(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with alerts, the oldest first."""
    return await answer_plainly(request, _alerts(parts, request, False))


@routes.foreign("GET", f"{V2}/alerts/groups", "read", "Alertmanager: the same in groups")
async def list_groups(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with alerts by receiver and group."""
    return await answer_plainly(request, _alerts(parts, request, True))


@routes.foreign("POST", f"{V2}/alerts", None, "Alertmanager: alerts of others, as results", checks_caller=True)
async def submit_alerts(parts: WebParts, request: ApiRequest) -> bytes:
    """Take alerts of others as passive results of `agent` (or `host`, `instance`) and `check` (or `alertname`)."""
    return await answer_plainly(request, _take_alerts(parts, request))


async def _alerts(parts: Parts, request: ApiRequest, grouped: bool) -> bytes:
    wanted, seen, sight = _wanted(request), await _view(parts, request), parts.visible(request.caller)

    def made() -> bytes:
        keys = seen.states if sight is None else seen_keys(seen.states, sight)
        found = [pair for pair in view.alerts(seen, keys) if wanted.takes(pair[1])]
        if len(found) > MAX_SHOWN:
            raise Problem(400, "too many", f"{len(found)} alerts: ask for some, with filter")
        listed = view.groups(seen.config, found) if grouped else [alert for _, alert in found]
        return json.dumps(listed, ensure_ascii=False).encode() + b"\n"

    answer = await deferToThread(made)
    request.setHeader("content-type", "application/json")
    return answer


async def _view(parts: Parts, request: ApiRequest) -> View:
    def facts(key: Key) -> Facts:
        return Facts(*parts.sessions.facts_of(*key))

    states, config = await deferToThread(parts.evaluator.timeline.copied), parts.notifier.config_file.config
    return View(states, facts, config, time.time(), parts.visible(request.caller))


def _wanted(request: ApiRequest) -> AlertFilter:
    receiver = first_text(request, "receiver")
    try:
        is_named = read_expression(receiver).fullmatch if receiver else lambda name: True
    except BadExpression as error:
        raise bad_request(str(error)) from error
    return AlertFilter(
        active=_flag(request, "active"), silenced=_flag(request, "silenced"), inhibited=_flag(request, "inhibited"),
        matchers=read_filter(request), receiver=is_named,
    )  # fmt: skip


def _flag(request: ApiRequest, name: str) -> bool:
    return (first_text(request, name) or "").lower() not in ("false", "0")


# ---------------------------------------------------------------------------------------------- alerts of others


async def _take_alerts(parts: WebParts, request: ApiRequest) -> bytes:
    listed = await read_json_list(request)
    if len(listed) > MAX_ALERTS:
        raise NoSubmission(f"at most {MAX_ALERTS} alerts come in one request")
    found = [read_alert(each, read_time) for each in listed]
    for host in {alert.host for alert in found}:
        demand_submitter(parts, request, host, credential(request))
    refused: list[NotReported] = []
    for key, alerts in _by_check(parts, found, refused).items():
        try:
            await parts.passive.submit(parts.passive.firing.take(key, alerts, time.time()))
        except (NotDeclared, NotAllowed) as error:
            refused.append(NoSubmission(str(error)))
        except NotReported as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return write_json(request, {})


def _by_check(parts: Parts, alerts: list[Alert], refused: list[NotReported]) -> dict[Key, list[Alert]]:
    """Return the alerts of each check that is declared: one result tells of all. Errors of others go to `refused`."""
    found: dict[Key, list[Alert]] = {}
    for alert in alerts:
        try:
            declared = parts.passive.find(alert.host, alert.check)
        except (NotDeclared, NotAllowed) as error:
            refused.append(NoSubmission(str(error)))  # Alertmanager's tools know no 404 here
        except NotReported as error:
            refused.append(error)
        else:
            found.setdefault((declared.host, alert.check), []).append(alert)
    return found
