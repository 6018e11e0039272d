"""Tests the broker as a service: its folder, configuration by the network, HTTP, scale0ctl. Real
sockets, real files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.protocol import Protocol
from twisted.web.client import Agent
from twisted.web.http_headers import Headers

from scale0 import ctl as ctl_module
from scale0.broker import config_exchange, state_folder
from scale0.broker import service as service_module
from scale0.broker.management_pages import FrontEnd
from scale0.broker.sockets import host_of
from scale0.broker.startup import first_state, load_file, password_is_right
from scale0.broker.state_folder import Record, StateFolder
from scale0.config.config import ConfigFault
from scale0.config.keys import AuthorizedKeys, KeyFault, Pair, load_pair, text_of, write_pair
from scale0.documents.publication import ALL, NotAPublication, Publication, SeenPublications, parse
from scale0.wire.reader import new_keys

PASSWORD = "correct horse"
RECORD = "scrypt$2$8$1$" + "ab" * 16 + "$" + hashlib.scrypt(PASSWORD.encode(), salt=b"\xab" * 16, n=2, r=8, p=1).hex()
MANAGEMENT = [{"auth_id": "op", "auth_password": RECORD}]


# ------------------------------------------------------------------------------------- the folder


def test_run_json_says_where_the_broker_is_and_goes_with_it(pump, brokers, tmp_path):
    broker = brokers.start()
    file = tmp_path / "broker" / "run.json"
    pump.until(file.exists)
    run = json.loads(file.read_text())
    assert set(run) == {"pid", "identity", "state", "frontend", "backend", "peer", "config_pub", "http"}
    assert (run["identity"], run["state"], run["http"]) == ("broker", "active", None)
    assert run["frontend"] == broker.sockets.endpoints["frontend"]
    brokers.stop(broker)
    assert not file.exists()


def test_an_unchanged_file_keeps_its_version_over_a_restart(pump, brokers, tmp_path):
    """A restart keeps the version of an unchanged file, so that nobody is told to negotiate anew; a changed file has a
    newer one.
    """
    broker = brokers.start()
    version = broker.broker.version
    pump.until((tmp_path / "broker" / "broker.json").exists)
    brokers.stop(broker)
    again = brokers.start()
    assert again.broker.version == version
    brokers.stop(again)
    assert brokers.start(group="east").broker.version > version


def test_a_record_that_cannot_be_read_is_put_aside(tmp_path):
    folder = StateFolder(tmp_path)
    folder.prepare()
    (tmp_path / "broker.json").write_text("{")
    assert folder.load() is None
    assert (tmp_path / "broker.unreadable").read_text() == "{"
    folder.store(Record("active", 7, "digest"))
    assert folder.load() == Record("active", 7, "digest")
    assert {path.name for path in tmp_path.iterdir()} == {"broker.json", "broker.unreadable"}


def test_a_disk_that_is_full_is_told_to_whoever_wanted_to_disable(pump, brokers, monkeypatch):
    """The answer is 500 and the broker stays as it was: a state that a restart would forget is no state."""
    broker = brokers.start(management=MANAGEMENT)

    def full(*ignored: Any, **also: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_folder, "write_durably", full)
    answer = pump.result(broker.manage(service_module.opt.ManagementReq("op", PASSWORD, "disable"), LOCAL))
    assert (answer["code"], broker.broker.state) == (500, "active")


LOCAL = service_module.Origin("127.0.0.1", "")


@pytest.mark.parametrize("name, message", [("broker.yaml", "ends in .json, .xml, .zfl"), ("none.json", "No such file")])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, message):
    (tmp_path / "broker.yaml").write_text("")
    with pytest.raises(ConfigFault, match=message):
        load_file(tmp_path / name)


def test_null_ports_stay_on_this_machine(brokers, tmp_path):
    with pytest.raises(ConfigFault, match="loopback only"):
        brokers.start(address="0.0.0.0")
    with pytest.raises(ConfigFault, match="in the clear"):
        brokers.start(http="0.0.0.0:80")
    file = tmp_path / "open.json"
    file.write_text('{"identity": "b", "frontend_port": 0, "backend_port": 0, "address": "0.0.0.0", "insecure": 1}')
    assert host_of(load_file(file).config, None) == "0.0.0.0"


# ---------------------------------------------------------------------- configuration by the network


def listening(source: Any, **config: Any) -> dict[str, Any]:
    return {"config_sub_ports": [source.sockets.endpoints["config_pub"]], "network": "scale0"} | config


def test_what_one_broker_shares_the_others_have(pump, brokers):
    """A shared configuration reaches all brokers at once: near ones, far ones, later ones, and one after a restart."""
    source = brokers.start("source")
    near = brokers.start("near", **listening(source))
    far = brokers.start("far", **listening(near))
    pump.until(lambda: near.broker.version >= source.broker.version)
    version = source.share({"documents": [{"name": "manifest", "content": "aGk="}]})
    for broker in (near, far, brokers.start("late", **listening(near))):
        pump.until(lambda broker=broker: broker.broker.config.documents)
        assert [d.content for d in broker.broker.config.documents] == ["aGk="]
        assert broker.broker.version >= version
    pump.until(lambda: (record := StateFolder(far._folder.path).load()) and "aGk=" in str(record.received))
    brokers.stop(far)
    again = brokers.start("far", **listening(near))
    assert [d.content for d in again.broker.config.documents] == ["aGk="]


def test_new_subscribers_get_all_documents_once_a_second(pump, brokers):
    """New subscribers cost one repetition a second, also a thousand that are started together."""
    exchange, told = brokers.start("source")._exchange, []
    exchange.publish_all = lambda: told.append(exchange._clock()[0])
    for _ in range(2):
        before = len(told)
        for _ in range(5):
            exchange.subscribed(b"\1topic")
        pump.until(lambda before=before: len(told) > before)
    assert len(told) == 2 and told[1] - told[0] >= 0.99


def test_a_change_under_a_clock_that_is_behind_has_the_next_version(pump, brokers):
    """A change under such a clock has the next version, or the others would take it for an older one."""
    source = brokers.start("source")
    ahead = source.share({"spill_ms": 10})
    source._exchange._clock = lambda: (pump.reactor.seconds(), 1.0)
    assert [source.share({"spill_ms": wait}) for wait in (20, 30)] == [ahead + 1, ahead + 2]


def test_a_joining_broker_takes_a_configuration_older_than_its_file_and_keeps_it(pump, brokers, tmp_path):
    """A joining broker does not count its own file as a configuration yet, and takes an older one of the network. After
    a restart it is active at once, from disk.
    """
    source = brokers.start("source")
    version = source.share({"spill_ms": 10})
    pump.sit(0.05)
    joining = brokers.start("new", state="joining", **listening(source))
    assert (joining.broker.state, joining.broker.version) == ("joining", 0)
    pump.until(lambda: joining.broker.state == "active")
    assert (joining.broker.version, joining.broker.config.spill_ms) == (version, 10)
    pump.until(lambda: (record := StateFolder(tmp_path / "new").load()) is not None and record.received)
    brokers.stop(joining)
    brokers.stop(source)
    again = brokers.start("new", state="joining", **listening(source))
    assert (again.broker.state, again.broker.version) == ("active", version)


@pytest.mark.parametrize(
    "record, same_file, wanted, received, state",
    [
        (None, False, "active", False, "active"),
        (None, False, "joining", False, "joining"),
        (None, False, "disabled", False, "disabled"),
        ("disabled", True, "active", False, "disabled"),
        ("disabled", False, "active", False, "disabled"),
        ("active", True, "disabled", False, "active"),
        ("active", False, "disabled", False, "disabled"),
        ("active", True, "joining", True, "active"),
        ("joining", True, "joining", False, "joining"),
    ],
)
def test_states_survive_a_restart(record, same_file, wanted, received, state):
    """The last word of management holds: disabled for good, enabled until the file is changed."""
    held = None if record is None else Record(record, 1, "digest")
    assert first_state(held, same_file, wanted, received) == state


def test_only_signed_documents_are_taken_where_a_key_is_configured(pump, brokers):
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    source = brokers.start("source")
    careful = brokers.start("careful", **listening(source, config_key=[public]))
    pump.until(lambda: careful.broker.context.alarms)
    assert "not signed" in careful.broker.context.alarms[-1]
    source._configurations.signing_key = key
    version = source.share({"spill_ms": 10})
    pump.until(lambda: careful.broker.version == version)
    assert careful.broker.config.spill_ms == 10


def test_a_lost_document_is_asked_for_again(pump, brokers, monkeypatch):
    """The keepalive tells of a version that never came; subscribing anew brings it."""
    monkeypatch.setattr(config_exchange, "ASK_AGAIN", 0.1)
    source = brokers.start("source")
    lossy = brokers.start("lossy", **listening(source))
    pump.until(lambda: ALL in lossy._configurations.seen.newest)
    take, lost = lossy._exchange.received, []

    def lose_one(frames: list[bytes]) -> None:
        if len(frames) > 2 and not lost:
            lost.append(frames)
        else:
            take(frames)

    for socket in lossy.sockets._sources:
        socket.on_message(lambda frames, origin: lose_one(frames))
    version = source.share({"spill_ms": 10})
    pump.until(lambda: lossy.broker.version == version)
    assert lost


def test_publications_are_told_apart():
    """Tell news, known and old publications apart, and the one that lies about a version."""
    seen = SeenPublications()
    true = Publication("net", "b1", 7, "JSON", b"{}")
    assert seen.judge(true) == "news"
    seen.take(true)
    assert seen.judge(true) == "known"
    assert seen.judge(Publication("net", "b1", 7)) == "known"
    assert seen.judge(Publication("net", "b1", 7, "JSON", b"[]")) == "conflict"
    assert seen.judge(Publication("net", "b1", 6, "JSON", b"{}")) == "old"
    assert seen.judge(Publication("net", "b1", 8)) == "news"
    assert seen.judge(Publication("net", "all", 1, "JSON", b"{}")) == "news"


def test_a_publication_survives_its_frames_and_a_signature_covers_all_of_it():
    key = Ed25519PrivateKey.generate()
    keys = [key.public_key().public_bytes_raw().hex()]
    said = Publication("net", "all", 7, "ZFL", b"a = 1\n").signed(key)
    assert parse(said.frames()) == said and said.is_signed_by(["00" * 32, *keys])
    for change in ({"scope": "b1"}, {"version": 8}, {"syntax": "XML"}, {"document": b"a = 2\n"}, {"network": "other"}):
        forged = Publication(**{n: getattr(said, n) for n in Publication.__slots__ if n != "__weakref__"} | change)
        assert not forged.is_signed_by(keys)


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"config/net/b1"],
        [b"config/net/b1", b"7"],
        [b"other/net/b1", b"\0" * 8],
        [b"config/net", b"\0" * 8],
        [b"\xff/net/b1", b"\0" * 8],
        [b"config/net/b1", b"\0" * 8, b"YAML", b""],
        [b"config/net/b1", b"\0" * 8, b"", b"x"],
        [b"config/net/b1", b"\0" * 8, b"JSON"],
    ],
    ids=len,
)
def test_what_is_no_publication(frames):
    with pytest.raises(NotAPublication):
        parse(frames)


# ------------------------------------------------------------------------------------- key files


def test_a_key_file_is_its_owners_alone(tmp_path):
    pair = Pair(*new_keys())
    path = tmp_path / "me.secret"
    public = write_pair(path, pair, "me")
    assert load_pair(path) == pair and pair.secret not in public.read_text()
    assert pair.secret not in repr(pair)
    path.chmod(0o640)
    with pytest.raises(KeyFault, match="chmod 600"):
        load_pair(path)


def test_a_faulty_key_authorizes_nobody_and_is_named(tmp_path):
    good = Pair(*new_keys())
    (tmp_path / "good.key").write_text(text_of(good, "", with_secret=False))
    (tmp_path / "any.key").write_text(text_of(Pair("a" * 40, ""), "*", with_secret=False))
    (tmp_path / "bad.key").write_text("curve\n    public-key = short\n")
    keys = AuthorizedKeys(tmp_path)
    assert keys.is_authorized(good.public) and keys.bound_to(good.public) == "good"
    assert keys.bound_to("a" * 40) is None and not keys.is_authorized("short")
    assert ["bad.key" in fault for fault in keys.faults] == [True]


# ------------------------------------------------------------------------------------------ HTTP


class Body(Protocol):
    """Collects a response."""

    def __init__(self) -> None:
        self.data, self.done = b"", Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def connectionLost(self, reason: Any = None) -> None:
        self.done.callback(self.data)


class Browser:
    def __init__(self, pump: Any, url: str) -> None:
        self._pump, self.url, self._agent = pump, url, Agent(pump.reactor)

    def fetch(self, path: str, method: str = "GET", password: str | None = PASSWORD, **headers: str) -> Any:
        """Return (status, headers, body) of a page."""
        given = Headers({name.replace("_", "-"): [value] for name, value in headers.items()})
        if password is not None:
            given.addRawHeader("Authorization", b"Basic " + base64.b64encode(f"op:{password}".encode()))
        response = self._pump.result(self._agent.request(method.encode(), (self.url + path).encode(), given))
        body = Body()
        response.deliverBody(body)
        return response.code, response.headers, self._pump.result(body.done)


@pytest.fixture
def browser(pump, brokers) -> Iterator[Browser]:
    broker = brokers.start(management=MANAGEMENT, http="127.0.0.1:0")
    front = FrontEnd(pump.reactor, broker)
    pump.result(maybeDeferred(front.startService))
    yield Browser(pump, broker.http.rstrip("/"))
    pump.result(maybeDeferred(front.stopService))


def test_the_page_and_its_json(browser):
    code, headers, body = browser.fetch("/")
    assert code == 200 and b"<h1>broker" in body
    assert "default-src 'none'" in headers.getRawHeaders("Content-Security-Policy")[0]
    code, _, body = browser.fetch("/api/status")
    assert (code, msgspec.json.decode(body)["data"]["identity"]) == (200, "broker")


def test_a_page_may_be_looked_at_more_often_than_passwords_be_tried(browser):
    assert [browser.fetch("/api/status")[0] for _ in range(8)] == [200] * 8
    tries = (browser.fetch("/api/status", password="wrong")[0] for _ in range(20))  # a slow machine is forgiven some
    assert 429 in tries


@pytest.mark.parametrize("password", [None, "wrong"])
def test_nothing_is_shown_without_the_password(browser, password):
    code, headers, body = browser.fetch("/api/config", password=password)
    assert code == 401 and headers.hasHeader("WWW-Authenticate") and b"frontend_port" not in body


@pytest.mark.adversary(66)
@pytest.mark.parametrize(
    "path, method, headers",
    [
        ("/api/disable", "POST", {"Origin": "http://evil.example"}),
        ("/api/disable", "POST", {"Origin": "null"}),
        ("/api/disable", "POST", {"Sec_Fetch_Site": "cross-site"}),
        ("/api/status", "GET", {"Host": "evil.example"}),
    ],
)
def test_pages_of_others_change_and_see_nothing(browser, path, method, headers):
    assert browser.fetch(path, method, **headers)[0] == 403


def test_nothing_changes_by_get(browser):
    assert browser.fetch("/api/disable")[0] == 404
    assert browser.fetch("/api/status", "POST")[0] == 404


def test_disable_and_enable_by_post(browser):
    assert browser.fetch("/api/disable", "POST")[0] == 200
    assert browser.fetch("/api/status")[0] == 503
    assert browser.fetch("/api/enable", "POST")[0] == 200
    assert browser.fetch("/api/status")[0] == 200


# ------------------------------------------------------------------------------------- scale0ctl


class Ctl:
    """Runs scale0ctl in a process of its own, while this one goes on serving."""

    def __init__(self, pump: Any, folder: Path) -> None:
        self._pump, self._folder = pump, folder
        (folder / "password").write_text(PASSWORD + "\n")

    def __call__(self, *arguments: str, broker: Any = None, stdin: str = "") -> tuple[int, str, str]:
        command = [sys.executable, "-W", "error", "-c", "from scale0.ctl import main; main()"]
        if broker is not None:
            command += ["--broker", broker.sockets.endpoints["frontend"], "--auth-id", "op"]
            command += ["--auth-password-file", str(self._folder / "password")]
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
        )
        process.stdin.write(stdin)
        process.stdin.close()
        self._pump.until(lambda: process.poll() is not None)
        with process:
            return process.returncode, process.stdout.read(), process.stderr.read()


@pytest.fixture
def ctl(pump, tmp_path):
    return Ctl(pump, tmp_path)


def test_scale0ctl_in_a_process_of_its_own(brokers, ctl):
    broker = brokers.start(management=MANAGEMENT)
    code, out, err = ctl("--output", "json", "status", broker=broker)
    assert (code, err, json.loads(out)["data"]["identity"]) == (0, "", "broker")


def test_scale0ctl_changes_a_broker_and_does_not_wait_for_ever(pump, brokers):
    broker = brokers.start(management=MANAGEMENT)
    settings = {
        "broker": broker.sockets.endpoints["frontend"],
        "auth_id": "op",
        "password": PASSWORD,
        "curve_key": None,
    }
    assert pump.result(ctl_module.ask(pump.reactor, settings | {"timeout": 5}, "disable"))["code"] == 200
    assert broker.broker.state == "disabled"
    with pytest.raises(ctl_module.CommandFailed, match="no answer"):
        pump.result(ctl_module.ask(pump.reactor, settings | {"timeout": 0.2}, "status"))


def test_scale0ctl_shows_tables_for_people():
    data = {"services": {"tea": [2, 1, 0], "equus.web-1": [1, 1, 10]}, "LRU": []}
    assert list(ctl_module._lines("services", data)) == [
        "SERVICE      WORKERS  IDLE  QUEUED",
        "tea          2        1     0",
        "equus.web-1  1        1     10",
    ]
    assert list(ctl_module._lines("config", {"identity": "b1", "services": ["a", "b"], "LRU": []})) == [
        'identity = "b1"',
        'services = "a"',
        'services = "b"',
    ]


def test_scale0ctl_makes_password_records_that_a_broker_takes(ctl):
    code, out, _ = ctl("password", stdin="secret\n")
    assert code == 0 and password_is_right(out.strip(), "secret")
    assert not password_is_right(out.strip(), "Secret")


def test_time_is_not_spent_on_passwords_in_the_reactor(pump, brokers, monkeypatch):
    """The broker runs scrypt in a thread, and answers others meanwhile."""
    found = threading.Event()
    monkeypatch.setattr(service_module, "password_is_right", lambda stored, given: found.wait(30.0))
    broker = brokers.start(management=MANAGEMENT)
    asked: Deferred[Any] = broker.manage(service_module.opt.ManagementReq("op", "x", "status"), LOCAL)
    pump.reactor.iterate(0)
    assert not found.is_set()
    assert not asked.called
    found.set()
    assert pump.result(asked)["code"] == 200
