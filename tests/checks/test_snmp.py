"""The checks that speak SNMP: tables in few datagrams, counters over restarts; devices that lie or break the rules."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import snmp_device as ber
from attrs import define, evolve, field
from snmp_device import Device, Oid, counter32, counter64, gauge, number, text, ticks

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


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(log=lambda _check, _text: None) as opened:
        yield opened


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
    """The metrics of a result: name and labels' values."""
    return {" ".join([one["name"], *one.get("labels", {}).values()]): one["value"] for one in document["metrics"]}


def switch(ports: int, octets: int = 10**14, narrow: bool = False, up: int = 1, **uptime: int) -> Values:
    """The interfaces of a switch, each with a name, an alias and counters of its own."""
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


@pytest.mark.parametrize("args", [{}, SECURE], ids=["2c", "3"])
def test_48_ports_in_12_datagrams(sandbox: Sandbox, args: dict[str, str]) -> None:
    """None of which is larger than what travels in one piece; version 3 has one more, the first time."""
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
    """Seven values in each answer, so that rows are cut in two; and one that drops what is larger than 700 bytes."""
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
    """A row for each datagram, 32-bit counters; columns that are missing end nothing."""
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
    """The smaller number is a wrap, unless the device has restarted: then there is no rate."""
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
    """Beyond what a signed number holds; a counter that was set back has no rate, nor one whose mark has changed."""
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
    """That is no restart: the rates go on."""
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
    """One that is down, one that is gone; one that was switched off says so."""
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
    """One datagram for a value, from the second run on; another time or another engine costs one or two more."""
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
    """Each is told as what it is."""
    args = {name: value for name, value in (SECURE | changed).items() if value is not None}
    found = Host(sandbox, Device({UPTIME: ticks(500)})).run("snmp_value", oid="1.3.6.1.2.1.1.3.0", **args)
    assert words in found["summary"]
    assert found["status"] == ("unknown" if re.search("needs|at least", words) else "critical")


@define
class Liar(Device):
    """Answers a good request with a good message, but for these fields of it."""

    changed: dict[str, Any] = field(factory=dict)

    def message(self, id_: bytes, pdu: bytes, flags: int, **_: Any) -> bytes:
        changed = dict(self.changed)
        if flags == 3:
            id_, flags = changed.pop("id", id_), changed.pop("flags", flags)
        return Device.message(self, id_, pdu, flags, **changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"flags": 0}, "the answer is not proved"),
        ({"flags": 1}, "the answer is not encrypted"),
        ({"flags": 2}, "the answer is encrypted, and should not be"),
        ({"id": b"\x05"}, "it answers another message"),
        ({"time": 2**31}, "the answer has impossible security fields"),
        ({"time": 10}, "the answer is a copy of an old one"),
        ({"boots": 6}, "the answer is a copy of an old one"),
        ({"engine": b"another one"}, "the answer is proved by another key"),
    ],
)
def test_answers_that_are_not_the_device_s(sandbox: Sandbox, changed: dict[str, Any], words: str) -> None:
    """After a good run, whose engine and time are kept."""
    host = Host(sandbox, Device({UPTIME: ticks(500)}))
    assert host.run("snmp_value", oid="1.3.6.1.2.1.1.3.0", **SECURE)["status"] == "ok"
    host.device = Liar({UPTIME: ticks(500)}, changed=changed)
    found = host.run("snmp_value", oid="1.3.6.1.2.1.1.3.0", **SECURE)
    assert (found["status"], found["summary"], found["metrics"]) == ("critical", f"switch: {words}", [])
    assert host.datagrams < 10


@define
class Restless(Device):
    """Says in each answer that it is another device, or that its time is another one."""

    which: int = 4
    turns: int = 0

    def answer(self, data: bytes, is_old: bool = False) -> bytes:
        raise AssertionError("it never gets so far")

    def __call__(self, data: bytes) -> bytes | None:
        self.turns += 1
        ((_, inner),) = ber.elements(data)
        id_ = ber.elements(ber.elements(inner)[1][1])[0][1]
        if self.turns == 1 or self.which == 4:
            name = (1, 3, 6, 1, 6, 3, 15, 1, 1, 4, 0)
            pdu = ber.answer_of(ber.Asked(0, 0, 0, 0, ()), [(name, counter32(1))], kind=ber.REPORT)
            return self.message(id_, pdu, 0, engine=ber.ENGINE + bytes((self.turns * (self.which == 4),)))
        return self.report(id_, 2, proved=True)


@pytest.mark.parametrize("which", [2, 4])
def test_reports_without_end(sandbox: Sandbox, which: int) -> None:
    """The check gives up."""
    host = Host(sandbox, Restless({}, which=which))
    found = host.run("snmp_value", oid="1.3.6.1.2.1.1.3.0", **SECURE)
    assert found["status"] == "critical"
    assert host.datagrams < 10


