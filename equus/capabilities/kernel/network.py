"""Perform calls of `kernel` about the network: sockets in use, and those that listen. No connection is shown."""

import ipaddress
import os
import re
import struct
import sys
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, positional
from equus.capabilities.kernel.entries import number_of, present, whole

_GROUP = re.compile(r"^(TCP6?|UDP6?|RAW6?|FRAG6?): (.*)$", re.MULTILINE)
# The names of /proc/net/sockstat, and ours.
_WORDS = {"inuse": "in_use", "orphan": "orphans", "tw": "time_wait", "alloc": "allocated", "memory": "memory_bytes"}
_EVENTS = {
    ("TcpExt", "ListenOverflows"): "listen_overflows", ("TcpExt", "ListenDrops"): "listen_drops",
    ("TcpExt", "TCPAbortOnMemory"): "aborted_for_memory", ("Tcp", "RetransSegs"): "retransmitted",
    ("Tcp", "OutSegs"): "segments_sent", ("Tcp", "CurrEstab"): "established", ("Udp", "InErrors"): "udp_errors",
    ("Udp", "RcvbufErrors"): "udp_receive_full",
}  # fmt: skip
# TCP_LISTEN and, of UDP, TCP_CLOSE (bound, not connected) of include/net/tcp_states.h.
_LISTENING = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
MOST_LISTENERS = 1000
_LITTLE = sys.byteorder == "little"


def sockets(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.kernel.sockets: return the sockets in use by protocol, their limits, and counts of losses."""
    positional("host.kernel.sockets", args)
    text = context.read("/proc/net/sockstat")
    used = re.search(r"^sockets: used (\d+)$", text, re.MULTILINE)
    if used is None:
        raise CallFailed("unsupported", "/proc/net/sockstat of this host does not count sockets")
    page = os.sysconf("SC_PAGE_SIZE")
    groups = {
        name.lower(): _group(words.split(), page)
        for name, words in _GROUP.findall(text + context.read_some("/proc/net/sockstat6"))
    }
    memory = [whole(word) for word in (context.read_line("/proc/sys/net/ipv4/tcp_mem") or "").split()]
    limits = {
        "tcp_most_orphans": number_of(context, "/proc/sys/net/ipv4/tcp_max_orphans"),
        "tcp_most_time_wait": number_of(context, "/proc/sys/net/ipv4/tcp_max_tw_buckets"),
        "tcp_most_memory_bytes": memory[2] * page if len(memory) == 3 and memory[2] is not None else None,
    }
    return {"used": int(used[1]), **groups, **present(limits), **_events(context)}


def _group(words: list[str], page: int) -> dict[str, int]:
    """Return the figures of one protocol. `mem` counts pages, `memory` bytes."""
    found = {}
    for name, text in zip(words[::2], words[1::2], strict=False):
        number = whole(text)
        if number is not None:
            found["memory_bytes" if name == "mem" else _WORDS.get(name, name)] = number * (page if name == "mem" else 1)
    return found


def _events(context: Context) -> dict[str, int]:
    """Return counters of /proc/net/netstat and /proc/net/snmp: a line of names and one of values for each group."""
    lines = (context.read_some("/proc/net/netstat") + context.read_some("/proc/net/snmp")).splitlines()
    found = {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        group = names.partition(":")[0]
        for name, value in zip(names.split()[1:], values.split()[1:], strict=False):
            ours, number = _EVENTS.get((group, name)), whole(value)
            if ours and number is not None:
                found[ours] = number
    return found


def listeners(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.kernel.listeners: return the addresses and ports where programs of this host wait for peers."""
    positional("host.kernel.listeners", args)
    found = {entry for table in _LISTENING for entry in _table(table, context)}
    if not found and not context.read_some("/proc/net/tcp"):
        raise CallFailed("unsupported", "this host has no /proc/net/tcp")
    rows = sorted(found)
    keys = ("protocol", "port", "address", "uid")
    return {"list": [dict(zip(keys, row, strict=True)) for row in rows[:MOST_LISTENERS]], "total": len(rows)}


def _table(name: str, context: Context) -> list[tuple[str, int, str, int]]:
    found = []
    for line in context.read_some(f"/proc/net/{name}").splitlines()[1:]:
        words = line.split()
        # A peer's address of zeros: a UDP socket with a peer is a client's.
        if len(words) < 8 or words[3] != _LISTENING[name] or words[2].strip("0:"):
            continue
        local, uid = _address(words[1]), whole(words[7])
        if local is not None and uid is not None:
            found.append((name[:3], local[1], local[0], uid))
    return found


def _address(text: str) -> tuple[str, int] | None:
    """Return the address and port of a socket table, or None. Words of 32 bits are in the byte order of the host."""
    digits, _, port = text.partition(":")
    try:
        raw = bytes.fromhex(digits)
        words = struct.unpack(f">{len(raw) // 4}I", raw)
        packed = struct.pack(f"{'<' if _LITTLE else '>'}{len(words)}I", *words)
        address = ipaddress.ip_address(packed)
        mapped = getattr(address, "ipv4_mapped", None)
        return str(mapped or address), int(port, 16)
    except (ValueError, struct.error):
        return None


CALLS: dict[str, Perform] = {"kernel.sockets": sockets, "kernel.listeners": listeners}
