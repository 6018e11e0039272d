"""Tests SRV records of a real name server, and of servers that send nothing, rubbish, or other answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from servers import Home, program
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.names import dns

from helen.targets import srv_lookup
from helen.targets.sources import Source
from helen.targets.srv_lookup import LONGEST, servers_of

SCRIPT = Path(__file__).parents[2] / "stages" / "srv_asking.py"


class Answering:
    """Is a name server of one answer, made of the bytes of a question; None for silence."""

    def __init__(self, answer: Callable[[bytes], bytes | None], port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self._answer = answer
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            question, place = self._socket.recvfrom(4_096)
            if not question:
                return
            answer = self._answer(question)
            if answer is not None:
                self._socket.sendto(answer, place)

    def end(self) -> None:
        self._socket.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(30.0)
        self._socket.close()


class AnsweringByTcp(Answering):
    """Is a name server with the answer by TCP; by UDP it is cut off. It counts questions, for one client at a time."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self._by_tcp, self.questions, self.ends = answer, 0, 0
        self._listener = socket.create_server(("127.0.0.1", port := _free_for_both()))
        self._thread_of_tcp = threading.Thread(target=self._listen, daemon=True)
        self._thread_of_tcp.start()
        super().__init__(lambda question: message(question, cut=True), port)

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client:
                    client.settimeout(30.0)
                    self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        while head := client.recv(2, socket.MSG_WAITALL):
            question = client.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
            self.questions += 1
            answer = self._by_tcp(question) if self.questions < 50 else None  # of a client that asks for ever
            if answer is not None:
                client.sendall(len(answer).to_bytes(2, "big") + answer)
        self.ends += 1

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread_of_tcp.join(30.0)
        super().end()


def message(question: bytes, *records: dns.RRHeader, code: int = 0, cut: bool = False) -> bytes:
    asked = dns.Message()
    asked.fromStr(question)
    made = dns.Message(asked.id, answer=1, rCode=code, trunc=cut)
    made.queries, made.answers = asked.queries, list(records)
    return made.toStr()


def record(payload: object, kind: int = dns.SRV) -> dns.RRHeader:
    return dns.RRHeader("_http._tcp.example.test", kind, dns.IN, 60, payload)


ANSWERS: dict[str, tuple[Callable[[bytes], bytes | None], object]] = {
    "silent": (lambda question: None, "no answer by 127.0.0.1 port"),
    "rubbish": (lambda question: question[:2] + b"\xff" * 300, None),
    "loops": (lambda question: question[:2] + b"\x84\x00\x00\x01\x00\x01\x00\x00\x00\x00\xc0\x0c" * 3, None),
    "no name": (lambda question: message(question, code=3), "there is no such name"),
    "refuses": (lambda question: message(question, code=5), "no answer that can be used: DNSQueryRefusedError"),
    "empty": (lambda question: message(question), []),
    "another kind": (lambda question: message(question, record(dns.Record_A("192.0.2.1"), dns.A)), []),
    "good": (lambda question: message(question, record(dns.Record_SRV(0, 0, 80, "web.example.test"))),
             [["web.example.test", 80]]),
    "odd": (lambda question: message(question, record(dns.Record_SRV(0, 0, 0, b"\xff.test"))), [["\ufffd.test", 0]]),
}  # fmt: skip


ANSWERS_BY_TCP: dict[str, tuple[Callable[[bytes], bytes | None], object]] = {
    "by TCP": ANSWERS["good"],
    "by TCP, cut off": (
        lambda question: message(question, cut=True),
        "no answer that can be used: ResolverError it is",
    ),
    "by TCP, silent": (lambda question: None, "no answer by 127.0.0.1 port"),
    "by TCP, rubbish": (lambda question: b"\xff" * 300, "no answer by 127.0.0.1 port"),
    "by TCP, no name": ANSWERS["no name"],
}


