#!/usr/bin/env python3
"""Hostile agents of bench/abuse.py: `abuse_flood.py KIND HOST:PORT SECONDS PEM ...`, a certificate for each of them.

Each agent has an address of its own, as machines have: from one address they would push out each other while they shake
hands, and few would flood. The process has the scheduling class `idle`, or with `--nice` the nice value 19: it runs
when nobody else wants a processor, as if it had processors of its own. With `--busy` it has the nice value -8, so that
other programs of the machine don't keep it from flooding.

KIND: `pings`, `results`, `ids` (a check id that is new in each report), `blobs` (of 1 MiB each), `half-open` (20
sockets for each agent, that say nothing and are opened again when they are closed). One line when all have begun; at
the end JSON with the numbers of messages and sessions, and of agents that have flooded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import sys
import time
from collections.abc import Iterator

AT_ONCE = 50  # messages in one write
BLOB = b'{"status": "ok", "summary": "' + b"x" * 400 + b'"}'
GREAT = b'{"output": "' + b"x" * (1_048_576 - 14) + b'"}'
HALF_OPEN = 20

counts = {"sent": 0, "connections": 0}
senders = set[str]()  # addresses of agents that have sent anything


def report(sequence: int, check: bytes, blob: bytes) -> bytes:
    return b"report s %d %b %d\n%b\n" % (sequence, check, len(blob), blob)


def chunks(kind: str) -> Iterator[tuple[int, bytes]]:
    """Writes without an end, each with the number of its messages."""
    ping = b"".join(b"ping %d\n" % number for number in range(AT_ONCE * 10))
    first = 1
    while True:
        if kind == "pings":
            yield AT_ONCE * 10, ping
        elif kind == "blobs":
            yield 1, report(first, b"c", GREAT)
            first += 1
        else:
            numbers = range(first, first + AT_ONCE)
            yield AT_ONCE, b"".join(report(n, b"id-%d" % n if kind == "ids" else b"c", BLOB) for n in numbers)
            first += AT_ONCE


def own_address(machine: int) -> str:
    return f"127.{9 + machine // 250}.{machine % 250}.1"


async def attack(kind: str, host: str, port: int, context: ssl.SSLContext, until: float, own: str) -> None:
    """Open one session after the other, as fast as Helen lets it."""
    made = chunks(kind)
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            async with asyncio.timeout(max(0.1, until - time.monotonic())):
                counts["connections"] += 1
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=context, server_hostname="localhost", local_addr=(own, 0)
                )
                writer.write(b"hello 2 evil\n")
                await reader.read(1)  # what Helen says first: from then on version 2 is spoken
                swallowing = asyncio.ensure_future(swallow(reader, writer))
                while not swallowing.done():
                    number, data = next(made)
                    writer.write(data)
                    await writer.drain()
                    await asyncio.sleep(0)  # `drain` may return at once, and the others have their turn, too
                    counts["sent"] += number
                    senders.add(own)
                swallowing.cancel()


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while await reader.read(65_536):
            pass
    writer.close()


async def half_open(host: str, port: int, until: float, number: int) -> None:
    """Holds a socket that says nothing, and opens it again when it is closed."""
    own = own_address(number // HALF_OPEN)
    while time.monotonic() < until:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(max(0.1, until - time.monotonic())):
                counts["connections"] += 1
                reader, writer = await asyncio.open_connection(host, port, local_addr=(own, 0))
                await reader.read(1)
                writer.close()


async def main(kind: str, address: str, seconds: str, *certificates: str) -> None:
    host, _, port = address.rpartition(":")
    until = time.monotonic() + float(seconds)
    if kind == "half-open":
        numbers = range(HALF_OPEN * len(certificates))
        tasks = [asyncio.ensure_future(half_open(host, int(port), until, number)) for number in numbers]
    else:
        tasks = []
        for number, path in enumerate(certificates):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(path)
            tasks.append(asyncio.ensure_future(attack(kind, host, int(port), context, until, own_address(number))))
    await asyncio.sleep(0.2)
    print("begun", flush=True)
    await asyncio.gather(*tasks)
    print(json.dumps(counts | {"senders": len(senders)}))


if __name__ == "__main__":
    # Helen is measured: a flood at the same priority would take the processors from the honest agent, too.
    if sys.argv[1] == "--nice":
        os.nice(19)
        del sys.argv[1]
    elif sys.argv[1] == "--busy":  # Helen's priority comes with it, and ends here
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, -8)
        del sys.argv[1]
    else:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asyncio.run(main(*sys.argv[1:]))
