"""Is a host for checks that speak SNMP: datagrams go to a device of the test's, sums and ciphers are the
agent's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snmp_device import Oid, counter32, counter64, gauge, number, text, ticks

import helen_checks
from equus.authoring.test_runner import job_of
from equus.capabilities.calls import CallFailed, Context
from equus.capabilities.registry import CALLS
from equus.code.check_files import read_check_files
from equus.sandbox.blocking import Sandbox

FILES = read_check_files(Path(helen_checks.FOLDER))
IF, IFX = (1, 3, 6, 1, 2, 1, 2, 2, 1), (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
UPTIME = (1, 3, 6, 1, 2, 1, 1, 3, 0)
SECURE = {"version": "3", "user": "watch", "auth_password": "authentic", "privacy_password": "encrypted"}
LIMIT = 60.0
Values = dict[Oid, bytes]


class Host:
    """Answers host calls: datagrams by a device, sums and ciphers by the agent's own code, state in memory."""

    def __init__(self, sandbox: Sandbox, device: Callable[[bytes], bytes | None]) -> None:
        self.sandbox, self.device = sandbox, device
        self.state: dict[str, Any] = {}
        self.datagrams = 0
        self.now = 1_700_000_000.0

    def answer(self, name: str, args: list[Any]) -> dict[str, Any]:
        if name == "udp":
            return self._datagram(args[0])
        if name == "state.get":
            return {"value": self.state.get(args[0])}
        if name == "state.put":
            self.state[args[0]] = json.loads(json.dumps(args[1]))
            return {"value": None}
        try:
            return {"value": CALLS[name].perform(args, None, Context("t", float("inf")))}
        except CallFailed as failed:
            return {"error": [failed.code, failed.text]}

    def _datagram(self, args: dict[str, Any]) -> dict[str, Any]:
        self.datagrams += 1
        reply = self.device(bytes.fromhex(args["send"]))
        if reply is None:
            return {"error": ["timeout", f"{args['host']}:161 did not answer within 2 s"]}
        return {"value": {"address": "127.0.0.1", "seconds": 0.01, "received": reply.hex()}}

    def run(self, check: str, **args: Any) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        job = job_of(FILES, check, json.dumps({"host": "switch", **args}).encode())
        self.sandbox.runner.run(job, lambda blob: found.append(json.loads(blob)), self.answer, self.now)
        self.sandbox.loop.until(lambda: bool(found), LIMIT)
        assert found[0].get("reason", "denied") == "denied", found[0]
        return {"metrics": [], **found[0]}


def figures(document: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a result by name and labels' values."""
    return {" ".join([one["name"], *one.get("labels", {}).values()]): one["value"] for one in document["metrics"]}


def switch(ports: int, octets: int = 10**14, narrow: bool = False, up: int = 1, **uptime: int) -> Values:
    """Return the interfaces of a switch, each with a name, an alias and counters of its own."""
    values: Values = {UPTIME: ticks(uptime.get("uptime", 8_640_000))}
    for port in range(1, ports + 1):
        index = 10_100 + port
        wide = {2: text(f"GigabitEthernet1/0/{port}"), 5: gauge(1_000_000_000), 7: number(1), 8: number(up)}
        wide |= {10: counter32((octets + port) % 2**32), 16: counter32((2 * octets + port) % 2**32)}
        wide |= {13: counter32(port), 14: counter32(0), 19: counter32(0), 20: counter32(3)}
        values |= {(*IF, column, index): value for column, value in wide.items()}
        if not narrow:
            values |= {
                (*IFX, 1, index): text(f"Gi1/0/{port}"), (*IFX, 6, index): counter64(octets + port),
                (*IFX, 10, index): counter64((2 * octets + port) % 2**64), (*IFX, 15, index): gauge(1000),
                (*IFX, 18, index): text(f"room {port}"), (*IFX, 19, index): ticks(0),
            }  # fmt: skip
    return values
