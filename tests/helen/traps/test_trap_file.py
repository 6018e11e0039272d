"""Tests the file of `helen traps` with all faults of one; what a trap becomes; who is heard, and how often."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from snmp_device import number, oid, text, ticks, tlv

from helen.cli.base.failures import Failed, Missing
from helen.cli.base.listening import Counts, ListenerFileError, Places
from helen.cli.main import main
from helen.cli.traps import listener
from helen.cli.traps.listener import Listener
from helen.cli.traps.notification import Notification
from helen.cli.traps.security import Security
from helen.cli.traps.trap_file import read, result_of
from helen.web.body_fields import read_seconds

NO_HELEN = {"HELEN_STATE": None, "HELEN_URL": None}
FILE = """
communities = ["public"]
a_minute = 60
at_once = 3
[[source]]
address = ["192.0.2.7", "2001:db8::/64"]
host = "switch-1"
[[source]]
address = "10.0.0.0/8"
[[trap]]
oid = "1.3.6.1.6.3.1.1.5.3"
where = { "1.3.6.1.2.1.2.2.1.7" = "1" }
check = "link-{1.3.6.1.2.1.2.2.1.2}"
status = "critical"
summary = "{1.3.6.1.2.1.2.2.1.2} of {host} at {address} is down"
ttl = "1h"
[[trap]]
oid = ["1.3.6.1.6.3.1.1.5.3", "1.3.6.1.6.3.1.1.5.5"]
drop = true
[[trap]]
oid = "1.3.6.1.4.1.9.*"
check = "of {agent}"
status = "warning"
"""
DOWN, INDEX = "1.3.6.1.6.3.1.1.5.3", "1.3.6.1.2.1.2.2.1"
HERE, THERE = "192.0.2.7", "198.51.100.1"


def trap(trap_oid: str, agent: str = "", **values: str) -> Notification:
    return Notification(trap_oid, tuple((f"{INDEX}.{name[1:]}.5", value) for name, value in values.items()), b"", agent)


def become(one: Notification, address: str = HERE) -> dict[str, Any] | None:
    config = read(FILE)
    source, meaning = config.source_of(ipaddress.ip_address(address)), config.meaning_of(one)
    assert source is not None
    return None if meaning is None or meaning.is_dropped else result_of(one, meaning, source, address)


def test_what_a_trap_becomes() -> None:
    """Placeholders are filled with values, or with a mark that there is none."""
    assert become(trap(DOWN, _7="1", _2="Gi1/0/5")) == {
        "host": "switch-1", "check": "link-Gi1/0/5", "status": "critical", "source": "helen traps", "ttl": 3600.0,
        "summary": "Gi1/0/5 of switch-1 at 192.0.2.7 is down",
        "output": f"trap {DOWN} of 192.0.2.7\n{INDEX}.7.5 = 1\n{INDEX}.2.5 = Gi1/0/5",
    }  # fmt: skip
    found = become(trap(DOWN, _7="1"), "10.1.2.3")
    assert found is not None
    assert (found["host"], found["check"]) == ("10.1.2.3", "link-_")
    assert found["summary"] == "? of 10.1.2.3 at 10.1.2.3 is down"
    assert become(trap(DOWN, _7="2")) is None
    assert become(trap("1.3.6.1.6.3.1.1.5.5")) is None
    assert become(trap("1.3.6.1.6.3.1.1.5.1")) is None


def test_values_that_are_no_names() -> None:
    """A value is made sound in a name of a check; in a text each of its characters can be printed."""
    found = become(trap(DOWN, _7="1", _2="a b\x1b{host}é" + "x" * 600))
    assert found is not None
    assert found["check"].startswith("link-a_b_x1b_host_é")
    assert len(found["check"]) == 120
    assert found["summary"].startswith("a b\\x1b{host}é")
    assert len(found["summary"]) == 500
    found = become(trap("1.3.6.1.4.1.9.1.0.5", "10.9.9.9"))
    assert found is not None
    assert (found["check"], found["summary"]) == ("of 10.9.9.9", "trap 1.3.6.1.4.1.9.1.0.5")
    assert "ttl" not in found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file names no [[source]]"),
        ("a = [", "no TOML"),
        ("listen = 'x:162'", "listen is 'x:162': write an address and a port"),
        ("listen = '127.0.0.1:99999'", "write an address and a port"),
        ("listne = 5", "'listne' is no setting here"),
        ("a_minute = 0", "a_minute is 0: write a number"),
        ("engine = 'xyz'", "engine is no engine id"),
        ("engine = '0102'", "engine is no engine id"),
        ("communities = []", "communities is not usable"),
        ("communities = [{ env = 'NOT_THERE_AT_ALL' }]", "communities: "),
        ("user = 5", "user: write [[user]]"),
        ("[[user]]", "[[user]] number 1: name is missing"),
        ("[[user]]\nname = 'u'\nauth = 'sha3'", "auth is 'sha3'"),
        ("[[user]]\nname = 'u'\nauth_password = 'short'", "a password must have at least 8 bytes"),
        ("[[user]]\nname = 'u'\nprivacy_password = 'long enough'", "privacy_password needs an auth_password"),
        ("[[source]]", "[[source]] number 1: address is missing"),
        ("[[source]]\naddress = '10.0.0.1/8'", "has host bits set"),
        ("[[source]]\naddress = '10.0.0.1'\nhost = '{1.3.6.1}'", "host has {1.3.6.1}, which is nothing"),
        ("[[trap]]\nstatus = 'ok'", "oid is missing"),
        ("[[trap]]\noid = '*'\ncheck = 'x'\nstatus = 'bad'", "status is 'bad'"),
        (
            "[[trap]]\noid = '*'\ncheck = 'x-{y}'\nstatus = 'ok'",
            "check has {y}, which is nothing: there are host",
        ),
        ("[[trap]]\noid = '*'\nwhere = { sysName = 'x' }\ndrop = true", "where: sysName is no OID in numbers"),
        ("[[trap]]\noid = '*'\ncheck = 'x'\nstatus = 'ok'\nttl = 'x'", "ttl: "),
    ],
)
def test_faults(content: str, words: str) -> None:
    """Each says where it is and what to write."""
    with pytest.raises(ListenerFileError) as fault:
        read(content)
    assert words in str(fault.value)
    assert "long enough" not in str(fault.value)


def test_secrets_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret is in a file or in the environment, and in no picture of what was read."""
    (tmp_path / "word").write_text("authentic\n")
    monkeypatch.setenv("TRAP_PRIVACY", "encrypted")
    content = f"""[[user]]
name = "u"
auth_password = {{ file = "{tmp_path}/word" }}
privacy_password = {{ env = "TRAP_PRIVACY" }}
"""
    user = read(content + FILE[FILE.index("[[source]]") :]).users[b"u"]
    assert (user.auth_password, user.privacy_password) == (b"authentic", b"encrypted")
    assert "authentic" not in repr(user)


