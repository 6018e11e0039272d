"""Routes of passive results: the declarations, what a host shows, and a result in Helen's own form.

docs/passive.rst has them. A submitter is let in by a token of the API with the scope `operate`, or by a key that is
good for one host. Tools that know only Basic authentication send either as the password.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from equus_protocol.results import STATUS_WORDS
from groundwork.authority import decide
from helen.actions import REPORT
from helen.agents.sight import Sight
from helen.parts import Parts
from helen.passive.foreign_formats import LONGEST_TTL
from helen.passive.intake import PassiveIntake
from helen.passive.submission import NoSubmission, Submission
from helen.storage.config_file import version_of
from helen.web.answers import write_json
from helen.web.bodies import Body, read_json
from helen.web.body_fields import Json, OptionalText, read_optional_text, read_seconds, read_text, whole_or_none_of
from helen.web.config_files import WrittenFile, write_file
from helen.web.json_types import Object
from helen.web.overview import SAID_FAULT
from helen.web.problems import Problem, unauthorized
from helen.web.request import ApiRequest, credential
from helen.web.route import V1, Routes
from helen.web.sight.limits import limited, target_of
from helen.web.web_parts import WebParts, count_wrong_token

routes = Routes()


class PassiveJson(TypedDict):
    """Lists the hosts and checks that may report from outside, without secrets, and the text of passive.toml."""

    fault: str | None
    hosts: list[Object]
    checks: list[Object]
    text: str | None
    version: NotRequired[str]


class HostKey(TypedDict):
    """Holds the key with which a host reports; `*` is every host."""

    host: str
    key: str


class PingPaths(TypedDict):
    """Holds the paths of a ping, by its secret and by its name, and the address of the API.

    `named` is null for a caller that is limited to some agents: its secret is that of all pings.
    """

    host: str
    id: str
    path: str
    named: str | None
    web: str | None
    scheme: str


class ReplacePassive(Body, frozen=True, kw_only=True):
    """Has the whole text of passive.toml, or null; `version` is what the client has read."""

    text: Annotated[str | None, whole_or_none_of("passive.toml")]
    version: OptionalText = None


@routes.get(f"{V1}/passive", "read", "What may report from outside", answer=PassiveJson)
async def get_passive(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the declarations, and the text of passive.toml; to a limited caller without the text."""
    text, sight = await parts.passive.config_file.text(), parts.visible(request.caller)
    if sight is not None:
        return write_json(request, show_passive(parts.passive, sight) | {"text": None})
    request.setHeader("etag", f'"{version_of(text)}"')
    return write_json(request, show_passive(parts.passive) | {"text": text, "version": version_of(text)})


@routes.put(
    f"{V1}/passive", "passive", "Replace what may report from outside", body=ReplacePassive, answer=WrittenFile,
    action="passive", errors={400: "bad request, or passive refused", 412: "changed meanwhile"},
)  # fmt: skip
async def put_passive(parts: Parts, request: ApiRequest, body: ReplacePassive) -> bytes:
    """Replace the whole text; null takes the file away."""
    return write_json(request, await write_file(parts.passive.config_file, body.text, body.version, request))


@routes.get(
    f"{V1}/passive/keys/<host>", "host-key", "The key with which a host reports", answer=HostKey,
    errors={404: "no such host"},
)  # fmt: skip
def get_host_key(parts: Parts, request: ApiRequest, host: str) -> bytes:
    """Answer with what a host shows with its results; `*` is for all. Raises Problem for a host that isn't declared."""
    passive = parts.passive
    if host == "*" and request.caller.on is not None:
        raise limited(f"{request.caller.actor} is limited to {', '.join(request.caller.on)}: name the host")
    if host != "*" and host not in passive.config.hosts:
        raise Problem(404, "no such host", f"no host is called {host!r}: `helen passive list` has them")
    shown: HostKey = {"host": host, "key": passive.keys.of_host(passive.config, host)}
    return write_json(request, shown)


