"""Tests ZAP requests, frame by frame, and what is answered."""

from __future__ import annotations

import pytest

from scale0.wire import zap
from scale0.wire.zap import Caller


def request(mechanism: bytes = b"NULL", *credentials: bytes, domain: bytes = b"backend") -> list[bytes]:
    return [b"1.0", b"7", domain, b"::ffff:10.0.0.1", b"", mechanism, *credentials]


KEY = bytes(range(32))
KEY_TEXT = zap.z85(KEY)


def test_z85_matches_the_example_of_the_rfc():
    assert zap.z85(bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])) == "HelloWorld"


def test_a_rule_sees_the_caller_and_its_word_is_passed_on():
    callers: list[Caller] = []
    rules = {"backend": lambda caller: bool(callers.append(caller)) or caller.mechanism == "CURVE"}
    assert zap.answer(request(b"CURVE", KEY), rules) == [b"1.0", b"7", b"200", b"", KEY_TEXT.encode(), b""]
    assert zap.answer(request(), rules) == [b"1.0", b"7", b"400", b"refused", b"", b""]
    assert callers == [Caller("backend", "10.0.0.1", "CURVE", KEY_TEXT), Caller("backend", "10.0.0.1", "NULL", "")]


def test_a_domain_without_a_rule_is_refused():
    assert zap.answer(request(domain=b"other"), {"backend": lambda caller: True})[2] == b"400"


@pytest.mark.parametrize("frames", [[], [b"1.0"], [b"2.0", *request()[1:]], request()[:5]], ids=len)
def test_what_is_no_request_is_answered_by_500(frames):
    assert zap.answer(frames, {"backend": lambda caller: True})[2] == b"500"


@pytest.mark.parametrize(
    "address, local",
    [
        ("127.0.0.1", True),
        ("127.200.3.4", True),
        ("::ffff:127.0.0.1", True),
        ("::1", True),
        ("localhost:0:0:123", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1", False),
        ("12.7.0.1", False),
    ],
)
def test_all_of_127_is_local(address, local):
    assert zap.is_local(address) is local
