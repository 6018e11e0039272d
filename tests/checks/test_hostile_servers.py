"""Test servers that send anything at all: the checks that speak a binary protocol report the fault, and never break."""

import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import helen_checks
from equus.authoring.test_cases import read_cases
from equus.authoring.test_runner import job_of
from equus.code.check_files import read_check_files
from equus.sandbox.blocking import Sandbox

FILES = read_check_files(Path(helen_checks.FOLDER))
ROUNDS = 40  # of each protocol; 700 with other seeds were run by hand


def streams(check: str) -> list[bytes]:
    """Return what good servers send, from the recorded tests beside the check: each case as one stream."""
    found = []
    for case in read_cases(FILES.tests(check)):
        answers = [one.reply.get("value") or {} for one in case.answers.get("tcp", ())]
        stream = b"".join(bytes.fromhex(one.get("received", "")) for one in answers)
        if stream:
            found.append(stream)
    return found


class Server:
    """Answers host.tcp with the pieces of one stream; numbers and sums are as good as random."""

    def __init__(self, stream: bytes, chance: random.Random) -> None:
        self._left, self._chance = stream, chance

    def __call__(self, name: str, args: list[Any]) -> dict[str, Any]:
        if name != "tcp":
            return {"value": self._chance.randbytes(32 if name != "crypto.random" else 18).hex()}
        answer: dict[str, Any] = {"address": "127.0.0.1", "seconds": 0.001, "received": "", "closed": False}
        if args[0].get("some"):
            size = self._chance.randrange(1, 400)
            piece, self._left = self._left[:size], self._left[size:]
            answer |= {"received": piece.hex(), "closed": not piece}
        return {"value": answer if answer["closed"] else answer | {"connection": 1}}


def mutated(stream: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some of them changed, put in or taken out, or cut off, or nothing but noise."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(200))
    data = bytearray(stream)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(data))
        deed = chance.randrange(4)
        if deed == 0:
            data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFE, 0xFF, chance.randrange(256)])
        elif deed == 1:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif deed == 2:
            del data[at : at + chance.randrange(1, 9)]
        else:
            del data[at:]
        data = data or bytearray(b"\0")
    return bytes(data)


@pytest.mark.parametrize("check", ["postgresql", "mysql"])
def test_anything_that_a_server_sends_is_a_verdict(check):
    """Any change of a server's bytes gives a verdict about the server, and no run crashes, hangs or runs out of
    memory.
    """
    chance, good = random.Random(4), streams(check)
    assert len(good) > 5
    args = json.dumps({"user": "watch", "password": "correct horse", "tls": "off"}).encode()
    documents: list[dict[str, Any]] = []
    with Sandbox(log=lambda _check, _text: None) as sandbox:
        for _ in range(ROUNDS):
            server = Server(mutated(chance.choice(good), chance), chance)
            sandbox.runner.run(job_of(FILES, check, args), lambda blob: documents.append(json.loads(blob)), server)
        sandbox.loop.until(lambda: len(documents) == ROUNDS, 120)
    broken = [one for one in documents if "reason" in one]
    assert broken == []
    assert {one["status"] for one in documents} <= {"ok", "warning", "critical", "unknown"}
    assert sum(one["status"] == "critical" for one in documents) > ROUNDS / 4


def sample_line(name: str, labels: dict[str, str], value: str) -> str:
    """Return a line of Prometheus' text format."""
    escaped = {key: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, text in labels.items()}
    inside = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    return f"{name}{{{inside}}} {value}" if labels else f"{name} {value}"


def test_every_sample_of_a_prometheus_page_is_found() -> None:
    """Each sample of a Prometheus page is found, whatever its name, labels and value are (F16)."""
    chance = random.Random(16)
    lines, expected = [], []
    for number in range(150):
        name = f"m{number}" + "".join(chance.choices("ab:_9", k=chance.randrange(140)))
        keys = [f"k{at}" + "y" * chance.choice([0, 70]) for at in range(chance.choice([0, 1, 2, 16, 17, 30]))]
        labels = {key: "".join(chance.choices('{}=,"\\ \nné#', k=chance.randrange(9))) for key in keys}
        value = chance.choice(["1", "-2.5e3", "+Inf", "-Inf", "NaN", "1e999", "0x10", "+7"])
        lines.append(sample_line(name, labels, value))
        expected.append((name.replace(":", ".")[:128], {key[:64]: labels[key] for key in keys[:16]}))
    page = {"status": 200, "reason": "OK", "body": "\n".join(lines), "truncated": False}
    args = json.dumps({"url": "http://x/", "names": ["*"], "most": 1000}).encode()
    found: list[dict[str, Any]] = []
    with Sandbox(log=lambda _check, _text: None) as sandbox:
        job = job_of(FILES, "prometheus_scrape", args)
        sandbox.runner.run(job, lambda blob: found.append(json.loads(blob)), lambda _name, _args: {"value": page})
        sandbox.loop.until(lambda: bool(found), 60)
    assert "reason" not in found[0], found[0]["summary"]
    assert [(one["name"], one.get("labels", {})) for one in found[0]["metrics"]] == expected


@contextlib.contextmanager
def mail_server(
    greeting: Sequence[bytes], extensions: Sequence[bytes], pause: float
) -> Iterator[tuple[int, list[bytes]]]:
    """Run a mail server that refuses a client which talks before its turn. Yield its port, and what it heard."""
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def send(connection: socket.socket, pieces: Sequence[bytes]) -> None:
        for piece in pieces[:-1]:
            connection.sendall(piece)
            time.sleep(pause)
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):  # the reply is not over, so nothing may have come
            heard.append(b"early: " + connection.recv(100))
            connection.sendall(b"521 you talk too soon\r\n")
            raise ConnectionAbortedError
        connection.settimeout(10)
        connection.sendall(pieces[-1])

    def serve() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            send(connection, greeting)
            heard.append(connection.recv(100))
            send(connection, extensions)
            heard.append(connection.recv(100))
            connection.sendall(b"221 bye\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        yield listener.getsockname()[1], heard
        thread.join(10)


@pytest.mark.parametrize(
    ("greeting", "extensions"),
    [
        ([b"220-mail.test please wait\r\n", b"220 mail.test ESMTP\r\n"], [b"250 mail.test\r\n"]),
        ([b"220-a\r\n220-", b"b\r\n220", b" c\r\n"], [b"250-mail.test\r\n", b"250-PIPELINING\r\n2", b"50 HELP\r\n"]),
        ([b"220 mail.test\r", b"\n"], [b"250-a\r\n250", b"-b\r\n250\r\n"]),
        ([b"220-mail.test\n220 x\n"], [b"250-a\n", b"250 b\n"]),
    ],
)
def test_a_mail_server_that_takes_its_time(greeting: list[bytes], extensions: list[bytes]) -> None:
    """The check sends nothing to a mail server before a reply is over, however its lines arrive (F28)."""
    with mail_server(greeting, extensions, 0.1) as (port, heard), Sandbox(log=lambda _check, _text: None) as sandbox:
        args = json.dumps({"host": "127.0.0.1", "port": port}).encode()
        document = json.loads(sandbox.run(job_of(FILES, "smtp", args)))
    assert document["status"] == "ok", document["summary"]
    assert heard == [b"EHLO monitoring.invalid\r\n", b"QUIT\r\n"]
