"""Tests documents of a network: what is kept, what is refused, and how brokers and backends come to have the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scale0_stage import WALL, Stage, broker_config

from scale0.documents import collection as docs
from scale0.documents.collection import MOST, MOST_BYTES, Documents, Refused, next_version, rank_of, scope_of
from scale0.documents.publication import Publication
from scale0.endpoint.document_holder import DocumentHolder
from scale0.endpoint.requests import NotAnswered, OutgoingRequests
from scale0.wire.options import DocumentsTold, Publish, Reply

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC = KEY.public_key().public_bytes_raw().hex()
NOW = WALL + 1000


def document(name: str, version: int, content: bytes = b"{}", key: Ed25519PrivateKey | None = None) -> Publication:
    made = Publication("", scope_of(name), version, "JSON", content)
    return made if key is None else made.signed(key)


# ------------------------------------------------------------------------------------------- what is kept


def test_the_newest_is_kept_and_of_twins_the_greater() -> None:
    low, high = sorted((document("a", 5, b"1"), document("a", 5, b"3")), key=rank_of)
    held = Documents("")
    verdicts = [held.take(each, NOW) for each in (low, document("a", 4, b"2"), low, high, low, high)]
    assert verdicts == ["news", "old", "known", "news", "conflict", "known"]
    assert held.get("a") == high
    assert (held.newer_than({"a": rank_of(low)}), held.lacks({"a": rank_of(low)})) == ([high], False)
    assert held.take(document("a", 6, b"4"), NOW) == "news"
    assert held.get("a") == document("a", 6, b"4")


def test_the_digest_is_of_what_is_held_whatever_the_way_to_it() -> None:
    """The digest is the same for each order in which the same documents come, twins among them."""
    news = [document(name, version, bytes([version, twin])) for name in "abc" for version in range(1, 5)
            for twin in range(2)]  # fmt: skip
    digests = set()
    for seed in range(20):
        held, order = Documents(""), news[:]
        random.Random(seed).shuffle(order)
        for each in order:
            held.take(each, NOW)
        digests.add(held.digest)
    assert len(digests) == 1
    assert digests != {Documents("").digest}


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One document, all of them, their number and their times are bounded."""
    held = Documents("")
    refused = [
        (document("a", 1, bytes(MOST_BYTES + 1)), "more than"), (document("A", 1), "no document"),
        (document("a/b", 1), "no document"), (document("a", int(1000 * NOW) + 2 * docs.AHEAD_MS), "after tomorrow"),
        (Publication("other", scope_of("a"), 1, "JSON", b"x"), "no document"),
        (Publication("", "all", 1, "JSON"), "no document"),
    ]  # fmt: skip
    for new, why in refused:
        with pytest.raises(Refused, match=why):
            held.take(new, NOW)
    monkeypatch.setattr(docs, "MOST_TOTAL", 10)
    held.take(document("a", 1, bytes(8)), NOW)
    with pytest.raises(Refused, match="all documents would have"):
        held.take(document("b", 1, bytes(3)), NOW)
    held.take(document("a", 2, bytes(10)), NOW)  # in its own place there is room
    monkeypatch.setattr(docs, "MOST", 1)
    with pytest.raises(Refused, match="one document more"):
        held.take(document("b", 1, b""), NOW)
    assert [p.scope for p in held.all()] == ["doc/a"]


def test_a_signature_counts_whatever_the_network_is_called_and_whoever_passes_it_on() -> None:
    held, signed = Documents("east", [PUBLIC]), document("a", 1, b"x", KEY)
    passed_on = Publication("east", signed.scope, 1, "JSON", b"x", signed.signature)
    changed = Publication("east", signed.scope, 2, "JSON", b"x", signed.signature)
    assert held.take(passed_on, NOW) == "news"
    for lie in (changed, Publication("east", scope_of("b"), 1, "JSON", b"x", signed.signature)):
        with pytest.raises(Refused, match="not signed"):
            held.take(lie, NOW)


