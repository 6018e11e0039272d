"""The route of tunnels: a stream of bytes to a program at an agent. docs/api.rst lists it."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from helen.parts import Parts
from helen.storage.agent_rows import AuditEntry, audit
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Text
from helen.web.connections.upgraded import UpgradedClient, demand_upgrade
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.routes.agents import find_agent
from helen.web.targets import would_ask

SSH = "ssh"  # the kind of which people are told
routes = Routes()
log = Logger()


class OpenTunnel(Body, frozen=True, kw_only=True):
    """Asks for a tunnel to a program at an agent; `ssh` is the only kind so far."""

    kind: Text = "ssh"


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
    agent = find_agent(parts, name)
    if body.dry_run:
        return write_json(request, would_ask([agent]))
    demand_upgrade(request)
    address = str(getattr(request.getClientAddress(), "host", "control.sock"))
    described = {"caller": request.caller.actor, "address": address}
    opening = parts.sessions.tunnels.open(agent, body.kind, described)
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
    request.notifyFinish().addErrback(lambda _: stream.ended())
    UpgradedClient(request, stream, parts.reactor).begin()
    try:
        return await ended
    except CancelledError:  # so does the client end its request: `over` has written it down
        return b""
