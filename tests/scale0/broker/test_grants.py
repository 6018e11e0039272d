"""Tests what is Helen's in the network: who may offer it, who may ask for it, and from which broker it is believed."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen
from scale0_stage import Stage, broker_config, member

from groundwork.authority import ROLES, SCOPES
from scale0.broker import grants
from scale0.broker.grants import Grants
from scale0.config.keys import KeyEntry
from scale0.config.schema import GroupConfig
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.zap import Origin

RESERVED = ("equus.web-1", "helen", "helen.h1", "zerotask.broker")
PLAIN = ("echo", "titanic.request", "equus", "helena", "zerotask.brokers", "equusweb")
B2 = "b" * 40


def keys(entries: dict[str, KeyEntry]) -> Grants:
    return Grants(entries.get)


class Peers(Stage):
    """Gives each peer a key that is its name, unless another one is given."""

    def __init__(self, allowed: Grants, **config: Any) -> None:
        super().__init__(broker_config(**config))
        self.broker.context.grants = allowed

    def say(self, name: str, port: str, command: str, /, *body: bytes, key: str | None = None, **options: Any) -> None:
        origin = Origin("127.0.0.1", name if key is None else key)
        self.hear((port, name.encode()), *wire.scale0(S0, command, opt.encode(options), body), origin=origin)

    def ready(self, name: str, *services: str, key: str | None = None, token: str = "", **more: Any) -> Any:
        """Return the refusal of a worker that offers this, None if there is none."""
        named = {"identity": name, "services": [], "config_type": "JSON", "token": token}
        self.say(name, "backend", "CHECKCONFIG", key=key, **named)
        options = {"heartbeat": True, "time": self.wall, "config_version": "7", "services": list(services)}
        self.say(name, "backend", "READY", key=key, **options | more)
        told = self.told(("backend", name.encode()))
        return next((o for command, o, _ in told if command == "DISCONNECTERROR"), None)

    def ask(self, name: str, service: str, key: str | None = None) -> Any:  # type: ignore[override]
        """Return code and reason of the answer; None while there is none."""
        self.say(name, "frontend", "REQUEST", b"disk", key=key, id="r", service=service)
        told = self.told(("frontend", name.encode()))
        return next(((o["code"], o.get("reason")) for command, o, _ in told if command == "FINAL"), None)

    def has(self, service: str) -> bool:
        return service in self.broker.routing.pool


@pytest.mark.parametrize("service", RESERVED)
@pytest.mark.parametrize("role", ["", *ROLES])
def test_a_key_offers_what_its_roles_allow(service: str, role: str) -> None:
    """`equus.*` and `helen*` are for Helens, and the broker of tasks for its own role as well (F38)."""
    peers = Peers(keys({"k": KeyEntry("k", (role,) if role else ())}))
    refused = peers.ready("k", "echo", service)
    may = role == "helen" or (role == "zerotask" and service == "zerotask.broker")
    assert peers.has(service) is may
    assert refused is None if may else (refused["code"], refused["reason"]) == (403, "not_allowed")


@pytest.mark.parametrize("service", PLAIN)
def test_all_other_services_stay_as_they_are(service: str) -> None:
    """Other services are offered and asked for with a key that has no role, and without CURVE."""
    for allowed, key in ((keys({"k": KeyEntry("k")}), None), (Grants(), ""), (Grants(token="t"), "")):
        peers = Peers(allowed)
        assert peers.ready("k", service, key=key) is None
        assert peers.ask("c", service, key=key) is None


@pytest.mark.parametrize("service", RESERVED[:3])
@pytest.mark.parametrize("delta", [False, True])
def test_without_curve_nothing_of_helens_is_offered(service: str, delta: bool) -> None:
    """Without CURVE no service of Helen's is taken by READY, by SERVICES or from a Majordomo worker (F38)."""
    peers = Peers(Grants())
    if not delta:
        assert peers.ready("k", service, key="")["code"] == 403
    else:
        assert peers.ready("k", "echo", key="") is None
        peers.say("k", "backend", "SERVICES", key="", add=[service], seq=1)
        assert peers.told(("backend", b"k"))[-1][1]["code"] == 403
    for head in ([b"", b"MDPW01"], [b"MDPW02"], [b"", b"MDPW02"]):
        peers.hear(("backend", b"m".join(head)), *head, b"\1", service.encode())
    assert not peers.has(service)
    assert "may not offer" in " ".join(peers.broker.context.alarms)


