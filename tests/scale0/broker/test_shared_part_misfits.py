"""Tests that a configuration which the network's shared part does not fit is told, may be tried again, and hangs
nothing.
"""

from __future__ import annotations

import hashlib
import os
import time

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from scale0.broker.configurations import Configurations
from scale0.broker.management_requests import PENDING
from scale0.broker.startup import load_file
from scale0.config.config import ConfigFault
from scale0.documents.publication import ALL, Publication
from scale0.wire.options import ManagementReq
from scale0.wire.zap import Origin

PASSWORD = "correct horse"
RECORD = "scrypt$2$8$1$" + "ab" * 16 + "$" + hashlib.scrypt(PASSWORD.encode(), salt=b"\xab" * 16, n=2, r=8, p=1).hex()
KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
PUBLIC, OTHER_PUBLIC = (k.public_key().public_bytes_raw().hex() for k in (KEY, OTHER))
OPERATOR = Origin("", "")


def rewrite(path, **changes) -> None:
    tree = msgspec.json.decode(path.read_bytes()) | changes
    path.write_bytes(msgspec.json.encode(tree))
    os.utime(path, (time.time() + 5, time.time() + 5))


@pytest.fixture
def member(pump, brokers):
    """Return a broker that has the shared part of a source, which is not signed."""
    source = brokers.start("source", spill_ms=70)
    member = brokers.start(
        "member",
        management=[{"auth_id": "op", "auth_password": RECORD}],
        config_sub_ports=[source.sockets.endpoints["config_pub"]],
        network="scale0",
    )
    pump.until(lambda: member.broker.config.spill_ms == 70)
    return member


def ask(pump, broker, command: str) -> dict:
    return pump.result(broker.manage(ManagementReq("op", PASSWORD, command), OPERATOR))


def test_a_reload_that_the_shared_part_does_not_fit_is_answered(pump, member, tmp_path):
    """The answer to such a reload tells the reason and changes nothing, and management goes on however often it is
    asked for.
    """
    version = member.broker.version
    rewrite(tmp_path / "member.json", config_key=[PUBLIC])
    for _ in range(PENDING + 1):
        answer = ask(pump, member, "reload_config")
        assert answer["code"] == 400 and "not signed by any of `config_key`" in answer["message"]
    assert (member.broker.version, member.broker.config.config_key) == (version, ())
    assert not member.broker.management._pending
    assert ask(pump, member, "status")["code"] == 200
    rewrite(tmp_path / "member.json", config_key=[], spill_ms=5)
    assert ask(pump, member, "reload_config")["code"] == 200
    assert member.broker.version > version and member.broker.config.spill_ms == 70, "the shared part holds"


def test_a_file_that_was_refused_leaves_the_versions_as_they_were(pump, member, tmp_path):
    """A refused file leaves the part that was received before in force, and it is stored on."""
    before = member._configurations.record("active")
    rewrite(tmp_path / "member.json", config_key=[PUBLIC])
    assert ask(pump, member, "reload_config")["code"] == 400
    assert member._configurations.record("active") == before


def whole(version: int, **changes: object) -> Publication:
    """Return a configuration for the broker `b1` alone, signed by KEY."""
    tree = {"identity": "b1", "frontend_port": 0, "backend_port": 0, "config_sub_ports": ["tcp://127.0.0.1:9"]}
    return Publication("scale0", "b1", version, "JSON", msgspec.json.encode(tree | changes)).signed(KEY)


@pytest.fixture
def configurations(tmp_path):
    """Return the configurations of `b1`, which trusts KEY and holds a shared part that KEY has signed."""
    tree = {"identity": "b1", "frontend_port": 0, "backend_port": 0, "config_sub_ports": ["tcp://127.0.0.1:9"]}
    (tmp_path / "b1.json").write_bytes(msgspec.json.encode(tree | {"config_key": [PUBLIC]}))
    held = Configurations(load_file(tmp_path / "b1.json"), None, None)
    shared = Publication("scale0", ALL, 5, "JSON", b'{"spill_ms": 7}').signed(KEY)
    held.config = held.accept(shared, held.read(shared, held.config))
    return held


@pytest.mark.parametrize("shared", [b'{"spill_ms": 9}', b'{"max_skew": 12.5, "spill_ms": 9}'])
def test_a_whole_configuration_comes_into_force_once_the_shared_part_fits(configurations, shared):
    """A configuration that names another key waits until a shared part fits it, and is news again after that one."""
    new = whole(10**15, config_key=[OTHER_PUBLIC])
    for _ in range(2):
        assert configurations.judge(new) == "news"
        with pytest.raises(ConfigFault, match="not signed"):
            configurations.accept(new, configurations.read(new, configurations.config))
    fits = whole(10**15, config_key=[PUBLIC, OTHER_PUBLIC])
    config = configurations.accept(fits, configurations.read(fits, configurations.config))
    assert (config.config_key, config.spill_ms) == ((PUBLIC, OTHER_PUBLIC), 7)
    next_shared = Publication("scale0", ALL, 6, "JSON", shared).signed(OTHER)
    config = configurations.accept(next_shared, configurations.read(next_shared, config))
    moved = whole(10**15 + 1, config_key=[OTHER_PUBLIC])
    config = configurations.accept(moved, configurations.read(moved, config))
    assert (config.config_key, config.spill_ms) == ((OTHER_PUBLIC,), 9)
    assert configurations.judge(moved) == "known"


def test_a_configuration_that_does_not_fit_is_told_once_and_tried_again(pump, member):
    """A misfit is told once, as it comes again with each subscription and would drown all other alarms."""
    exchange, alarms = member._exchange, member.broker.context.alarms
    tree = {"identity": "member", "frontend_port": 0, "backend_port": 0, "config_key": [PUBLIC]}
    new = Publication("scale0", "member", 10**15, "JSON", msgspec.json.encode(tree)).signed(KEY)
    for _ in range(5):
        exchange.received(new.frames())
    pump.until(lambda: alarms)
    assert len(alarms) == 1 and "not signed" in alarms[0]
    assert member.broker.config.config_key == ()
    shared = Publication("scale0", ALL, 10**15, "JSON", b'{"spill_ms": 9}').signed(KEY)
    exchange.received(shared.frames())
    exchange.received(new.frames())
    pump.until(lambda: member.broker.config.config_key == (PUBLIC,))
    assert member.broker.config.spill_ms == 9