def test_the_command_reads_a_file(tmp_path: Path) -> None:
    """The option `--check` tells what is in a file and asks no Helen; faults are status 2, a missing file is 1."""
    path = tmp_path / "traps.toml"

    def run() -> tuple[int, str]:
        done = CliRunner().invoke(main, ["traps", "--file", str(path), "--check"], env=NO_HELEN)
        return done.exit_code, done.output

    assert run()[0] == 1
    path.write_text(FILE)
    assert run() == (0, f"{path}: 2 sources, 3 traps, 0 users\n")
    path.write_text(FILE + "x = 5\n")
    assert run()[0] == 2
    path.write_bytes(b"\xff")
    assert run()[0] == 2


def test_who_receives_names_a_helen(tmp_path: Path) -> None:
    """A Helen is needed without `--check`, and the command says so before it listens."""
    path = tmp_path / "traps.toml"
    path.write_text(FILE)
    done = CliRunner().invoke(main, ["traps", "--file", str(path)], env=NO_HELEN)
    assert (done.exit_code, "no Helen is named: give --state DIR" in done.output) == (2, True)


# ---------------------------------------------------------------------------------------------- the listener


class Posted:
    """Is a Helen that takes results, or refuses as it is told to."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.refusals: list[Exception] = []

    def post(self, path: str, body: dict[str, Any], patience: float) -> None:
        assert (path, patience) == ("/api/v1/passive/results", listener.POST_SECONDS)
        if self.refusals:
            raise self.refusals.pop(0)
        self.bodies.append(body)


def a_listener(said: list[str]) -> tuple[Listener, Posted, list[float]]:
    config, posted, clock = read(FILE), Posted(), [100.0]
    security = Security(config.communities, config.users, b"\x80\0\0\0\x05x", 1, lambda: clock[0])
    return Listener(config, security, posted, Counts(said.append), lambda: clock[0]), posted, clock  # type: ignore[arg-type]


def datagram(kind: int = 0xA7, trap_oid: str = DOWN, id_: int = 1) -> bytes:
    values = {"1.3.6.1.2.1.1.3.0": ticks(5), "1.3.6.1.6.3.1.1.4.1.0": oid(trap_oid), f"{INDEX}.7.5": number(1)}
    pairs = [tlv(0x30, oid(name), value) for name, value in values.items()]
    body = tlv(kind, number(id_), number(0), number(0), tlv(0x30, *pairs))
    return tlv(0x30, number(1), text("public"), body)


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000.0), ("365d", 31_536_000.0)])
def test_helen_takes_each_time_to_live(text: str, seconds: float) -> None:
    """The posted result is read by the reader of the route, which takes a year at most; so does the file."""
    config = read(FILE.replace("1h", text))
    meaning = config.meaning_of(trap(DOWN, _7="1"))
    assert meaning is not None
    body = json.loads(json.dumps(result_of(trap(DOWN, _7="1"), meaning, config.sources[0], HERE)))
    assert read_seconds(body, "ttl") == seconds
    with pytest.raises(ListenerFileError, match="ttl is 3"):
        read(FILE.replace("1h", "366d"))


def test_who_is_listened_to() -> None:
    """A stranger is not listened to, and nobody beyond the limit, which is each address's own; all of it is counted."""
    said: list[str] = []
    one, _, clock = a_listener(said)
    for address in [THERE, *[HERE] * 5, "10.0.0.1", "2001:db8::5"]:
        assert one.receive(datagram(), address, lambda _: None) == b""
    assert one.waiting.qsize() == 5
    clock[0] += 1.0
    one.receive(datagram(), HERE, lambda _: None)
    assert one.waiting.qsize() == 6
    one.counts.flush()
    one.counts.flush()
    assert said == [f"1 of strangers (from {THERE}: no [[source]] has it); 2 over the limit (from {HERE})"]


