"""Serves the route of tunnels: a stream of bytes to a program at an agent. docs/api.rst lists it."""

from __future__ import annotations

import time
from typing import Any, TypedDict

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from equus_protocol.tunnel_streams import Tunnel
from helen.parts import FarTunnels, Parts
from helen.storage.agent_rows import AuditEntry, audit
from helen.tunnels.tunnels import NotThere
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Text
from helen.web.connections.upgraded import UpgradedClient, demand_upgrade
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.routes.agents import UNKNOWN, find_agent
from helen.web.targets import would_ask

SSH = "ssh"  # the kind of which people are told
routes = Routes()
log = Logger()


class OpenTunnel(Body, frozen=True, kw_only=True):
    """Asks for a tunnel to a program at an agent; `ssh` is the only kind so far."""

    kind: Text = "ssh"


class SshHostKey(TypedDict):
    """Holds `host_key`, `signature` and `certificate`, as an agent has said them; {}: its policy lets in no user."""

    shell: dict[str, str]


@routes.get(
    f"{V1}/agents/<name>/host-key",
    "read",
    "The SSH host key of an agent, signed by it",
    answer=SshHostKey,
    errors=UNKNOWN,
)
async def get_host_key(parts: Parts, request: ApiRequest, name: str) -> bytes:
    """Answer with the host key, of an agent of another Helen, too. Raises Problem 404 if there is no such agent."""
    far = far_tunnels(parts, name)
    shell = {} if far is None else await far.host_key(name)
    return write_json(request, {"shell": shell or find_agent(parts, name).shell})


def far_tunnels(parts: Parts, name: str) -> FarTunnels | None:
    """Return the way to an agent that is not connected here, None for one that is, and without a network."""
    agent = parts.sessions.roster.agents.get(name)
    is_here = agent is not None and agent.link is not None
    return None if is_here or parts.network is None else parts.network.far_tunnels


async def open_here_or_there(parts: Parts, request: ApiRequest, far: FarTunnels | None, name: str, kind: str) -> Tunnel:
    """Return a tunnel to an agent of another Helen, or of this one. Raises Problem 404 and TunnelRefused."""
    described, token = {"caller": request.caller.actor, "address": _address_of(request)}, request.caller.token or ""
    if far is not None:
        try:
            opened: Tunnel = await far.open(name, kind, described, token)
        except NotThere:
            pass  # the sentence of this Helen says the same, and since when it is away
        else:
            return opened
    return await parts.sessions.tunnels.open(find_agent(parts, name), kind, described, token)


def _address_of(request: ApiRequest) -> str:
    return str(getattr(request.getClientAddress(), "host", "control.sock"))


@routes.post(
    f"{V1}/agents/<name>/tunnel", "tunnel", "Open a stream of bytes to an agent", body=OpenTunnel,
    answer=dict[str, Any], status=101, kind="application/octet-stream", streams=True,
    errors={404: "no such agent", 409: "no tunnel", 426: "upgrade required"},
)  # fmt: skip
async def open_tunnel(parts: Parts, request: ApiRequest, body: OpenTunnel, name: str) -> bytes:
    """Answer with 101 once the agent has opened the tunnel, and carry its bytes until either side ends.

    The audit gets an entry at the beginning and one at the end. Raises Problem if there is no such agent or the client
    asks for no upgrade, and TunnelRefused if the agent opens none.
    """
    far = far_tunnels(parts, name)
    if body.dry_run or far is None:
        agent = find_agent(parts, name)
        if body.dry_run:
            return write_json(request, would_ask([agent]))
    demand_upgrade(request)
    address = _address_of(request)
    opening: Deferred[Tunnel] = Deferred.fromCoroutine(open_here_or_there(parts, request, far, name, body.kind))
    request.notifyFinish().addErrback(lambda _: opening.cancel())
    try:
        stream = await opening
    except CancelledError:  # the client has hung up meanwhile
        return b""
    began, ended = time.monotonic(), Deferred[bytes]()

    def over(reason: str) -> None:
        took = time.monotonic() - began
        note(f"{took:.0f} s, {stream.sent} bytes there, {stream.received} back: {reason[:60]}", "tunnel-end")
        if is_ssh:
            parts.sessions.shells.ended(name)
        if not ended.called:
            ended.callback(b"")

    def note(more: str, action: str) -> None:
        entry = AuditEntry(time.time(), request.caller.actor, action, f"{name} {body.kind} {more}".strip(), address)
        written = parts.store.call(audit, entry)
        written.addErrback(lambda failure: log.error("the audit: {why}", why=failure.getErrorMessage()))

    is_ssh = body.kind == SSH
    stream.on_end = over
    note("", "tunnel")
    if is_ssh:
        parts.sessions.shells.opened(name, request.caller.actor, address)
    request.notifyFinish().addErrback(lambda _: parts.sessions.tunnels.leave(stream))
    UpgradedClient(request, stream, parts.reactor).begin()
    try:
        return await ended
    except CancelledError:  # so does the client end its request: `over` has written it down
        return b""
