"""List all host calls by the name that Lua uses. The broker performs no call that is not listed here.

A new call is a module beside this file, its row here, and its name in names.py; docs/checks.rst describes it. If it
belongs to a new capability, equus/policy/policy_text.py, docs/policy.rst and helen/queries/repl_source.py name that.
"""

from equus.capabilities import (
    certificate,
    cpu,
    crypto,
    disk,
    dns,
    files,
    http,
    icmp,
    io_counters,
    log_tail,
    machine,
    mail_queue,
    processes,
    raid,
)
from equus.capabilities.calls import Call, CallFailed, Context
from equus.capabilities.kernel import bonds, counters, network, restart, sensors, storage
from equus.capabilities.names import CAPABILITY_OF
from equus.capabilities.programs import journal, plugin, program, systemd
from equus.capabilities.streams import sockets, tls

__all__ = ["CALLS", "Call", "CallFailed", "Context"]

_GROUPS = (
    machine, raid, mail_queue, certificate, cpu, disk, io_counters, processes, files, log_tail, sockets, icmp, tls,
    http, dns, systemd, plugin, program, journal, crypto, counters, network, sensors, bonds, restart,
    storage,
)  # fmt: skip

CALLS: dict[str, Call] = {
    name: Call(CAPABILITY_OF[name], perform) for group in _GROUPS for name, perform in group.CALLS.items()
}
