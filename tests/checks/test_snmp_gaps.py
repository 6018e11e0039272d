"""Test the checks that speak SNMP with devices that leave something out: a missing value is never in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from snmp_device import Device, counter32, gauge, number, oid, text, ticks
from snmp_host import IF, UPTIME, Host, Values, figures, switch

from equus.sandbox.blocking import Sandbox

STORAGE = (1, 3, 6, 1, 2, 1, 25, 2, 3, 1)
COLUMN = (1, 3, 6, 1, 4, 1, 8072, 9, 1)
RATE = {"oid": "1.3.6.1.4.1.8072.9.1", "each": True, "rate": True, "crit": "50"}


class FullHost(Host):
    """Stand in for a host whose state has no more room."""

    def answer(self, name: str, args: list[Any]) -> dict[str, Any]:
        if name == "state.put":
            return {"error": ["too-large", "there is no room for that in host.state"]}
        return super().answer(name, args)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(log=lambda _check, _text: None) as opened:
        yield opened


def disk(size: int, used: int) -> Values:
    """Return a fixed disk in blocks of 4 KiB."""
    row = {2: oid("1.3.6.1.2.1.25.2.1.4"), 3: text("/srv"), 4: number(4096), 5: number(size), 6: number(used)}
    return {UPTIME: ticks(90_000)} | {(*STORAGE, column, 31): value for column, value in row.items()}


@pytest.mark.parametrize(
    "left_out",
    [{"interfaces": ["Gi1/0/1"]}, {"exclude": ["Gi1/0/3"]}, {"interfaces": ["Te*"], "exclude": ["Gi*"]}],
    ids=["others are looked at", "it is excluded", "both"],
)
def test_what_must_be_up_is_judged_where_it_is_left_out(sandbox: Sandbox, left_out: dict[str, list[str]]) -> None:
    """An interface that must be up is judged by its state although it is left out, and its traffic is not asked for."""
    values = switch(3)
    device = Device(values | {(*IF, 8, 10_103): number(2)})
    host = Host(sandbox, device)
    found = host.run("snmp_interfaces", up=["Gi1/0/3"], **left_out)
    assert (found["status"], found["summary"].split(";")[0]) == ("critical", "Gi1/0/3 is down")
    assert figures(found)["up Gi1/0/3"] == 0
    device.values = values
    found = host.run("snmp_interfaces", up=["Gi1/0/3"], **left_out)
    assert found["status"] == ("unknown" if "Te*" in left_out.get("interfaces", []) else "ok")
    assert figures(found)["up Gi1/0/3"] == 1 and "received Gi1/0/3" not in figures(found)


def test_a_large_disk_overflows_31_bits(sandbox: Sandbox) -> None:
    """A disk of 12 TiB, which the device reports with negative numbers, is measured right."""
    blocks = 3 * 2**30
    for used, status, share in (
        (blocks - 2**32 - 1, "critical", pytest.approx(100)), (2**31 - 1, "ok", pytest.approx(200 / 3)),
    ):  # fmt: skip
        found = Host(sandbox, Device(disk(blocks - 2**32, used))).run("snmp_device")
        assert (found["status"], figures(found)["storage_used /srv"]) == (status, share), found


def test_a_device_that_tells_nothing(sandbox: Sandbox) -> None:
    """A device that has none of the values asked for is unknown."""
    found = Host(sandbox, Device({(1, 3, 6, 1, 4, 1, 9, 1, 0): gauge(4)})).run("snmp_device")
    assert (found["status"], found["summary"], found["metrics"]) == (
        "unknown", "switch: it tells nothing of itself", [])  # fmt: skip


def test_no_room_for_the_counters(sandbox: Sandbox) -> None:
    """Without room for the counters the result is unknown, because thresholds of rates would never judge."""
    device = Device({UPTIME: ticks(90_000), (*COLUMN, 4): counter32(70)})
    found = FullHost(sandbox, device).run("snmp_value", **RATE)
    assert (found["status"], found["summary"]) == (
        "unknown", "no rates: too many counters to keep, so ask for fewer (most)")  # fmt: skip
    found = FullHost(sandbox, Device(switch(2))).run("snmp_interfaces")
    told = "2 of 2 interfaces up, no rates: too many counters to keep, so look at fewer interfaces"
    assert (found["status"], found["summary"]) == ("unknown", told)


def test_an_index_that_is_new(sandbox: Sandbox) -> None:
    """A new index has no rate yet and is named, and the others are judged."""
    host = Host(sandbox, Device({UPTIME: ticks(90_000), (*COLUMN, 4): counter32(70), (*COLUMN, 6): counter32(70)}))
    assert host.run("snmp_value", **RATE)["summary"] == "the rate is known from the second run on"
    host.now += 10
    values = {UPTIME: ticks(91_000), **{(*COLUMN, at): counter32(100 * at) for at in (4, 5, 6)}}
    host.device = Device(values)
    found = host.run("snmp_value", **RATE)
    assert (found["status"], found["summary"]) == ("critical", "6 53/s; no rate yet of 5")
    assert figures(found) == {"value 4": 33, "value 6": 53}
    host.now += 10
    host.device = Device(values | {UPTIME: ticks(92_000), (*COLUMN, 5): counter32(590)})
    assert figures(host.run("snmp_value", **RATE)) == {"value 4": 0, "value 5": 9, "value 6": 0}