def test_informs_are_confirmed_when_helen_has_them() -> None:
    """An inform is not confirmed before; one that Helen refuses never; one without a meaning at once; copies are one
    result.
    """
    said: list[str] = []
    one, posted, _ = a_listener(said)
    sent: list[bytes] = []
    assert one.receive(datagram(0xA6), HERE, sent.append) == b""
    assert one.receive(datagram(0xA6), HERE, sent.append) == b""
    assert sent == []
    for _ in range(2):
        one._post(one.waiting.get_nowait())
    assert sent == [datagram(0xA2)] * 2
    assert len({body["id"] for body in posted.bodies}) == 1
    assert one.receive(datagram(0xA6, "1.3.6.1.6.3.1.1.5.1"), HERE, sent.append)
    posted.refusals = [Missing("not declared")]
    one.receive(datagram(0xA6, id_=2), "10.0.0.1", sent.append)
    one._post(one.waiting.get_nowait())
    assert len(sent) == 2
    one.counts.flush()
    refused = "1 not taken by Helen (10.0.0.1/link-_: not declared)"
    assert said == [f"2 taken; 1 without a meaning (1.3.6.1.6.3.1.1.5.1); {refused}"]


def test_while_helen_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is sent again until Helen takes it; with another refusal it is given up."""
    monkeypatch.setattr(listener, "PAUSES", (0.0,))
    said: list[str] = []
    one, posted, _ = a_listener(said)
    busy, wrong = Failed("too much waits"), Failed("no right to")
    busy.status, wrong.status = 503, 403
    posted.refusals = [Failed("no Helen runs"), busy]
    one.receive(datagram(), HERE, lambda _: None)
    one._post(one.waiting.get_nowait())
    assert len(posted.bodies) == 1
    posted.refusals = [wrong]
    one.receive(datagram(), HERE, lambda _: None)
    one._post(one.waiting.get_nowait())
    one.ended.set()
    posted.refusals = [Failed("no Helen runs")]
    one.receive(datagram(), HERE, lambda _: None)
    one._post(one.waiting.get_nowait())
    one.counts.flush()
    where = "switch-1/link-_"
    assert said == [
        f"2 tries while Helen is away (no Helen runs); 1 taken; 1 not taken by Helen ({where}: no right to);"
        f" 1 lost ({where}: no Helen runs)"
    ]


def test_no_more_wait_than_there_is_room_for() -> None:
    """A trap that comes then is lost, and counted; its inform is not confirmed."""
    said: list[str] = []
    one, _, clock = a_listener(said)
    one._places = Places(12)
    for address in [HERE] * 3 + ["10.0.0.1"] * 4:
        assert one.receive(datagram(0xA6), address, lambda _: None) == b""
        clock[0] += 1.0
    one.counts.flush()
    assert [waiting.address for waiting in one.waiting.queue] == [HERE] * 3 + ["10.0.0.1"] * 3
    assert said == ["1 lost (from 10.0.0.1: too many wait for Helen already, it has 3)"]
