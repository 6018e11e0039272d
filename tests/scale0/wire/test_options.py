"""Tests the options of commands at their limits: what is taken, and with which code the rest is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scale0.wire import options
from scale0.wire.options import MAX_OPTIONS, Fault

REQUEST = {"id": "1", "service": "tea"}


def refusal(raw: bytes, command: str = "REQUEST", version: int = 1) -> tuple[int, str]:
    with pytest.raises(Fault) as caught:
        options.decode(command, raw, version)
    return caught.value.code, caught.value.reason


def text(**more: Any) -> bytes:
    return json.dumps(REQUEST | more).encode()


@pytest.mark.parametrize("more", [{"timeout_ms": 1}, {"timeout_ms": 86_400_000}, {"id": "x" * 255}, {"service": "t"}])
def test_options_at_their_limits_are_taken(more: dict[str, Any]) -> None:
    decoded = options.decode("REQUEST", text(**more))
    assert {name: getattr(decoded, name) for name in more} == more


@pytest.mark.parametrize("more", [{"timeout_ms": 0}, {"timeout_ms": 86_400_001}, {"id": "x" * 256}, {"id": ""}])
def test_beyond_their_limits_they_are_malformed(more: dict[str, Any]) -> None:
    assert refusal(text(**more)) == (400, "malformed")


def test_options_that_are_too_long_are_told_so() -> None:
    padding = MAX_OPTIONS - len(text(more=""))
    assert options.decode("REQUEST", text(more="x" * padding)).id == "1"
    assert refusal(text(more="x" * (padding + 1))) == (413, "too_large")


def test_other_versions_and_commands_are_refused() -> None:
    assert refusal(text(), version=2) == (426, "version")
    assert refusal(text(), command="TEAPOT") == (400, "malformed")


# ------------------------------------------------------------------- each field at both sides of its limit

CHECK = {"identity": "me", "services": [], "config_type": "JSON"}
READY = {"services": [], "heartbeat": True, "time": 1.5, "config_version": "7"}
BEAT = {"time": 1.0, "config_version": "1"}
FORWARD = {"id": "1", "service": "tea", "path": ["b2"]}
TABLE = {"seq": 1, "full": True, "digest": "0", "entries": {}}
MANAGE = {"auth_id": "op", "auth_password": "", "command": "status"}
PUBLISH = {"name": "doc", "version": 1}
MOST = 2**63 - 1
SEAL, TOKEN = "s" * 128, "t" * 128
LIMITS: list[tuple[str, dict[str, Any], str, list[Any], list[Any]]] = [  # command, the rest, field, good, bad
    ("CHECKCONFIG", CHECK, "identity", ["x", "x" * 255], ["", "x" * 256, 5]),
    ("CHECKCONFIG", CHECK, "config_type", ["JSON", "XML", "ZFL"], ["YAML", ""]),
    ("CHECKCONFIG", CHECK, "config_version", ["0", "9" * 20], ["", "9" * 21, "1a", "-1", "1\n"]),
    ("CHECKCONFIG", CHECK, "role", ["", "frontend", "backend", "peer"], ["broker"]),
    ("CHECKCONFIG", CHECK, "hbeatinterval", [None, 0.001, 0.5, 3600], [0, -1, 3600.5, 3601]),
    ("CHECKCONFIG", CHECK, "token", ["", TOKEN], [TOKEN + "t"]),
    ("CHECKCONFIG", CHECK, "services", [[], [""], ["x" * 255], ["a"] * 20_000], [["x" * 256], ["a"] * 20_001, "a"]),
    ("READY", READY, "concurrency", [1, 1000], [0, 1001]),
    ("READY", READY, "seals", [{}, {"a": SEAL}], [{"a": SEAL + "s"}]),
    ("SERVICES", {}, "seq", [0, 1, MOST], [-1]),
    ("REQUEST", REQUEST, "priority", [0, 9], [-1, 10]),
    ("REQUEST", REQUEST, "idempotent", [None, True, False], [1]),
    ("REQUEST", REQUEST, "service", ["x" * 255], ["", "x" * 256]),
    ("FINAL", {"id": "1"}, "code", [100, 999], [99, 1000]),
    ("PARTIAL", {"id": "1"}, "reason", ["", "r" * 255], ["r" * 256]),
    ("MANAGEMENTREQ", MANAGE, "auth_id", ["", "x" * 255], ["x" * 256]),
    ("MANAGEMENTREQ", MANAGE, "auth_password", ["", "x" * 1024], ["x" * 1025]),
    ("MANAGEMENTREQ", MANAGE, "command", ["", "x" * 64], ["x" * 65]),
    ("MANAGEMENTREQ", MANAGE, "key", ["", "x" * 255], ["x" * 256]),
    ("NEEDBROKER", {}, "failed", [[], ["b"] * 1000], [["b"] * 1001]),
    ("NEEDBROKER", {}, "identity", ["", "x" * 255], ["x" * 256]),
    ("FORWARD", FORWARD, "path", [[], ["b"] * 64], [["b"] * 65]),
    ("FORWARD", FORWARD, "deadline", [0, 0.5, 1e9], [-0.5]),
    ("FORWARD", FORWARD, "priority", [0, 9], [-1, 10]),
    ("TABLE", TABLE, "entries", [{}, {"a": [0, 0, 0]}], [{"a": [1, 1]}, {"a": [1, 1, 1, 1]}, {"a": [-1, 0, 0]}]),
    ("TABLE", TABLE, "seq", [0, 5], [-1]),
    ("TABLEREQ", {}, "since", [0, 5], [-1]),
    ("PUBLISH", PUBLISH, "name", ["a", "0", "a" * 64, "a.b_c-d"], ["", "a" * 65, "A", ".a", "a\n"]),
    ("PUBLISH", PUBLISH, "version", [1, MOST], [0, MOST + 1]),
    ("PUBLISH", PUBLISH, "signature", ["", "f" * 128], ["f" * 129]),
    ("DOCUMENTS", {}, "have", [{}, {f"d{n}": [1, ""] for n in range(256)}], [{f"d{n}": [1, ""] for n in range(257)}]),
    ("DOCUMENTS", {}, "have", [{"a": [MOST, "x"]}], [{"a": [0, "x"]}, {"A": [1, "x"]}, {"a": [1]}]),
    ("CONFIG", {}, "config_version", ["0", "7"], ["", "x"]),
]  # fmt: skip


@pytest.mark.parametrize(
    "command, rest, field, good, bad", LIMITS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_field_is_taken_up_to_its_limit_and_no_further(command, rest, field, good, bad, monkeypatch) -> None:
    monkeypatch.setattr(options, "MAX_OPTIONS", 1 << 20)
    for value in good:
        told = options.decode(command, json.dumps(rest | {field: value}).encode())
        assert json.loads(options.encode(getattr(told, field))) == value
    for value in bad:
        code, reason = refusal(json.dumps(rest | {field: value}).encode(), command)
        assert (code, reason) == (400, "malformed")


DEFAULTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("CHECKCONFIG", CHECK, {"config_version": "0", "role": "", "hbeatinterval": None, "time": None, "token": ""}),
    ("READY", READY, {"hbeatinterval": None, "concurrency": 1, "epochs": {}, "seals": {}}),
    ("SERVICES", {}, {"add": [], "remove": [], "seq": 0, "epochs": {}, "seals": {}, "holders": {}}),
    ("HEARTBEAT", BEAT, {"state": "", "seq": -1, "digest": "", "broker": "", "documents": ""}),
    ("REQUEST", REQUEST, {"timeout_ms": None, "priority": 4, "idempotent": None}),
    ("FINAL", {"id": "1"}, {"code": 200, "reason": "", "refused": False}),
    ("NEEDBROKER", {}, {"identity": "", "services": [], "failed": []}),
    ("FORWARD", FORWARD, {"deadline": 0.0, "priority": 4, "idempotent": None}),
    ("TABLE", TABLE, {"holders": {}, "seals": {}, "part": 0, "parts": 1}),
    ("TABLEREQ", {}, {"since": 0}),
    ("PUBLISH", PUBLISH, {"type": "JSON", "signature": ""}),
    ("PUBLISHED", {"name": "a"}, {"version": 0, "verdict": "", "reason": ""}),
    ("DOCUMENTS", {"have": {}}, {"want": False}),
    ("CONFIGACK", {"config_version": "1"}, {"config_type": "JSON", "digest": "", "time": 0.0, "hbeatinterval": 0.0}),
    ("DISCONNECTERROR", {"code": 400}, {"message": "", "reason": "", "retry_after_ms": 0}),
]


@pytest.mark.parametrize("command, given, others", DEFAULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_left_out_has_its_default(command, given, others) -> None:
    told = options.decode(command, json.dumps(given).encode())
    assert {name: getattr(told, name) for name in others} == others
    for name in given:
        left = {key: value for key, value in given.items() if key != name}
        assert refusal(json.dumps(left).encode(), command) == (400, "malformed"), name


def test_no_options_and_unknown_ones_are_read_over() -> None:
    assert options.decode("DISCONNECT", b'{"new": [1]}') == options.Nothing()
    assert options.decode("MANAGEMENTREP", b"{}", commands=options.TO_CLIENT) == options.Nothing()


def test_refusals_say_what_is_wrong_and_are_short() -> None:
    def message(raw: bytes, command: str = "REQUEST", version: int = 1) -> str:
        with pytest.raises(Fault) as caught:
            options.decode(command, raw, version)
        assert str(caught.value) == caught.value.message
        return caught.value.message

    assert message(b"{}", version=0) == "version 0 of SCALE0 is not spoken here; version 1 is"
    assert message(b"{}", "TEA") == "no such command: TEA"
    assert message(b" " * 65_537) == "options have at most 65536 bytes; put larger things into the body"
    assert message(b"{}") == "options of REQUEST: Object missing required field `id`"
    assert message(b'{"a":' + b"[" * 60_000) == "options of REQUEST: nested too deep"
    assert (
        len(
            message(json.dumps({"config_type": "x" * 900} | CHECK | {"config_type": "x" * 900}).encode(), "CHECKCONFIG")
        )
        <= 200 + 24
    )


def test_options_without_a_class_are_an_object() -> None:
    assert options.decode_any(b'{"a": [1, null]}') == {"a": [1, None]}
    for raw, why in ((b"[1]", "options are a JSON object"), (b"{", "options: Input data was truncated")):
        with pytest.raises(Fault) as caught:
            options.decode_any(raw)
        assert (caught.value.code, caught.value.reason, caught.value.message) == (400, "malformed", why)
    with pytest.raises(Fault, match="nested too deep"):
        options.decode_any(b"[" * 20_000)


def test_names_that_a_worker_may_not_offer() -> None:
    options.check_service_names(["tea", "mmi", "x" * 255])
    for name, code, reason, why in (
        ("mmi.x", 403, "not_allowed", "mmi.x: mmi.* is answered by the broker itself"),
        ("\n" + "x" * 99, 400, "malformed", "no service name: " + repr("\n" + "x" * 63)),
        ("", 400, "malformed", "no service name: ''"),
    ):
        with pytest.raises(Fault) as caught:
            options.check_service_names(["tea", name])
        assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, why)
