"""Test servers and programs that answer with anything: each check gives a verdict, and noise is never ok."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import helen_checks
from equus.authoring.test_cases import Case, Recording, read_cases
from equus.authoring.test_runner import job_of
from equus.code.check_files import read_check_files
from equus.sandbox.blocking import Sandbox

FILES = read_check_files(Path(helen_checks.FOLDER))
CHECKS = """
apcupsd backup bind ceph elasticsearch haproxy imap ipmi jolokia kafka kubernetes ldap libvirt lvm mongodb mqtt nats
nvidia_gpu openvpn php_fpm pop3 powerdns rabbitmq radius redfish smart sql_query unbound updates ups wireguard
""".split()
ROUNDS = 30  # of each check; 400 with other seeds were run by hand
TEXTS = ("body", "received", "text")  # what another side wrote, in the answers of host calls
NOISE = (
    "",
    "{}",
    "[]",
    "null",
    "7",
    "<html>ok</html>",
    "OK\r\n",
    '{"status":"ok"}',
    '[{"a":1}]',
    "\0\xff" * 40,
    "0\n" * 99,
)
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    1.5,
    10**30,
    -(10**30),
    "",
    "x",
    "1e999",
    "\0\r\n",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
)

# By check: names that a document of a good answer has, and without which nothing is known.
NEEDED = {
    "bind": ("version", "opcodes", "nsstats"),
    "ceph": ("health", "osdmap", "pgmap", "num_osds", "num_up_osds", "bytes_used", "bytes_total"),
    "elasticsearch": ("status", "number_of_nodes", "nodes", "heap_used_percent", "fs", "available_in_bytes"),
    "helen_self": ("agents", "known", "connected", "journal", "backlog", "notifications", "dead"),
    "jolokia": ("HeapMemoryUsage", "used", "max", "ThreadCount", "Uptime", "status", "OpenFileDescriptorCount"),
    "kubernetes": ("columnDefinitions", "name", "rows", "cells"),
    "lvm": (
        "report", "lv", "vg_name", "lv_name", "lv_attr", "data_percent", "metadata_percent", "lv_health_status",
    ),
    "nats": ("server_id", "connections", "max_connections", "slow_consumers", "max_storage", "storage", "memory"),
    "powerdns": ("name", "value"),
    "rabbitmq": ("rabbitmq_version", "name", "running", "mem_used", "mem_limit", "fd_used", "fd_total"),
    "redfish": ("RedfishVersion", "Members", "@odata.id"),
    "smart": ("smart_status", "passed"),
}  # fmt: skip

Change = Callable[[str], str]


def good_cases(check: str) -> list[Case]:
    """Return the recorded tests of a check that end well."""
    found = [case for case in read_cases(FILES.tests(check)) if case.expect["status"] == "ok"]
    assert found
    return found


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """Return one sandbox for all runs."""
    with Sandbox(log=lambda _check, _text: None) as made:
        yield made


def changed_reply(reply: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return the answer of a host call with what others wrote changed."""
    value = reply.get("value")
    if not isinstance(value, dict):
        return reply
    altered = {name: change(value[name]) for name in TEXTS if isinstance(value.get(name), str)}
    if "json" in value:  # host.program has parsed it, or found that it is no document
        try:
            altered["json"] = json.loads(change(json.dumps(value["json"])))
        except ValueError:
            return {"error": ("protocol", "the output of the program is not JSON")}
    return {"value": value | altered}


def verdicts(sandbox: Sandbox, check: str, runs: Sequence[tuple[Case, Change, Change]]) -> list[dict[str, Any]]:
    """Run the check once for each case, and return the documents; a change is for texts, the other for digits."""
    documents: dict[int, dict[str, Any]] = {}
    for number, (case, change, hexed) in enumerate(runs):
        recording = Recording(case)

        def answer(call: str, args: list[Any], recording: Recording = recording, both: Any = (change, hexed)) -> Any:
            in_digits = bool(args) and isinstance(args[0], dict) and args[0].get("hex", False)
            return changed_reply(recording.answer(call, args), both[in_digits])

        def done(blob: bytes, number: int = number) -> None:
            documents[number] = json.loads(blob)

        sandbox.runner.run(job_of(FILES, check, json.dumps(case.args).encode()), done, answer, case.now)
    sandbox.loop.until(lambda: len(documents) == len(runs), 120)
    return [documents[number] for number in range(len(runs))]


