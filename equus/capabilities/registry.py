"""All host calls by the name that Lua uses. The broker looks calls up here; it performs nothing that is not listed."""

from equus.capabilities import (
    cpu,
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

__all__ = ["CALLS", "Call", "CallFailed", "Context"]

CALLS: dict[str, Call] = {
    **machine.CALLS,
    **raid.CALLS,
    **mail_queue.CALLS,
    **cpu.CALLS,
    **disk.CALLS,
    **traffic.CALLS,
    **processes.CALLS,
    **files.CALLS,
    **sockets.CALLS,
    **icmp.CALLS,
    **tls.CALLS,
    **http.CALLS,
    **dns.CALLS,
    **systemd.CALLS,
    **plugin.CALLS,
}
