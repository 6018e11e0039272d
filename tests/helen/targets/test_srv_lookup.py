"""SRV records of a real name server, and of servers that send nothing, rubbish, and answers to other questions."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from servers import Home, free_port, program
from twisted.names import dns

from helen.targets.srv_lookup import servers_of

SCRIPT = Path(__file__).parents[2] / "stages" / "srv_asking.py"


class Answering:
    """A name server of one answer, made of the bytes of a question; None for silence."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
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


def message(question: bytes, *records: dns.RRHeader, code: int = 0) -> bytes:
    asked = dns.Message()
    asked.fromStr(question)
    made = dns.Message(asked.id, answer=1, rCode=code)
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


def _free_for_both() -> int:
    """A port that nobody has by TCP, nor by UDP: the servers above have some."""
    while True:
        port = free_port()
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, object]]:
    """What became of all questions: they are asked at once, in one process."""
    home, servers = Home(), {name: Answering(answer) for name, (answer, _) in ANSWERS.items()}
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
        yield {name: said[place] for name, place in places.items()}
    finally:
        for server in servers.values():
            server.end()
        home.close()


def test_a_real_server(found: dict[str, object]) -> None:
    assert sorted(found["real"]) == [["a.example.test", 80], ["b.example.test", 81]]  # type: ignore[call-overload]
    assert found["real, none"] == "there is no such name"


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str, found: dict[str, object]) -> None:
    """Each is records, or a fault in a sentence: nothing that a server sends raises anything else."""
    expected = ANSWERS[name][1]
    if expected is None:
        assert isinstance(found[name], str) and "answer" in str(found[name])
    elif isinstance(expected, str):
        assert str(found[name]).startswith(expected)
    else:
        assert found[name] == expected


def test_the_servers_of_this_machine() -> None:
    """The first three of resolv.conf; this machine itself where it names none."""
    text = "# x\nnameserver 10.0.0.1\nsearch a b\nnameserver fe80::1%eth0\nnameserver\n nameserver 10.0.0.3 x\n"
    assert servers_of(text + "nameserver 10.0.0.4") == [("10.0.0.1", 53), ("fe80::1", 53), ("10.0.0.3", 53)]
    assert servers_of("") == [("127.0.0.1", 53)]