def changing(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda _: None, "did not answer within 2 s, asked 3 times; nor does a device that has another community"),
        (lambda _: b"", "the answer is no BER: it ends too early"),
        (lambda data: data[:-3], "the answer is no BER: an element is longer than what is around it"),
        (lambda data: b"\x30\x80" + data[2:], "the answer is no BER: a length is not given, or has too many bytes"),
        (lambda data: b"\x30\x85\x00\x00\x00\x00\x30" + data[2:], "a length is not given, or has too many bytes"),
        (lambda data: b"\x3f" + data[1:], "a tag has more than one byte"),
        (lambda data: b"\x31" + data[1:], "tag 31 stands where 30 should"),
        (changing(b"public", b"secret"), "the answer has another community"),
        (changing(b"\x02\x01\x01\x04\x06public", b"\x02\x01\x00\x04\x06public"), "the answer has another version"),
        (changing(b"\xa2", b"\xa8"), "it answers another request"),
        (changing(b"\xa2", b"\xa0"), "a PDU of the kind a0 is no answer"),
        (changing(ticks(500), b"\x43\0\x05\0"), "a number has 0 bytes"),
        (changing(ticks(500), b"\x4f\x02\x01\xf4"), "a value has the unknown type 4f"),
        (changing(b"\x01\x01\x03\0", b"\x01\x01\x05\0"), "switch answers with values that were not asked for"),
        (changing(b"\x01\x01\x03\0", b"\x01\x01\x80\0"), "an object identifier has an empty part"),
        (changing(b"\x01\x01\x03\0", b"\x01\x01\x03\x80"), "an object identifier has an empty part"),
        (changing(b"\x01\x01\x03\0", b"\x01\x01\x03\x81"), "an object identifier ends too early"),
    ],
)
def test_answers_that_are_none(sandbox: Sandbox, spoil: Callable[[bytes], bytes | None], words: str) -> None:
    """Each is told, after three tries."""
    host = Host(sandbox, Device({UPTIME: ticks(500)}, spoil=spoil))
    found = host.run("snmp_value", oid="1.3.6.1.2.1.1.3.0")
    assert (found["status"], words in found["summary"], found["metrics"]) == ("critical", True, []), found
    assert host.datagrams in (1, 3)


def test_another_id(sandbox: Sandbox) -> None:
    """An answer to a request that nobody made is none."""

    class Other(Device):
        def answer(self, data: bytes, is_old: bool = False) -> bytes:
            asked = ber.request_of(data)
            return ber.answer_of(evolve(asked, id=asked.id + 1), [(UPTIME, ticks(500))])

    host = Host(sandbox, Other({}))
    found = host.run("snmp_value", oid="1.3.6.1.2.1.1.3.0")
    assert (found["status"], found["summary"]) == ("critical", "switch: it answers another request")


class Walked(Device):
    """Answers each request for more with what `rows` makes of it."""

    rows: Callable[[ber.Asked, int], list[tuple[Oid, bytes]]]
    status = 0

    def answer(self, data: bytes, is_old: bool = False) -> bytes:
        asked = ber.request_of(data)
        self.asked.append(asked)
        return ber.answer_of(asked, type(self).rows(asked, len(self.asked)), self.status)


class Endless(Walked):
    rows = staticmethod(lambda asked, turn: [((*IF, 10, turn * 1000 + at), counter32(1)) for at in range(20)])


class Slow(Walked):
    rows = staticmethod(lambda asked, turn: [((*IF, 10, turn), counter32(1))])


class Circle(Walked):
    rows = staticmethod(lambda asked, turn: [((*IF, 10, 5), counter32(1)), ((*IF, 10, 4), counter32(1))])


class Still(Walked):
    rows = staticmethod(lambda asked, turn: [(asked.oids[-1], counter32(1))])


class Empty(Walked):
    rows = staticmethod(lambda asked, turn: [])


class TooBig(Walked):
    rows = staticmethod(lambda asked, turn: [])
    status = 1


class Refusing(Walked):
    rows = staticmethod(lambda asked, turn: [])
    status = 16


class Elsewhere(Walked):
    rows = staticmethod(lambda asked, turn: [((1, 3, 7, at), counter32(1)) for at in range(2000)])


@pytest.mark.parametrize(
    ("device", "words", "most"),
    [
        (Endless, "switch: the table has more than 100 rows", 6),
        (Slow, "switch: the table has more than 100 rows", 102),
        (Circle, "leads a walk in a circle: 1.3.6.1.2.1.2.2.1.10.4 comes behind 1.3.6.1.2.1.2.2.1.10.5", 2),
        (Still, "switch has no value below 1.3.6.1.2.1.2.2.1.10", 2),
        (Empty, "switch answers without a value", 1),
        (TooBig, "switch can't send one row of the table (tooBig)", 7),
        (Refusing, "switch refuses: authorizationError", 1),
        (Elsewhere, "switch has no value below 1.3.6.1.2.1.2.2.1.10", 1),
    ],
)
def test_walks_that_lead_nowhere(sandbox: Sandbox, device: type[Walked], words: str, most: int) -> None:
    """Each has an end, in a few datagrams."""
    host = Host(sandbox, device({}))
    found = host.run("snmp_value", oid="1.3.6.1.2.1.2.2.1.10", each=True)
    assert (found["status"] in ("critical", "unknown"), words in found["summary"]) == (True, True), found
    assert host.datagrams <= most


ROUNDS = 24  # of each version; 3,000 with other seeds were run by hand


@pytest.mark.parametrize("args", [{}, {"version": "1"}, SECURE], ids=["2c", "1", "3"])
def test_anything_that_a_device_sends_is_a_verdict(sandbox: Sandbox, args: dict[str, Any]) -> None:
    """Bytes changed, put in and taken out: nothing crashes, and no value is made up that was not there."""
    chance = random.Random(5)

    def spoil(data: bytes) -> bytes:
        raw = bytearray(data)
        for _ in range(chance.choice([0, 0, 1, 2])):
            at = chance.randrange(len(raw))
            raw[at : at + chance.randrange(3)] = chance.choice(
                [b"", b"\0", b"\x7f", b"\x80", b"\xff", chance.randbytes(2)]
            )
        return bytes(raw)

    values = switch(6) | {(1, 3, 6, 1, 2, 1, 25, 3, 3, 1, 2, 1): number(5)}
    checks = (("snmp_interfaces", {}), ("snmp_device", {}), ("snmp_value", {"oid": "1.3.6.1.2.1.1.3.0"}))
    for turn in range(ROUNDS):
        check, more = checks[turn % 3]
        Host(sandbox, Device(values, spoil=spoil)).run(check, **args, **more)
