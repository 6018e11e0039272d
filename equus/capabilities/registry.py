"""All host calls by the name that Lua uses. The broker looks calls up here; it performs nothing that is not listed."""

from equus.capabilities import (
    certificate,
    cpu,
    crypto,
    disk,
    dns,
    files,
    http,
    icmp,
    machine,
    mail_queue,
    plugin,
    processes,
    raid,
    sockets,
    systemd,
    tls,
    traffic,
)
from equus.capabilities.calls import Call, CallFailed, Context
from equus.capabilities.names import CAPABILITY_OF

__all__ = ["CALLS", "Call", "CallFailed", "Context"]

_GROUPS = (
    machine, raid, mail_queue, certificate, cpu, disk, traffic, processes, files, sockets, icmp, tls, http, dns,
    systemd, plugin, crypto,
)  # fmt: skip

CALLS: dict[str, Call] = {
    name: Call(CAPABILITY_OF[name], perform) for group in _GROUPS for name, perform in group.CALLS.items()
}
