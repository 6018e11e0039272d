"""Test rates of devices that send something else than a number once: the next runs are as if it had sent none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from snmp_device import Device, counter32, counter64, gauge, text, ticks, tlv
from snmp_host import IF, IFX, UPTIME, Host, figures, switch

from equus.sandbox.blocking import Sandbox

ODD = [text("up since Monday"), tlv(4, b"\xff\xfe"), tlv(6, b"\x2b\x06"), tlv(5)]
ODD_NAMES = ["text", "bytes", "oid", "null"]
COUNTED = (1, 3, 6, 1, 4, 1, 9999, 5, 0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(log=lambda _check, _text: None) as opened:
        yield opened


def runs(host: Host, check: str, *devices: dict[Any, bytes], **args: Any) -> list[dict[str, Any]]:
    """Run the check once for each content of the device, a minute apart, and return the results."""
    found = []
    for values in devices:
        host.device = Device(values)
        found.append(host.run(check, **args))
        host.now += 60
    return found


@pytest.mark.parametrize("odd", ODD, ids=ODD_NAMES)
def test_a_time_that_is_no_number(sandbox: Sandbox, odd: bytes) -> None:
    """An odd uptime leaves the traffic known, because no restart shows in it."""
    host = Host(sandbox, Device({}))
    contents = [switch(1, octets=10**9 + 6_000_000 * n, uptime=8_640_000 + 6_000 * n) for n in range(4)]
    contents[1][UPTIME] = odd
    found = runs(host, "snmp_interfaces", *contents)
    assert [each["status"] for each in found] == ["ok"] * 4
    assert [figures(each).get("received_rate Gi1/0/1") for each in found] == [None, 100_000, 100_000, 100_000]
    assert "ticks" in host.state["interfaces"]


def test_a_state_that_an_older_version_kept(sandbox: Sandbox) -> None:
    """A text in host.state, as an older version kept it, does no harm."""
    host = Host(sandbox, Device({}))
    host.state["counters"] = {"at": host.now - 10, "ticks": "up since Monday", "values": {"": 400}}
    (found,) = runs(
        host, "snmp_value", {UPTIME: ticks(9), COUNTED: counter32(900)}, oid="1.3.6.1.4.1.9999.5.0", rate=True
    )
    assert (found["status"], figures(found)) == ("ok", {"value": 50.0})


@pytest.mark.parametrize("odd", ODD[:3], ids=ODD_NAMES[:3])
def test_a_counter_that_is_no_number(sandbox: Sandbox, odd: bytes) -> None:
    """A counter that is no number is not kept, and the rates of the others go on."""
    host = Host(sandbox, Device({}))
    contents = [switch(2, octets=10**9 + 6_000_000 * n, uptime=8_640_000 + 6_000 * n) for n in range(4)]
    contents[1][(*IF, 14, 10_101)] = odd
    found = runs(host, "snmp_interfaces", *contents)
    assert ["too many counters" in each["summary"] for each in found] == [False] * 4
    assert [figures(each).get("received_rate Gi1/0/2") for each in found] == [None, 100_000, 100_000, 100_000]
    assert host.state["interfaces"]["values"]["10101errors_in"] == 0


@pytest.mark.parametrize("odd", ODD[:3], ids=ODD_NAMES[:3])
def test_a_mark_that_is_no_number(sandbox: Sandbox, odd: bytes) -> None:
    """An odd time of a reset counts as a change, after which there are rates again."""
    host = Host(sandbox, Device({}))
    contents = [switch(1, octets=10**9 + 6_000_000 * n, uptime=8_640_000 + 6_000 * n) for n in range(4)]
    for values, mark in zip(contents, [ticks(77), odd, ticks(77), ticks(77)], strict=True):
        values[(*IFX, 19, 10_101)] = mark
    found = runs(host, "snmp_interfaces", *contents)
    assert [figures(each).get("received_rate Gi1/0/1") for each in found] == [None, None, None, 100_000]


def test_a_value_that_is_a_counter_at_times(sandbox: Sandbox) -> None:
    """A value that is a counter only at times is unknown when it is none, and counts from anew afterwards."""
    host = Host(sandbox, Device({}))
    given = [counter64(5), gauge(6), counter64(65), counter64(185)]
    contents = [{UPTIME: ticks(6_000 * n), COUNTED: value} for n, value in enumerate(given)]
    found = runs(host, "snmp_value", *contents, oid="1.3.6.1.4.1.9999.5.0", rate=True)
    assert [each["status"] for each in found] == ["ok", "unknown", "ok", "ok"]
    assert figures(found[3]) == {"value": 2.0}