def test_versions_rise() -> None:
    assert next_version(0, 5.0) == 5000
    assert next_version(9000, 5.0) == 9001


# ------------------------------------------------------------------------------------------- the broker


def told(stage: Stage, address: Any, *commands: str) -> list[tuple[str, dict[str, Any], list[bytes]]]:
    return [each for each in stage.told(address) if each[0] in commands]


def publish(stage: Stage, address: Any, name: str, version: int, content: bytes = b"{}", **more: Any) -> str:
    stage.scale0(address, "PUBLISH", content, name=name, version=version, **more)
    (answer,) = told(stage, address, "PUBLISHED")
    return str(answer[1]["verdict"])


def test_what_is_news_goes_to_those_who_take_part() -> None:
    """A document that is news is sent to those who take part and to nobody else; beats carry its digest
    from then on.
    """
    stage = Stage()
    one, two, other = (stage.worker(name, "svc") for name in (b"one", b"two", b"other"))
    stage.scale0(two, "DOCUMENTS", have={}, want=True)
    assert told(stage, two, "DOCUMENTS") == [("DOCUMENTS", {"have": {}, "want": False}, [])]
    assert publish(stage, one, "checks", 7, b"new") == "news"
    assert told(stage, two, "PUBLISH") == [
        ("PUBLISH", {"name": "checks", "version": 7, "type": "JSON", "signature": ""}, [b"new"])
    ]
    stage.wait(1.2)
    beats = [stage.told(each, beats=True)[-1][1].get("documents") for each in (one, two, other)]
    assert beats == [stage.broker.sharing.documents.digest] * 2 + [None]


def test_a_lie_is_refused_and_a_twin_is_an_alarm() -> None:
    stage = Stage(broker_config(config_key=(PUBLIC,)))
    one = stage.worker(b"one", "svc")
    signed = document("checks", 7, b"a", KEY)
    assert publish(stage, one, "checks", 7, b"a") == "refused"
    assert publish(stage, one, "checks", 7, b"a", signature=signed.signature.hex()) == "news"
    twins = sorted((document("alike", 7, content, KEY) for content in (b"a", b"b")), key=rank_of, reverse=True)
    verdicts = []
    for twin in twins:
        words = {"name": "alike", "version": 7, "signature": twin.signature.hex()}
        stage.scale0(one, "PUBLISH", twin.document, **words)
        said = told(stage, one, "PUBLISHED", "PUBLISH")
        verdicts += [(each[1].get("verdict"), each[2]) for each in said]
    assert verdicts == [("news", []), (None, [twins[0].document]), ("conflict", [])]
    assert [text for text in stage.broker.context.alarms if "two documents alike of version 7" in text]
    for each in reversed(twins):
        late = document("late", 7, each.document, KEY)
        assert publish(stage, one, "late", 7, each.document, signature=late.signature.hex()) == "news"
    assert [text for text in stage.broker.context.alarms if "two documents late of version 7" in text]


def test_what_was_refused_is_not_asked_for_again() -> None:
    """A broker that refused a document does not ask for it again, as it would with every beat; a newer one is asked
    for.
    """
    stage = Stage(broker_config(config_key=(PUBLIC,)))
    one = stage.worker(b"one", "svc")
    publish(stage, one, "checks", 7, b"a")
    stage.scale0(one, "DOCUMENTS", have={"checks": [7, "ab"]}, want=False)
    assert told(stage, one, "DOCUMENTS") == []
    stage.scale0(one, "DOCUMENTS", have={"checks": [8, "ab"]}, want=False)
    assert [each[1]["want"] for each in told(stage, one, "DOCUMENTS")] == [False]


@pytest.mark.parametrize("body", [[], [b"a", b"b"]])
def test_a_document_is_one_frame(body: list[bytes]) -> None:
    stage = Stage()
    one = stage.worker(b"one", "svc")
    stage.scale0(one, "PUBLISH", *body, name="a", version=1)
    assert [each[1]["code"] for each in told(stage, one, "DISCONNECTERROR")] == [400]