def test_the_broker_of_tasks_in_a_helen_is_hers() -> None:
    """A standing broker without keys has plain tasks alone, so that there it is a service like others."""
    assert Peers(Grants()).ready("k", "zerotask.broker", key="") is None
    hosted = Peers(Grants(token="secret"))
    for token in ("", "secre", "secret2"):
        assert hosted.ready(f"k{token}", "zerotask.broker", key="", token=token)["code"] == 403
    assert hosted.ready("own", *RESERVED, key="", token="secret") is None


@pytest.mark.parametrize("service", ["equus.web-1", "helen", "helen.h1"])
@pytest.mark.parametrize("role", ["", *ROLES])
def test_who_may_ask(service: str, role: str) -> None:
    """A question to an agent takes `operate` as at the API, and one to a Helen `read` (F37)."""
    peers = Peers(keys({"h": KeyEntry("h", ("helen",)), "c": KeyEntry("c", (role,) if role else ())}))
    assert peers.ready("h", service) is None
    scope = "operate" if service.startswith("equus.") else "read"
    may = bool(role) and scope in ROLES[role]
    assert peers.ask("c", service) == (None if may else (403, "not_allowed"))


def test_a_client_without_a_key_asks_no_agent() -> None:
    """A Scale0 client without a key is told; Majordomo's is dropped, as for every error."""
    peers = Peers(Grants(token="secret"))
    assert peers.ready("own", "equus.web-1", key="", token="secret") is None
    assert peers.ask("c", "equus.web-1", key="") == (403, "not_allowed")
    peers.hear(("frontend", b"m"), b"", b"MDPC01", b"equus.web-1", b"disk")
    assert peers.told(("backend", b"own")) == [] and peers.broker.context.counts["not_allowed"] == 2


def test_a_key_may_be_narrowed() -> None:
    """A key that names patterns of services may offer these and no others, a Helen's key too."""
    peers = Peers(keys({"k": KeyEntry("k", ("helen",), ("helen*", "equus.web-*"))}))
    assert peers.ready("k", "helen", "helen.k", "equus.web-1") is None
    assert "not among" in peers.ready("k", "equus.db-1")["message"]


@pytest.mark.parametrize("ahead", [31.0, 3600.0, 2**50])
def test_an_attachment_that_is_to_come_is_refused(ahead: float) -> None:
    """An epoch of the future is refused, since it would hold the agent for ever (F38)."""
    peers = Peers(keys({"h1": KeyEntry("h1", ("helen",)), "h2": KeyEntry("h2", ("helen",))}))
    now = int(1000 * peers.wall)
    assert peers.ready("h1", "equus.web-1", epochs={"equus.web-1": now}) is None
    refused = peers.ready("h2", "equus.web-1", epochs={"equus.web-1": now + int(1000 * ahead)})
    assert (refused["code"], refused["reason"]) == (422, "clock_skew")
    peers.ready("h2", epochs={})
    peers.say("h2", "backend", "SERVICES", add=["equus.web-1"], seq=1, epochs={"equus.web-1": 2**50})
    assert [w.address[1] for w in peers.broker.routing.pool.workers("equus.web-1")] == [b"h1"]


def test_a_worker_learns_from_whom_its_service_was_taken() -> None:
    """The worker is told the holder, its epoch and its seal, as that holder has sent it; the broker reads no seal."""
    peers = Peers(keys({"h1": KeyEntry("h1", ("helen",)), "h2": KeyEntry("h2", ("helen",))}))
    now = int(1000 * peers.wall)
    assert peers.ready("h1", "equus.web-1", epochs={"equus.web-1": now}, seals={"equus.web-1": "old"}) is None
    peers.ready("h2", "equus.web-1", epochs={"equus.web-1": now + 5}, seals={"equus.web-1": "new"})
    (told,) = [o for command, o, _ in peers.told(("backend", b"h1")) if command == "SERVICES"]
    assert told["remove"] == ["equus.web-1"] and told["holders"] == {"equus.web-1": ["h2", now + 5]}
    assert told["seals"] == {"equus.web-1": "new"}


@frozen
class As:
    """Describes a peer broker: its key, and whether the configuration names it."""

    key: str
    is_named: bool


