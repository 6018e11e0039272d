"""Turn checks and entities of Sensu Go into entries of Helen. Pure.

A check runs on each agent that has one of its subscriptions, with the tokens of that agent filled in; a proxy entity
becomes a target.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from helen.importing.command_line import split
from helen.importing.found import Command, Found, Host, NotUnderstood, Service
from helen.importing.names import Names, label_name, label_value
from helen.importing.sensu_dump import Resource

LONGEST = 30 * 86_400.0
_TOKEN = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_WORD = re.compile(r'\.([A-Za-z0-9_.-]+)(?:\s*\|\s*default\s+(?:"([^"]*)"|\'([^\']*)\'|(\S+)))?')
_NOT_HERE = {
    "stdin": "it reads its event from standard input",
    "env_vars": "it sets environment variables: put it into a script",
    "secrets": "it is given secrets in its environment: put it into a script",
    "proxy_requests": "its proxy entities are chosen by expressions: write targets and one entry",
    "cron": "it runs by a cron line: write `every`", "subdue": "it is subdued at times: write `helen silence --daily`",
}  # fmt: skip


@frozen
class _Entity:
    """Holds an entity of Sensu, and the name that it gets at Helen."""

    resource: Resource
    name: str


@define
class _Fleet:
    names: Names = field(factory=Names)
    ids: defaultdict[str, Names] = field(factory=lambda: defaultdict(Names))
    subscribed: defaultdict[tuple[str, str], list[_Entity]] = field(factory=lambda: defaultdict(list))
    entities: dict[tuple[str, str], _Entity] = field(factory=dict)


def convert(resources: Sequence[Resource], source: str, programs: str) -> Found:
    """Return all checks for the entities that run them, and what can't be taken over.

    `programs` is the folder of programs that a command names without one, as assets bring them.
    """
    found, fleet = Found(source), _Fleet()
    for resource in resources:
        if resource.type == "Entity":
            _take_entity(found, fleet, resource)
    for resource in resources:
        if resource.type == "CheckConfig":
            _take_check(found, fleet, resource, programs)
    kinds = {"Handler", "EventFilter", "Mutator", "HookConfig", "Silenced", "Pipeline", "RuleTemplate"}
    for resource in resources:
        if resource.type in kinds:
            found.remark(f"resources of the type {resource.type} are not taken over", _label(resource))
    return found


def _label(resource: Resource) -> str:
    return resource.name if resource.namespace == "default" else f"{resource.namespace}/{resource.name}"


def _take_entity(found: Found, fleet: _Fleet, resource: Resource) -> None:
    label = _label(resource)
    entity = _Entity(resource, fleet.names.host(label))
    fleet.entities[resource.namespace, resource.name] = entity
    if entity.name != label:
        found.remark("hosts have other names here, since Helen's are a-z 0-9 . _ -", f"{label} -> {entity.name}")
    if resource.spec.get("entity_class") == "agent":
        listed = resource.spec.get("subscriptions")
        for each in listed if isinstance(listed, list) else ():
            fleet.subscribed[resource.namespace, str(each)].append(entity)


def _take_check(found: Found, fleet: _Fleet, check: Resource, programs: str) -> None:
    """Take a check for all agents that run it; a reason that holds for all of them is told once."""
    runners = _runners(fleet, check)
    proxy = str(check.spec.get("proxy_entity_name") or "")
    try:
        _refuse(check)
        if not runners:
            listed = ", ".join(map(str, check.spec.get("subscriptions") or ())) or "none"
            raise NotUnderstood(f"no agent has its subscriptions ({listed[:100]})")
        every = _seconds(check, "interval")
    except NotUnderstood as why:
        found.total += 1
        found.omit(_label(check), why)
        return
    _remark(found, check)
    runners = _for_proxy(found, fleet, check, runners, proxy) if proxy else runners
    for runner in runners:
        found.total += 1
        try:
            found.services.append(_service(fleet, check, runner, programs, every, proxy))
        except NotUnderstood as why:
            found.omit(f"{_label(runner.resource)}/{check.name}", why)


def _runners(fleet: _Fleet, check: Resource) -> list[_Entity]:
    listed = check.spec.get("subscriptions")
    named = [str(each) for each in listed] if isinstance(listed, list) else []
    found = {each.name: each for name in named for each in fleet.subscribed[check.namespace, name]}
    return [found[name] for name in sorted(found)]


def _refuse(check: Resource) -> None:
    if check.spec.get("publish") is False:
        raise NotUnderstood("it is not published")
    for key, why in _NOT_HERE.items():
        if check.spec.get(key):
            raise NotUnderstood(why)


def _for_proxy(found: Found, fleet: _Fleet, check: Resource, runners: list[_Entity], proxy: str) -> list[_Entity]:
    """Make the proxy entity a target that these agents look at, and return it."""
    known = fleet.entities.get((check.namespace, proxy))
    if known is None:
        known = _Entity(Resource("Entity", proxy, check.namespace, {}, {}, {}), fleet.names.host(proxy))
        fleet.entities[check.namespace, proxy] = known
    before = found.hosts.get(known.name)
    via = tuple(dict.fromkeys([*(before.via if before else ()), *(each.name for each in runners)]))[:20]
    found.hosts[known.name] = Host(known.name, proxy, _labels(known.resource), via)
    return [known]


def _labels(resource: Resource) -> dict[str, str]:
    pairs = ((label_name(str(key)), label_value(str(value))) for key, value in list(resource.labels.items())[:20])
    return {key: value for key, value in pairs if key and value}


def _remark(found: Found, check: Resource) -> None:
    label = _label(check)
    if check.spec.get("round_robin"):
        found.remark("run on one agent of many there (round_robin), and on each of them here", label)
    if check.spec.get("check_hooks"):
        found.remark("have hooks, and there are none here", label)
    for asset in check.spec.get("runtime_assets") or ():
        found.remark(f"the asset {str(asset)[:100]} must be installed on the agents, Helen sends no programs", label)


def _service(fleet: _Fleet, check: Resource, runner: _Entity, programs: str, every: float, proxy: str) -> Service:
    line = _TOKEN.sub(lambda token: _value(token[1], runner.resource), str(check.spec.get("command") or ""))
    return Service(
        runner.name, fleet.ids[runner.name].check(check.name), "plugin", max(1.0, every),
        Command(check.name, split(line, programs)), attempts=1, timeout=_seconds(check, "timeout", 60.0),
        flap=_flap(check), runner=None if proxy else runner.name,
    )  # fmt: skip


def _value(token: str, entity: Resource) -> str:
    """Return what a token such as `.labels.disk | default "/"` stands for on an entity."""
    match = _WORD.fullmatch(token)
    if match is None:
        raise NotUnderstood(f"the token {{{{ {token[:60]} }}}} is more than a value with a default")
    kind, _, key = match[1].partition(".")
    places: dict[str, Any] = {"labels": entity.labels, "annotations": entity.annotations}
    found = entity.name if match[1] == "name" else places[kind].get(key) if kind in places else None
    if found is None and match[1].startswith("system."):
        system = entity.spec.get("system")
        found = system.get(match[1].removeprefix("system.")) if isinstance(system, dict) else None
    if found is None:
        found = next((each for each in match.groups()[1:] if each is not None), None)
    if not isinstance(found, str | int | float):
        raise NotUnderstood(f"nothing sets .{match[1][:60]}, which its command needs")
    return str(found)


def _seconds(check: Resource, key: str, otherwise: float = 0.0) -> float:
    value = check.spec.get(key) or otherwise
    if not isinstance(value, int | float) or not 0 < value <= LONGEST:
        raise NotUnderstood(f"its {key} is {str(check.spec.get(key))[:40]}: seconds are expected")
    return float(value)


def _flap(check: Resource) -> tuple[float, float] | bool:
    low, high = check.spec.get("low_flap_threshold"), check.spec.get("high_flap_threshold")
    is_set = isinstance(low, int | float) and isinstance(high, int | float) and 0 < low < high <= 100
    return (float(high), float(low)) if is_set else False  # type: ignore[arg-type]  # is_set says that they are numbers
