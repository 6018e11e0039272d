"""Tests the schema of a broker's configuration: what is taken, and how faults are told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.config import config as cfg
from scale0.config import syntax, values
from scale0.config.config import ConfigFault
from scale0.config.schema import (
    NO_POLICY,
    STATES,
    BrokerConfig,
    Credential,
    Document,
    GroupConfig,
    Member,
    ServicePolicy,
)

LEAST = {"identity": "b1", "frontend_port": 5555, "backend_port": 5556}
RECORD = "scrypt$16384$8$1$" + "ab" * 16 + "$" + "cd" * 32


def load(tree: dict[str, Any], **options: Any) -> BrokerConfig:
    return cfg.load(msgspec.json.encode(LEAST | tree), "JSON", "file.json", **options)


def faults(document: bytes, form: str = "JSON") -> list[str]:
    with pytest.raises(ConfigFault) as caught:
        cfg.load(document, form, "file")
    return str(caught.value).splitlines()


def test_the_least_configuration_has_the_defaults_of_the_design():
    config = load({})
    assert (config.state, config.services, config.default_heartbeat_interval) == ("active", ("all",), 2.5)
    assert (config.spill_ms, config.max_skew, config.allow_plain_mdp, config.insecure) == (50, 30.0, True, False)
    assert ServicePolicy("*", True, 900.0) == NO_POLICY


SEED = """
identity = b1
frontend_port = 5555
backend_port = 5556
config_pub_port = 5557
config_sub_ports = tcp://10.0.0.2:5557
config_sub_ports = tcp://10.0.0.3:5557
state = joining
peers = tcp://10.0.0.2:5558
default_heartbeat_interval = 2.5
services = all
LRU
    services = tea
    last_heartbeat = 0
error_clients = 10.0.0.66
group = east
fallback_groups = west
group_config
    name = east
    brokers
        identity = b1
        services = all