def _free_for_both() -> int:
    """Return a port that nobody has by TCP, nor by UDP: the servers above have some."""
    for _ in range(100):
        port = free_port()
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port of 100 is free by TCP and by UDP")


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, object]]:
    """Return the outcome of all questions: they are asked at once, in one process."""
    home, servers = Home(), {name: Answering(answer) for name, (answer, _) in ANSWERS.items()}
    by_tcp = {name: AnsweringByTcp(answer) for name, (answer, _) in ANSWERS_BY_TCP.items()}
    servers |= by_tcp
    try:
        folder, port = home.folder("dnsmasq"), _free_for_both()
        records = [
            f"--srv-host=_http._tcp.example.test,{host}.example.test,{at}" for host, at in (("a", 80), ("b", 81))
        ]
        real = home.start(
            program("dnsmasq", "dnsmasq-base"), "--keep-in-foreground", "--conf-file=/dev/null", f"--port={port}",
            "--listen-address=127.0.0.1", "--bind-interfaces", "--no-resolv", "--no-hosts", f"--pid-file={folder}/pid",
            "--user=", "--local=/example.test/", *records, folder=folder,
        )  # fmt: skip
        real.listening(port)
        places = {name: f"_http._tcp.example.test=127.0.0.1:{server.port}" for name, server in servers.items()}
        places |= {
            "real": f"_http._tcp.example.test=127.0.0.1:{port}",
            "real, none": f"x.example.test=127.0.0.1:{port}",
        }
        done = subprocess.run([sys.executable, SCRIPT, *places.values()], capture_output=True, timeout=60, check=True)
        said = json.loads(done.stdout)
        yield {name: said[place] for name, place in places.items()} | {
            "open": said["open"], "questions by TCP": {name: server.questions for name, server in by_tcp.items()},
        }  # fmt: skip
    finally:
        for server in servers.values():
            server.end()
        home.close()


def test_a_real_server(found: dict[str, object]) -> None:
    assert sorted(found["real"]) == [["a.example.test", 80], ["b.example.test", 81]]  # type: ignore[call-overload]
    assert found["real, none"] == "there is no such name"


@pytest.mark.parametrize("name", ANSWERS | ANSWERS_BY_TCP)
def test_answers(name: str, found: dict[str, object]) -> None:
    """An answer is records, or a fault in a sentence: nothing that a server sends raises anything else."""
    expected = (ANSWERS | ANSWERS_BY_TCP)[name][1]
    if expected is None:
        assert isinstance(found[name], str) and "answer" in str(found[name])
    elif isinstance(expected, str):
        assert str(found[name]).startswith(expected)
    else:
        assert found[name] == expected


def test_what_is_left_over(found: dict[str, object]) -> None:
    """Each server was asked by TCP once, and no connection is left open, not even one that was never answered."""
    assert found["questions by TCP"] == dict.fromkeys(ANSWERS_BY_TCP, 1)
    assert found["open"] == 0


def test_the_time_for_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time ends the look-up even if the resolver can't be ended; a later answer is dropped."""
    clock, closed, given = Clock(), list[bool](), list[Deferred[Any]]()

    class Stuck(srv_lookup._Resolver):
        def lookupService(self, name: str, timeout: Any = None) -> Any:
            given.append(Deferred(lambda cancelled: 1 / 0))
            return given[0]

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(srv_lookup, "_Resolver", Stuck)
    faults: list[str] = []
    asked = Deferred.fromCoroutine(srv_lookup.lookup(clock, Source(("a",), (), "x", ("127.0.0.1", 9))))
    asked.addErrback(lambda failure: faults.append(str(failure.value)))
    clock.advance(LONGEST - 0.1)
    assert (faults, closed) == ([], [])
    clock.advance(0.2)
    assert (faults, closed) == (["no answer by 127.0.0.1 port 9"], [True])
    given[0].callback(([], [], []))
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize(("server", "name"), [("127.0.0.1", "a" * 64), ("127.0.0.1", "é.x"), (":::", "_a._tcp.x")])
def test_a_question_that_cannot_be_asked(server: str, name: str) -> None:
    """A question that cannot be asked is a fault in a sentence, without a packet."""
    faults: list[str] = []
    asked = Deferred.fromCoroutine(srv_lookup.lookup(MemoryReactorClock(), Source(("a",), (), name, (server, 9))))
    asked.addErrback(lambda failure: faults.append(f"{failure.type.__name__}: {failure.value}"))
    (fault,) = faults
    assert fault.startswith("SourceFault: ")


def test_the_servers_of_this_machine() -> None:
    """The servers are the first three of resolv.conf, or this machine itself if it names none."""
    text = "# x\nnameserver 10.0.0.1\nsearch a b\nnameserver fe80::1%eth0\nnameserver\n nameserver 10.0.0.3 x\n"
    assert servers_of(text + "nameserver 10.0.0.4") == [("10.0.0.1", 53), ("fe80::1", 53), ("10.0.0.3", 53)]
    assert servers_of("") == [("127.0.0.1", 53)]
