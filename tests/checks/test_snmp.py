"""Test the checks that speak SNMP: tables in few datagrams, counters over wraps and restarts, and refusals of
devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from snmp_device import Device, number, text, ticks
from snmp_host import IF, IFX, SECURE, UPTIME, Host, figures, switch

from equus.sandbox.blocking import Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(log=lambda _check, _text: None) as opened:
        yield opened


@pytest.mark.parametrize("args", [{}, SECURE], ids=["2c", "3"])
def test_48_ports_in_12_datagrams(sandbox: Sandbox, args: dict[str, str]) -> None:
    """48 ports take at most 12 datagrams, and none is larger than one that travels in one piece."""
    device = Device(switch(48))
    host = Host(sandbox, device)
    found = host.run("snmp_interfaces", **args)
    assert (found["status"], found["summary"]) == ("ok", "48 of 48 interfaces up")
    assert figures(found)["received Gi1/0/48"] == 10**14 + 48
    assert host.datagrams <= 12
    assert max(device.sent) <= 1472
    before = host.datagrams
    host.now += 60
    device.values = switch(48, 10**14 + 60 * 5_000_000, uptime=8_646_000)
    found = host.run("snmp_interfaces", **args)
    assert host.datagrams - before <= 11
    assert figures(found)["received_rate Gi1/0/7"] == pytest.approx(5_000_000)
    assert figures(found)["use Gi1/0/7"] == pytest.approx(8.0)
    assert figures(found)["errors_rate Gi1/0/7"] == 0


def test_a_device_that_sends_less(sandbox: Sandbox) -> None:
    """A device that sends seven values in an answer, or drops answers above 700 bytes, is read in full."""
    for device in (
        Device(switch(20), limit=7),
        Device(switch(20), spoil=lambda data: data if len(data) < 700 else None),
    ):
        host = Host(sandbox, device)
        found = host.run("snmp_interfaces")
        assert found["summary"] == "20 of 20 interfaces up"
        assert {f"sent Gi1/0/{port}" for port in range(1, 21)} <= set(figures(found))
    assert host.datagrams < 20


def test_version_1(sandbox: Sandbox) -> None:
    """Version 1 reads one row in each datagram with 32-bit counters, and missing columns do no harm."""
    values = switch(5, narrow=True)
    for port in range(10_101, 10_106):
        del values[(*IF, 13, port)]
    device = Device(values)
    host = Host(sandbox, device)
    assert host.run("snmp_interfaces", version="1")["summary"] == "5 of 5 interfaces up"
    host.now += 10
    device.values = values | switch(5, 10**14 + 20_000_000, narrow=True, uptime=8_641_000)
    found = figures(host.run("snmp_interfaces", version="1"))
    assert found["received_rate GigabitEthernet1/0/2"] == pytest.approx(2_000_000)


def test_32_bits_wrap(sandbox: Sandbox) -> None:
    """A smaller 32-bit counter is a wrap, unless the device has restarted, and then there is no rate."""
    device = Device(switch(1, 2**32 - 1000, narrow=True))
    host = Host(sandbox, device)
    host.run("snmp_interfaces")
    host.now += 10
    device.values = switch(1, 2**32 + 4000, narrow=True, uptime=8_641_000)
    found = host.run("snmp_interfaces")
    assert figures(found)["received_rate GigabitEthernet1/0/1"] == pytest.approx(500)
    host.now += 10
    device.values = switch(1, 100, narrow=True, uptime=400)
    found = host.run("snmp_interfaces")
    assert "received_rate GigabitEthernet1/0/1" not in figures(found)
    assert found["summary"] == "1 of 1 interface up, the device has restarted"


def test_64_bits(sandbox: Sandbox) -> None:
    """A 64-bit counter may exceed a signed number, and has no rate after a reset or another mark."""
    device = Device(switch(1, 2**63 - 1000))
    host = Host(sandbox, device)
    assert figures(host.run("snmp_interfaces"))["received Gi1/0/1"] == 2**63 - 999
    host.now += 10
    device.values = switch(1, 2**63 + 9000, uptime=8_641_000)
    found = figures(host.run("snmp_interfaces"))
    assert (found["received Gi1/0/1"], found["received_rate Gi1/0/1"]) == (float(2**63 + 9001), pytest.approx(1000))
    host.now += 10
    device.values = switch(1, 10**6, uptime=8_642_000)
    assert "received_rate Gi1/0/1" not in figures(host.run("snmp_interfaces"))
    host.now += 10
    device.values = switch(1, 10**6 + 5000, uptime=8_643_000) | {(*IFX, 19, 10_101): ticks(8_642_500)}
    assert "received_rate Gi1/0/1" not in figures(host.run("snmp_interfaces"))


def test_the_uptime_begins_anew_after_497_days(sandbox: Sandbox) -> None:
    """An uptime that begins anew after 497 days is no restart, and the rates go on."""
    device = Device(switch(1, 1000, uptime=2**32 - 500))
    host = Host(sandbox, device)
    host.run("snmp_interfaces")
    host.now += 60
    device.values = switch(1, 61_000, uptime=5_500)
    found = host.run("snmp_interfaces")
    assert figures(found)["received_rate Gi1/0/1"] == pytest.approx(1000)
    for check in range(2):
        device.values = {UPTIME: ticks(2**32 - 500 if check == 0 else 5_500), (1, 3, 6, 1, 2, 1, 1, 5, 0): text("sw")}
        found = host.run("snmp_device", parts=[])
        host.now += 60
    assert (found["status"], figures(found)["uptime"]) == ("ok", pytest.approx((2**32 + 5_500) / 100))


def test_what_must_be_up(sandbox: Sandbox) -> None:
    """An interface that must be up is critical if it is down or missing, and the summary says if it was
    switched off.
    """
    values = switch(3) | {(*IF, 8, 10_102): number(7)}
    host = Host(sandbox, Device(values))
    found = host.run("snmp_interfaces", up=["Gi1/0/*"])
    assert (found["status"], found["summary"]) == (
        "critical", "Gi1/0/2 is down (a lower layer is down); 2 of 3 interfaces up")  # fmt: skip
    host.device = Device(values | {(*IF, 7, 10_102): number(2)})
    assert host.run("snmp_interfaces", up=["Gi1/0/2"])["summary"].startswith("Gi1/0/2 is switched off")
    assert host.run("snmp_interfaces", up=["Gi1/0/9"])["summary"] == "switch has no interface Gi1/0/9"
    assert host.run("snmp_interfaces", interfaces=["Te*"])["status"] == "unknown"


def test_who_the_device_is_is_kept(sandbox: Sandbox) -> None:
    """From the second run on a value costs one datagram, and another time or engine costs one or two more."""
    device = Device({UPTIME: ticks(500)})
    host = Host(sandbox, device)
    args = {**SECURE, "oid": "1.3.6.1.2.1.1.3.0"}
    for expected in (2, 1):
        before = host.datagrams
        assert host.run("snmp_value", **args)["status"] == "ok"
        assert host.datagrams - before == expected
    device.boots, device.time = 8, 3
    before = host.datagrams
    assert host.run("snmp_value", **args)["status"] == "ok"
    assert host.datagrams - before == 2
    host.state["snmp engine"]["id"] = "80001f88046f74686572"
    assert host.run("snmp_value", **args)["status"] == "ok"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"user": "nobody"}, "the device does not know this user"),
        ({"auth_password": "another one"}, "auth or auth_password is another one"),
        ({"auth": "sha512"}, "auth or auth_password is another one"),
        ({"privacy_password": "another one"}, "privacy or privacy_password is another one"),
        ({"privacy_password": None}, "does not give this user such a security level"),
        ({"privacy_password": None, "auth_password": None}, "does not give this user such a security level"),
        ({"auth_password": None}, "privacy_password needs an auth_password"),
        ({"auth_password": "short"}, "auth_password must have at least 8 characters"),
        ({"user": ""}, "version 3 needs a user"),
    ],
)
def test_what_a_device_does_not_accept(sandbox: Sandbox, changed: dict[str, Any], words: str) -> None:
    """Each refusal of a device names its reason."""
    args = {name: value for name, value in (SECURE | changed).items() if value is not None}
    found = Host(sandbox, Device({UPTIME: ticks(500)})).run("snmp_value", oid="1.3.6.1.2.1.1.3.0", **args)
    assert words in found["summary"]
    assert found["status"] == ("unknown" if re.search("needs|at least", words) else "critical")


NAMED = {  # by hand, from the modules
    "sysUpTime": "1.3.6.1.2.1.1.3.0", "SNMPv2-MIB::sysLocation.0": "1.3.6.1.2.1.1.6.0",
    "snmpInPkts": "1.3.6.1.2.1.11.1.0", "ifNumber": "1.3.6.1.2.1.2.1.0", "ifInErrors.3": "1.3.6.1.2.1.2.2.1.14.3",
    "ifOutQLen.10101": "1.3.6.1.2.1.2.2.1.21.10101", "IF-MIB::ifHCOutOctets.7": "1.3.6.1.2.1.31.1.1.1.10.7",
    "ifHighSpeed.1": "1.3.6.1.2.1.31.1.1.1.15.1", "ifAlias.2": "1.3.6.1.2.1.31.1.1.1.18.2",
    "hrSystemProcesses": "1.3.6.1.2.1.25.1.6.0", "hrMemorySize": "1.3.6.1.2.1.25.2.2.0",
    "hrStorageUsed.31": "1.3.6.1.2.1.25.2.3.1.6.31", "hrProcessorLoad.196608": "1.3.6.1.2.1.25.3.3.1.2.196608",
    "hrPrinterDetectedErrorState.1": "1.3.6.1.2.1.25.3.5.1.2.1", "hrSWRunPerfMem.9": "1.3.6.1.2.1.25.5.1.1.2.9",
    "entPhysicalSerialNum.1": "1.3.6.1.2.1.47.1.1.1.1.11.1",
    "ENTITY-SENSOR-MIB::entPhySensorValue.4": "1.3.6.1.2.1.99.1.1.1.4.4",
    "upsEstimatedChargeRemaining": "1.3.6.1.2.1.33.1.2.4.0", "upsInputVoltage.1": "1.3.6.1.2.1.33.1.3.3.1.3.1",
    "upsOutputPercentLoad.2": "1.3.6.1.2.1.33.1.4.4.1.5.2", "upsAlarmsPresent.0": "1.3.6.1.2.1.33.1.6.1.0",
    ".1.3.6.1.2.1.1.5.0": "1.3.6.1.2.1.1.5.0",
}  # fmt: skip


def test_values_by_name(sandbox: Sandbox) -> None:
    """A name is asked for as the OID that its module gives it."""
    for name, oid in NAMED.items():
        host = Host(sandbox, Device({tuple(map(int, oid.split("."))): number(len(name)), UPTIME: ticks(500)}))
        found = host.run("snmp_value", oid=name)
        assert (name, found["status"], figures(found)) == (name, "ok", {"value": 500 if "Up" in name else len(name)})


def test_a_column_by_name(sandbox: Sandbox) -> None:
    """A column is read by its name, with a metric for each index."""
    host = Host(sandbox, Device(switch(3)))
    found = host.run("snmp_value", oid="IF-MIB::ifOperStatus", each=True)
    assert (found["status"], sorted(metric["labels"]["index"] for metric in found["metrics"])) == (
        "ok", ["10101", "10102", "10103"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ifInErrors", "oid is \"ifInErrors\", a column: write the index of its row behind it, or each = true"),
        ("ifinerrors.1", "is no name that is known here: write it in numbers (snmptranslate -On tells them)"),
        ("UPS-MIB::ifInErrors.1", "is no name that is known here"), ("IF-MIB::", "write an OID in numbers, or a name"),
        ("sysName 0", "write an OID in numbers, or a name"), ("-.1", "write an OID in numbers, or a name"),
        ("ifInErrors..3", "write an OID in numbers, or a name"), ("", "write an OID in numbers, or a name"),
    ],
)  # fmt: skip
def test_names_that_are_none(sandbox: Sandbox, name: str, words: str) -> None:
    """A name that is unknown gives an error that says what to write, and no datagram is sent."""
    host = Host(sandbox, Device(switch(3)))
    found = host.run("snmp_value", oid=name)
    assert (found["status"], host.datagrams) == ("unknown", 0)
    assert words in found["summary"]