"""


def test_every_name_of_the_seed_is_read():
    config = cfg.load(SEED.encode(), "ZFL", "seed.zfl")
    assert config == BrokerConfig(
        identity="b1",
        frontend_port=5555,
        backend_port=5556,
        config_pub_port=5557,
        config_sub_ports=("tcp://10.0.0.2:5557", "tcp://10.0.0.3:5557"),
        state="joining",
        peers=("tcp://10.0.0.2:5558",),
        error_clients=("10.0.0.66",),
        group="east",
        fallback_groups=("west",),
        group_config=(GroupConfig("east", (Member("b1"),)),),
    )


def test_both_spellings_of_the_preferred_broker():
    assert load({"preferred_broker": "b2"}) == load({"prefered_broker": "b2"})


identities = st.from_regex(values._IDENTITY, fullmatch=True).map(lambda text: text[:20])
endpoints = st.integers(1, 65_535).map(lambda port: f"tcp://10.0.0.1:{port}")
members = st.builds(Member, identities, st.just(("all",)), endpoints, endpoints, endpoints)
configs = st.builds(
    BrokerConfig,
    identity=identities,
    frontend_port=st.integers(1, 9_999),
    backend_port=st.integers(10_000, 19_999),
    config_sub_ports=st.lists(endpoints, max_size=3).map(tuple),
    state=st.sampled_from(STATES),
    default_heartbeat_interval=st.integers(1, 10_000).map(lambda n: n / 8),
    services=st.sampled_from([("all",), ("tea",), ("tea", "it's")]),
    group=st.sampled_from(["", "east"]),
    fallback_groups=st.sampled_from([(), ("west", "north")]),
    group_config=st.lists(members, max_size=2).map(lambda ms: (GroupConfig("east", tuple(ms)),)),
    management=st.sampled_from([(), (Credential('"op"', RECORD),)]),
    service_config=st.sampled_from([(), (ServicePolicy("tea", False, 2.5),)]),
    documents=st.sampled_from([(), (Document("manifest", "aGVsbG8="),)]),
    allow_plain_mdp=st.booleans(),
    insecure=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(configs)
def test_a_configuration_is_the_same_in_all_three_forms(config):
    for form in ("JSON", "XML", "ZFL"):
        assert cfg.load(syntax.write(cfg.dump(config), form), form) == config


FAULTS = {
    "a missing name": ({"identity": None}, "line 1: identity: is missing"),
    "a port that is none": ({"frontend_port": "eighty"}, "line 1: frontend_port: expected a port number, 0 to 65535"),
    "a port too high": ({"peer_port": 65_536}, "line 1: peer_port: expected a port number"),
    "a port below": ({"peer_port": -1}, "line 1: peer_port: expected a port number"),
    "no interval": ({"default_heartbeat_interval": 0}, "expected seconds, more than 0"),
    "an empty identity": ({"identity": ""}, "line 1: identity: expected 1 to 128 letters"),
    "a state of its own": ({"state": "on"}, "expected joining, active or disabled, not 'on'"),
    "a name misspelt": ({"frontend_prt": 1}, "frontend_prt: no such name; did you mean frontend_port?"),
    "a name within a tree": (
        {"group_config": [{"name": "east", "brokers": [{"identity": "x", "service": "all"}]}]},
        "group_config[0].brokers[0].service: no such name; did you mean services?",
    ),
    "a text for a tree": ({"group_config": "east"}, "expected a tree with name, brokers, not 'east'"),
    "a tree for a text": ({"group": {"name": "east"}}, "group: expected a single value, not a tree"),
    "two values for one": ({"group": ["east", "west"]}, "group: given 2 times; it has one value"),
    "an endpoint without port": ({"peers": ["tcp://10.0.0.1"]}, "peers: expected an endpoint such as"),
    "an endpoint beyond ports": ({"peers": ["tcp://10.0.0.1:70000"]}, "peers: expected an endpoint such as"),
    "a password in the clear": (
        {"management": [{"auth_id": "op", "auth_password": "secret"}]},
        "management[0].auth_password: expected scrypt$N$r$p$SALT$KEY",
    ),
    "a password that eats the machine": (
        {"management": [{"auth_id": "op", "auth_password": RECORD.replace("16384", "1048576")}]},
        "128*N*r at most",
    ),
    "mmi as a service": ({"services": ["mmi.mine"]}, "services: expected a service name"),
    "both kinds of quotes": ({"group": "both \" and '"}, "group: a value has single or double quotes, not both"),
    "two groups of one name": ({"group_config": [{"name": "e"}, {"name": "e"}]}, "two groups are named e"),
    "its own fallback": ({"group": "e", "fallback_groups": ["e"]}, "cannot be a fallback of itself"),
    "a port used twice": ({"peer_port": 5555}, "port 5555 is used twice"),
}


@pytest.mark.parametrize("change, message", FAULTS.values(), ids=FAULTS)
def test_a_fault_says_what_was_expected(change, message):
    tree = {name: value for name, value in (LEAST | change).items() if value is not None}
    found = faults(msgspec.json.encode(tree))
    assert any(message in line for line in found), found


def test_all_faults_are_told_each_with_its_line():
    document = (
        b'{\n "identity": "b1",\n "frontend_port": "x",\n "backend_port": 1,\n "services": ["ok",\n  "mmi.no"]\n}'
    )
    assert [line.partition(", not")[0].partition("expected")[0] for line in faults(document)] == [
        "file: line 3: frontend_port: ",
        "file: line 6: services[1]: ",
    ]


def test_one_port_for_both_is_allowed():
    assert load({"backend_port": 5555}).backend_port == 5555


def test_a_newer_network_may_have_names_that_we_do_not_know():
    """An unknown name is refused in a file, where it is a slip of the pen, and skipped in a document of the network."""
    with pytest.raises(ConfigFault, match="no such name"):
        load({"from_the_future": "x"})
    assert load({"from_the_future": "x"}, strict=False) == load({})


def test_a_shared_document_changes_shared_names_only():
    base = load({"group": "east", "spill_ms": 50})
    document = {"identity": "thief", "frontend_port": 1, "spill_ms": 10, "documents": [{"name": "m", "content": "x"}]}
    merged = cfg.overlay(base, msgspec.json.encode(document), "JSON", "topic")
    assert merged == load({"group": "east", "spill_ms": 10, "documents": [{"name": "m", "content": "x"}]})


def test_a_client_document_has_the_names_of_the_seed():
    config = load(
        {
            "group": "east",
            "fallback_groups": ["west"],
            "group_config": [{"name": n} for n in ("west", "east", "south")],
            "documents": [{"name": "manifest", "content": "x"}],
        }
    )
    frontend = cfg.client_document(config, "me", ["a"], backend=False)
    assert frontend == {
        "identity": "me",
        "services": ["a"],
        "group_config": [{"name": "east"}, {"name": "west"}],
        "prefered_broker": "b1",
    }
    backend = cfg.client_document(config, "me", ["a"], backend=True)
    assert backend == frontend | {"documents": [{"name": "manifest", "content": "x"}]}