def test_clients_have_no_part_in_it() -> None:
    stage = Stage()
    desk = stage.client(b"desk")
    stage.scale0(desk, "PUBLISH", b"a", name="a", version=1)
    assert [each[1]["code"] for each in told(stage, desk, "DISCONNECTERROR")] == [400]
    assert len(stage.broker.sharing.documents) == 0


def test_a_backend_may_ask_once_it_is_ready() -> None:
    """A backend may ask on its own connection once it is ready; before READY it is disconnected with 400."""
    stage = Stage()
    stage.worker(b"tea", "tea")
    asker = ("backend", b"asker")
    stage.ask(asker, "tea", b"?")
    assert [each[1]["code"] for each in told(stage, asker, "DISCONNECTERROR")] == [400]
    asker = stage.worker(b"asker", "nothing")
    stage.ask(asker, "mmi.service", b"tea")
    assert stage.finals(asker) == [("1", 200, [b"200"])]
    stage.ask(asker, "tea", b"?")
    ((job, body),) = stage.jobs(("backend", b"tea"))
    stage.scale0(("backend", b"tea"), "FINAL", b"!", id=job)
    assert (body, stage.finals(asker)) == ([b"?"], [("1", 200, [b"!"])])
    stage.check()


# ---------------------------------------------------------------------------------------- many of both


class Wire:
    """Joins DocumentHolders and one broker by connections that come and go; messages on a cut one are lost."""

    def __init__(self, count: int, dice: random.Random) -> None:
        self.stage, self.dice = Stage(), dice
        self.holders = [
            DocumentHolder(Documents(""), self.heard, lambda: None, lambda: self.stage.wall) for _ in range(count)
        ]
        self.up: set[int] = set()
        self.version = 1

    def heard(self, publication: Publication) -> None:
        assert publication.version <= self.version

    def address(self, number: int) -> tuple[str, bytes]:
        return ("backend", b"h%d" % number)

    def connect(self, number: int) -> None:
        self.up.add(number)
        self.stage.worker(b"h%d" % number, f"helen.h{number}")
        self.holders[number].begin(lambda command, options, body: self._say(number, command, options, body))

    def _say(self, number: int, command: str, options: dict[str, Any], body: Any) -> bool:
        if number in self.up and self.dice.random() < 0.9:
            self.stage.scale0(self.address(number), command, *body, **options)
        return True

    def cut(self, number: int) -> None:
        self.up.discard(number)
        self.holders[number].end()
        self.stage.scale0(self.address(number), "DISCONNECT")

    def publish(self, number: int, name: str, later: int) -> Publication:
        self.version += later
        new = document(name, self.version, self.dice.randbytes(4))
        self.holders[number].publish(new)
        return new

    def deliver(self) -> None:
        """Deliver what the broker has said; a part of it is lost."""
        kinds = {"PUBLISH": Publish, "DOCUMENTS": DocumentsTold}
        for number in sorted(self.up):
            for command, options, body in self.stage.told(self.address(number)):
                if command in kinds and self.dice.random() < 0.9:
                    if command == "DOCUMENTS":
                        options["have"] = {name: tuple(one) for name, one in options["have"].items()}
                    self.holders[number].listen(command, kinds[command](**options), body)

    def settle(self) -> None:
        """Connect all holders, and let them compare until nobody has anything to say."""
        self.dice = random.Random(1)
        self.dice.random = lambda: 0.0  # type: ignore[method-assign]  # nothing is lost any more
        for number in range(len(self.holders)):
            self.connect(number)
        for _ in range(4):
            self.deliver()


