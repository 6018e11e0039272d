"""Servers that send anything at all: the checks that speak a binary protocol say what is wrong, and never break."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import helen_checks
from equus.check_files import read_check_files
from equus.sandbox.blocking import Sandbox
from equus.trial import job_of
from equus.trial_cases import read_cases

FILES = read_check_files(Path(helen_checks.FOLDER))
ROUNDS = 40  # of each protocol; 700 with other seeds were run by hand


def streams(check: str) -> list[bytes]:
    """What good servers send, from the recorded tests beside the check: each case as one stream."""
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
    """Bytes changed, put in, taken out; or cut off; or nothing but noise."""
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
    """No run crashes, hangs or eats its memory, whatever comes; what is said is about the server."""
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