@pytest.mark.parametrize("peer", [As("", False), As("x" * 40, False), As(B2, True)], ids=["NULL", "a key", "named"])
def test_only_a_broker_of_the_network_speaks_for_helens(peer: As) -> None:
    """Other brokers pass on no request for an agent, and take none away by their tables (F38)."""
    group = GroupConfig("g", (member("b1"), member("b2", public_key=B2 if peer.is_named else "")))
    peers = Peers(keys({"h1": KeyEntry("h1", ("helen",)), "x" * 40: KeyEntry("b2")}), group="g", group_config=(group,))
    epoch = int(1000 * peers.wall)
    assert peers.ready("h1", "equus.web-1", "echo", epochs={"equus.web-1": epoch}) is None
    named = {"identity": "b2", "services": [], "config_type": "JSON", "role": "peer"}
    peers.say("b2", "peer", "CHECKCONFIG", key=peer.key, **named)
    at = ("peer", b"b2")
    peers.take(at)
    for service in ("equus.web-1", "echo"):
        forward = {"id": "00", "service": service, "path": ["b2"], "deadline": 1000, "priority": 4, "idempotent": True}
        forward["asked_by"] = "of-c"
        peers.say("b2", "peer", "FORWARD", b"x", key=peer.key, **forward)
    codes = [o["code"] for command, o, _ in peers.told(at) if command == "FINAL"]
    assert codes == ([] if peer.is_named else [403])
    asked = {
        o["service"]: o.get("asked_by") for command, o, _ in peers.told(("backend", b"h1")) if command == "REQUEST"
    }
    assert asked.get("equus.web-1") == ("of-c" if peer.is_named else None)
    table = {"seq": 1, "full": True, "digest": "", "entries": {"equus.web-1": [1, 1, 0]}}
    peers.say("b2", "peer", "TABLE", key=peer.key, **table, holders={"equus.web-1": ["h2", epoch + 1]})
    assert peers.has("equus.web-1") is not peer.is_named


@pytest.mark.parametrize("role", ["", *SCOPES, "helen"])
def test_only_a_helen_publishes_documents(role: str) -> None:
    """Check sets, keys and agents: what Helens share."""
    peers = Peers(keys({"k": KeyEntry("k", (role,) if role else ())}))
    peers.ready("k", "echo")
    peers.say("k", "backend", "PUBLISH", b"{}", name="checks", version=1)
    ((_, told, _),) = [each for each in peers.told(("backend", b"k")) if each[0] == "PUBLISHED"]
    assert told["verdict"] == ("news" if role == "helen" else "refused")


def test_open_means_open() -> None:
    """Allow everything to every peer under --insecure-network, which is for trials."""
    peers = Peers(grants.OPEN)
    assert peers.ready("k", *RESERVED, key="") is None
    assert peers.ask("c", "equus.web-1", key="") is None


def test_what_is_not_allowed_is_counted_and_said_once() -> None:
    """Refused workers and requests of both dialects are counted; one alarm is told for each worker."""
    peers = Peers(keys({}))
    for _ in range(2):
        assert peers.ready("w", "helen")["code"] == 403
    counts, alarms = peers.broker.context.counts, peers.broker.context.alarms
    assert counts["not_allowed"] == 2 and len(alarms) == 1 and alarms[0].startswith("w may not offer what it offers: ")
    for _ in range(2):
        peers.hear(("backend", b"p"), b"MDPW02", b"\1", b"helen", origin=Origin("127.0.0.1", ""))
    assert counts["not_allowed"] == 4 and len(alarms) == 2 and "a Majordomo worker at 127.0.0.1 may not" in alarms[1]
    assert peers.ask("c", "helen") == (403, "not_allowed") and counts["not_allowed"] == 5
    peers.hear(("frontend", b"q"), b"MDPC02", b"\1", b"helen", b"x", origin=Origin("127.0.0.1", ""))
    assert counts["not_allowed"] == 6 and peers.take(("frontend", b"q")) == []
    assert counts["refused"] == 1 and counts["errors"] == 1


def test_helens_hear_who_asks() -> None:
    """A Helen is told who asks by the words of the broker, for its audit; other services are told nothing."""
    peers = Peers(keys({"h1": KeyEntry("h1", ("helen",)), "c": KeyEntry("of-c", ("operate",))}))
    assert peers.ready("h1", "equus.web-1", "helen.h1", "echo", concurrency=9) is None
    for service in ("equus.web-1", "helen.h1", "echo"):
        peers.say("c", "frontend", "REQUEST", b"disk", id=service, service=service, asked_by="operator")
    majordomo = (b"MDPC02", b"\1", b"equus.web-1", b"disk")
    peers.hear(("frontend", b"m"), *majordomo, origin=Origin("192.0.2.7", "c"))
    told = [options for command, options, _ in peers.told(("backend", b"h1")) if command == "REQUEST"]
    heard = [(options["service"], options.get("asked_by")) for options in told]
    assert heard == [
        ("equus.web-1", "127.0.0.1 key:of-c"), ("helen.h1", "127.0.0.1 key:of-c"), ("echo", None),
        ("equus.web-1", "192.0.2.7 key:of-c"),
    ]  # fmt: skip