@routes.get(
    f"{V1}/passive/pings/<host>/<path:check>", "ping-urls", "The URLs of a ping", answer=PingPaths,
    errors={404: "no such ping"},
)  # fmt: skip
def get_ping_paths(parts: Parts, request: ApiRequest, host: str, check: str) -> bytes:
    """Answer with the paths of a ping. Raises Problem for one that isn't declared."""
    passive = parts.passive
    declared = passive.config.named.get(host, {}).get(check)
    if declared is None or not declared.is_ping:
        raise Problem(404, "no such ping", f"no ping is called {host}/{check}: `helen ping list` has them")
    shown: PingPaths = {
        "host": host, "id": check, "path": f"/ping/{passive.keys.ping(declared)}",
        "named": f"/ping/{passive.keys.ping_key(passive.config)}/{check}" if request.caller.on is None else None,
        "web": parts.live.web,
        "scheme": "http" if parts.live.settings.web_tls is None else "https",
    }  # fmt: skip
    return write_json(request, shown)


@routes.foreign("POST", f"{V1}/passive/results", None, "A result from outside", checks_caller=True)
async def submit_result(parts: WebParts, request: ApiRequest) -> bytes:
    """Take `host`, `check`, `status`; `summary`, `output`, `metrics`, `took_ms`, `started`, `source`, `ttl`, `id`."""
    body = await read_json(request)
    host, check = read_text(body, "host"), read_text(body, "check")
    demand_submitter(parts, request, host, credential(request))
    taken = await parts.passive.submit(_submission(body, host, check, given_id(request)))
    return write_json(request, {"host": host, "check": check, "duplicate": not taken}, 201 if taken else 200)


def demand_submitter(parts: WebParts, request: ApiRequest, host: str, shown: str) -> None:
    """Raises Problem 401 or 429 unless the caller, or the secret that it shows, may report for this host."""
    passive = parts.passive
    name = host if host in passive.config.hosts else host.lower()
    if decide(request.caller, REPORT, target_of(parts, name)) is None:
        return
    if passive.keys.is_good(passive.config, name, shown):
        return
    if shown:
        count_wrong_token(parts, request)
    raise unauthorized(
        "send the submission key of the host (`helen passive key HOST` prints it), or a token with the"
        " scope `operate`: as a bearer token, or as the password", scheme="Basic",
    )  # fmt: skip


def given_id(request: ApiRequest) -> str | None:
    """Return the Idempotency-Key, by which a result that is sent again is known."""
    value = (request.getHeader(b"idempotency-key") or b"").decode("utf-8", "replace")
    return value or None


def show_passive(passive: PassiveIntake, sight: Sight | None = None) -> dict[str, Any]:
    """Return `fault`, `hosts` and `checks`: what may report and is in sight, without secrets."""
    config, fault = passive.config, passive.config_file.fault
    names = [host for host in sorted(config.hosts) if sight is None or sight(host)]
    listed = [
        {
            "host": each.host, "id": each.id, "stale": each.stale, "missing": STATUS_WORDS[each.missing],
            "override": each.override, "every": each.every, "grace": each.grace if each.is_ping else None,
        }
        for host in names
        for each in (*config.named.get(host, {}).values(), *config.patterns.get(host, ()))
    ]  # fmt: skip
    hosts = [{"name": config.hosts[name].name, "labels": config.hosts[name].labels} for name in names]
    return {"fault": fault if fault is None or sight is None else SAID_FAULT, "hosts": hosts, "checks": listed}


def _submission(body: Json, host: str, check: str, given: str | None) -> Submission:
    status = body.get("status")
    word = STATUS_WORDS[status] if type(status) is int and 0 <= status < len(STATUS_WORDS) else status
    if word not in STATUS_WORDS:
        raise NoSubmission(f"`status` is one of {', '.join(STATUS_WORDS)}, or 0 to 3")
    kept = ("summary", "output", "metrics", "started", "took_ms", "source", "reason")
    document = {"status": word} | {name: body[name] for name in kept if body.get(name) is not None}
    within = read_seconds(body, "ttl") if body.get("ttl") is not None else None
    if within is not None and not 0 < within <= LONGEST_TTL:
        raise NoSubmission("`ttl` is more than 0 and at most a year")
    given = read_optional_text(body, "id") or given
    return Submission(host, check, document, "api", given, within, "by its ttl" if within else "")