def spoiled(value: Any, chance: random.Random) -> Any:
    """Return the document with one part of it changed, taken out, or put in twice."""
    if isinstance(value, dict | list) and value and chance.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = chance.choice(keys)
        copy = value.copy()
        if chance.random() < 0.15:
            del copy[key]
        elif isinstance(copy, list) and chance.random() < 0.1:
            copy += copy
        else:
            copy[key] = spoiled(value[key], chance)
        return copy
    return chance.choice(ODD)


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some of them changed, put in or taken out, or cut off."""
    found = bytearray(data or b"\0")
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(found))
        found[at : at + chance.randrange(6)] = chance.choice(
            [b"", b"\0", b"\xff\xff", b"-1", b"999999999999", b"\r\n", chance.randbytes(3)]
        )
        if chance.random() < 0.1:
            del found[at:]
        found = found or bytearray(b"\0")
    return bytes(found)


def change_of(chance: random.Random) -> Change:
    """Return what changes a text; a document stays one most of the time."""

    def change(text: str) -> str:
        if chance.random() < 0.3:
            return text
        try:
            document = json.loads(text)
        except ValueError:
            return changed_bytes(text.encode(), chance).decode("utf-8", "replace")
        for _ in range(chance.randrange(1, 4)):
            document = spoiled(document, chance)
        return json.dumps(document)

    return change


def hexed(change: Callable[[bytes], bytes]) -> Change:
    """Return the change of bytes for a text of hexadecimal digits."""
    return lambda text: change(bytes.fromhex(text)).hex()


@pytest.mark.parametrize("check", CHECKS)
def test_whatever_is_answered_there_is_a_verdict(sandbox: Sandbox, check: str) -> None:
    """Any change of the answers gives a verdict: no run crashes, and none takes its time limit."""
    cases, runs = good_cases(check), []
    for number in range(ROUNDS):  # runs go side by side: each has a chance of its own
        chance = random.Random(f"{check} {number}")
        digits = hexed(lambda data, chance=chance: changed_bytes(data, chance))
        runs.append((chance.choice(cases), change_of(chance), digits))
    found = verdicts(sandbox, check, runs)
    assert [one for one in found if "reason" in one] == []
    assert {one["status"] for one in found} <= {"ok", "warning", "critical", "unknown"}


@pytest.mark.parametrize("check", CHECKS)
def test_noise_is_never_ok(sandbox: Sandbox, check: str) -> None:
    """Noise of another program is unknown or critical, and never ok."""
    case = good_cases(check)[0]
    runs = [(case, lambda _text, one=one: one, hexed(lambda _data, one=one: one.encode())) for one in NOISE]
    for noise, one in zip(NOISE, verdicts(sandbox, check, runs), strict=True):
        assert (one["status"] in ("unknown", "critical"), one.get("reason")) == (True, None), (noise, one)


def without(name: str) -> Change:
    """Return the change that takes a name and its value out of a document, wherever it stands."""

    def pruned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: pruned(inner) for key, inner in value.items() if key != name}
        return [pruned(inner) for inner in value] if isinstance(value, list) else value

    def change(text: str) -> str:
        try:
            return json.dumps(pruned(json.loads(text)))
        except ValueError:
            return text

    return change


@pytest.mark.parametrize("check", NEEDED)
def test_what_is_missing_is_never_ok(sandbox: Sandbox, check: str) -> None:
    """A document without a part that is judged is unknown or critical."""
    case = good_cases(check)[0]
    runs = [(case, without(name), str) for name in NEEDED[check]]
    for name, one in zip(NEEDED[check], verdicts(sandbox, check, runs), strict=True):
        assert (one["status"] in ("unknown", "critical"), one.get("reason")) == (True, None), (name, one)