@pytest.mark.parametrize("earliest", [0, 1])
@pytest.mark.parametrize("seed", range(25))
def test_whoever_was_away_and_whatever_was_lost_all_come_to_have_the_same(seed: int, earliest: int) -> None:
    """Every Helen and the broker come to have the newest of each document, even if the broker has
    forgotten everything.

    With `earliest` 0 some are published in the same millisecond.
    """
    dice = random.Random(seed)
    wire, newest = Wire(3, dice), dict[str, Publication]()
    for _ in range(60):
        number = dice.randrange(3)
        act = dice.choice(["publish", "publish", "deliver", "connect", "cut", "forget"])
        if act == "publish":
            name = dice.choice("abcd")
            new = wire.publish(number, name, dice.randint(earliest, 1))
            newest[name] = max(newest.get(name, new), new, key=rank_of)
        elif act == "deliver":
            wire.deliver()
        elif act == "connect" and number not in wire.up:
            wire.connect(number)
        elif act == "cut" and number in wire.up:
            wire.cut(number)
        elif act == "forget" and not wire.up:
            wire.stage = Stage()
    wire.settle()
    held = [holder.documents for holder in wire.holders] + [wire.stage.broker.sharing.documents]
    assert {each.digest for each in held} == {held[0].digest}
    assert {name: held[0].get(name) for name in newest} == newest


# -------------------------------------------------------------------------------------------- asking


class Timers:
    def __init__(self) -> None:
        self.set: list[Any] = []

    def callLater(self, seconds: float, call: Any, *args: Any) -> Any:
        self.set.append((call, args))
        return self

    def active(self) -> bool:
        return False

    def seconds(self) -> float:
        return 0.0

    getTime = seconds  # of the timers that it gives, which fire in time


def test_what_a_backend_asks_ends_once() -> None:
    """A request of a backend ends by its answer, an error, the loss of the broker or time; without a broker it ends at
    once.
    """
    timers, sent = Timers(), []
    asking = OutgoingRequests(timers, lambda options, body: sent.append((options, body)) or True)
    asked = [asking.ask("svc", (b"?",), 5.0, True) for _ in range(4)]
    assert sent[0] == ({"id": "a1", "service": "svc", "timeout_ms": 5000}, (b"?",))
    asking.answered("PARTIAL", Reply("a1"), [b"1"])
    asking.answered("FINAL", Reply("a1"), [b"2"])
    asking.answered("FINAL", Reply("a1"), [b"again"])
    asking.answered("FINAL", Reply("a2", 404, "no_service"), [])
    call, args = timers.set[2]
    call(*args)
    asking.lost("no_broker")
    outcomes: list[Any] = []
    for each in (*asked, asking.ask("svc", (), 5.0, False)):
        each.addCallbacks(outcomes.append, lambda failure: outcomes.append(failure.value))
    assert outcomes[0] == [b"1", b"2"]
    assert [(type(e), e.code, e.reason) for e in outcomes[1:]] == [
        (NotAnswered, 404, "no_service"), (NotAnswered, 504, "deadline"), (NotAnswered, 503, "no_broker"),
        (NotAnswered, 503, "no_broker"),
    ]  # fmt: skip


def test_options_of_the_commands_are_bounded() -> None:
    assert MOST * (64 + 40) < 64 << 10


def test_what_was_refused_is_told_as_if_it_were_held() -> None:
    """A refused document is listed as if it were held, so that it is not sent again; the greater rank of
    a name counts.
    """
    stage = Stage(broker_config(config_key=(PUBLIC,)))
    helen = stage.worker(b"h", "tea")
    signature = document("good", 5, b"1", KEY).signature.hex()
    assert publish(stage, helen, "bad", 7) == publish(stage, helen, "good", 6, b"2") == "refused"
    assert publish(stage, helen, "good", 5, b"1", signature=signature) == "news"
    stage.scale0(helen, "DOCUMENTS", have={}, want=True)
    [(_, listed, _)] = told(stage, helen, "DOCUMENTS")
    have = {"bad": list(rank_of(document("bad", 7))), "good": list(rank_of(document("good", 6, b"2")))}
    assert listed == {"have": have, "want": False}
    assert stage.broker.context.counts["documents_refused"] == 2 and stage.broker.context.counts["documents"] == 1
