"""Tests the parts of what Helens share, each by itself, and how several Helens come to agree."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.task import Clock

from helen.cluster import document_writes
from helen.cluster import replication as commons_module
from helen.cluster.document_store import DocumentStore
from helen.cluster.network_key import NetworkKey, NotSealed, load
from helen.cluster.presence import MISSED, HelensPart, Presence
from helen.cluster.replication import RETRY, SOON, Replication
from helen.cluster.shared_agents import AgentsPart, document_of, merge, standing
from helen.cluster.shared_assignments import AssignmentsPart
from helen.cluster.shared_downtimes import KEPT_MS, WindowsPart, prune
from helen.cluster.shared_grace import GracePart
from helen.cluster.shared_part import NotYet
from helen.cluster.shared_signing_keys import SigningKeysPart
from helen.files.state_dir import StateError
from helen.identity.given_labels import GivenLabels
from helen.identity.renewals import GRACE_MAX, USUAL_GRACE, checked_grace
from helen.keys.certificates import BadRequest
from helen.states.downtimes import read_window
from helen.storage import schema
from helen.storage.enrolled_keys import EnrolledCertificate, EnrolledKeys
from scale0.documents.collection import scope_of
from scale0.documents.publication import Publication
from scale0.wire.options import DocumentsTold, Publish

NOW = 1_800_000_000.0
KEY = NetworkKey(Ed25519PrivateKey.from_private_bytes(b"n" * 32))


def done(coroutine: Any) -> Any:
    """Return what a coroutine that waits for nothing returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


async def _waited(deferred: Deferred[Any]) -> Any:
    return await deferred


# ---------------------------------------------------------------------------------------------- the key


def test_what_is_sealed_is_for_those_who_have_the_key() -> None:
    """A sealed text is opened by the same key and for the same document only."""
    sealed = KEY.seal(b"secret", "keys")
    assert KEY.unseal(sealed, "keys") == b"secret"
    other = NetworkKey(Ed25519PrivateKey.generate())
    for key, text, about in ((KEY, sealed, "other"), (other, sealed, "keys"), (KEY, sealed[:-8] + "AAAAAAA=", "keys"),
                             (KEY, "#", "keys"), (KEY, "", "keys")):  # fmt: skip
        with pytest.raises(NotSealed):
            key.unseal(text, about)


def test_a_key_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="openssl genpkey"):
        load(tmp_path / "network.key")
    (tmp_path / "network.key").write_text("x")
    (tmp_path / "network.key").chmod(0o600)
    with pytest.raises(StateError, match="no unencrypted private key"):
        load(tmp_path / "network.key")


# ---------------------------------------------------------------------------------------------- agents


class Authority:
    """Holds EnrolledKeys without a store, and given labels in a database of its own."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.executescript("".join(schema.STEPS))
        self.given = GivenLabels(self, ())  # type: ignore[arg-type]
        self.keys = EnrolledKeys()
        self.cut: list[str] = []
        self.tell: Any = None

    def call(self, work: Any, *args: Any) -> Any:
        return succeed(work(self.db, *args))

    def label(self, name: str, at: float, /, **labels: str) -> None:
        changed = self.given.change(name, labels, list(self.given.of(name)), at, "anna")
        assert done(_waited(changed)).labels == labels

    def on_known(self, tell: Any) -> None:
        self.tell = tell

    @property
    def names(self) -> set[str]:
        return {one.name for one in self.keys.all()} | self.keys.revoked.keys()

    def about(self, name: str) -> Any:
        return self.keys.of(name), self.keys.revoked.get(name)

    def learn(self, known: Any, revoked: Any) -> Any:
        self.cut += [one.name for one in self.keys.learn(known)]
        self.keys.remember(known)
        self.keys.learn_names(revoked)
        return succeed(None)

    def enrol(self, name: str, at: float) -> None:
        self.keys.remember([EnrolledCertificate(f"{name}@{at}", name, at, at + 1e6)])
        self.keys.revoked.pop(name, None)
        self.tell(name)

    def revoke(self, name: str, at: float) -> None:
        self.keys.revoke(name, at)
        self.keys.revoked[name] = at
        self.tell(name)


class Place:
    """Holds an authority with its part."""

    def __init__(self) -> None:
        self.authority = Authority()
        self.told: list[tuple[str, bool]] = []
        self.forgotten: list[str] = []
        self.part = AgentsPart(
            self.authority, lambda: NOW, lambda *change: self.told.append(change), self.forgotten.append  # type: ignore[arg-type]
        )  # fmt: skip


def test_enrolled_here_known_there_revoked_there_cut_here() -> None:
    """An agent that comes back with a newer certificate is known again, at both."""
    one, two = Place(), Place()
    name = document_of("web-1")
    one.authority.enrol("web-1", NOW)
    value = one.part.wanted(name, None)
    assert one.told == [(name, False)]
    done(two.part.adopt(name, value))
    assert [each.learned for each in two.authority.keys.of("web-1")] == [True]
    assert two.part.wanted(name, value) is None
    two.authority.revoke("web-1", NOW + 5)
    assert two.told[-1] == (name, True)
    value = two.part.wanted(name, value)
    done(one.part.adopt(name, value))
    assert (one.authority.cut, one.forgotten) == (["web-1"], ["web-1"])
    assert one.authority.about("web-1")[1] == NOW + 5
    one.authority.enrol("web-1", NOW + 9)
    done(two.part.adopt(name, one.part.wanted(name, value)))
    assert len(two.authority.keys.of("web-1")) == 2
    assert one.part.wanted(name, value)["revoked"] == {"web-1": NOW + 5}  # which the newer certificate outlives


def test_given_labels_are_shared_and_the_newest_count() -> None:
    """The newest labels count, also with a Helen of a version that knows none and leaves them out (F45)."""
    one, two = Place(), Place()
    name = document_of("web-1")
    one.authority.label("web-1", NOW, role="web")
    assert one.told == [(name, False)]
    value = one.part.wanted(name, None)
    assert value["given"] == {"web-1": [NOW, {"role": "web"}]}
    done(two.part.adopt(name, value))
    assert (two.authority.given.of("web-1"), two.part.wanted(name, value)) == ({"role": "web"}, None)
    two.authority.label("web-1", NOW + 5, role="db")
    one.authority.label("web-1", NOW + 3, role="mail")
    done(one.part.adopt(name, two.part.wanted(name, one.part.wanted(name, value))))
    assert one.authority.given.of("web-1") == two.authority.given.of("web-1") == {"role": "db"}
    old = {"certificates": {}, "revoked": {}}
    done(two.part.adopt(name, old))
    assert two.part.wanted(name, old)["given"] == {"web-1": [NOW + 5, {"role": "db"}]}


def row(name: str, issued: float, ends: float, retires: Any = None, revoked: Any = None) -> list[Any]:
    return [name, NOW + issued, NOW + ends, retires, revoked]


def test_the_newest_certificate_stays_for_a_grace() -> None:
    """The newest certificate stays, so that a new Helen lets in an agent that was away; others go with their date."""
    rows = {
        "away": row("web-1", -9e5, -3e5), "older": row("web-1", -2e6, -9e5), "live": row("web-2", 0, 6e5),
        "renewed": row("web-2", -9e5, -1), "retired": row("web-3", -9e5, -1, retires=NOW - 5e5),
        "revoked": row("web-4", -9e5, -1, revoked=NOW - 5e5), "revoked but live": row("web-4", -5, 6e5, revoked=NOW),
        "just": row("web-5", -9e7, 1 - GRACE_MAX), "over": row("web-6", -9e7, -GRACE_MAX),
    }  # fmt: skip
    assert list(standing(rows, {}, NOW)) == ["away", "live", "revoked but live", "just"]
    assert merge(rows, {}, {}, NOW) == merge({}, rows, {}, NOW) == standing(rows, {}, NOW)
    ended = {"away": row("web-1", -9e5, -3e5, revoked=NOW)}
    assert list(merge(rows, ended, {}, NOW)) == ["live", "revoked but live", "just"]
    names = {"web-1": NOW - 9e5, "web-2": NOW, "web-5": NOW - 9.1e7}
    assert list(standing(rows, names, NOW)) == ["live", "revoked but live", "just"]


def test_a_helen_that_is_new_knows_an_agent_that_was_away() -> None:
    """A new Helen excuses a certificate that had expired before that Helen was there, until the name is revoked."""
    one, two = Place(), Place()
    name = document_of("web-1")
    one.authority.enrol("web-1", NOW - 2e6)  # for 1e6 seconds
    value = one.part.wanted(name, None)
    done(two.part.adopt(name, value))
    [known] = two.authority.keys.of("web-1")
    assert two.authority.keys.has_grace(known) and two.part.wanted(name, value) is None
    one.authority.revoke("web-1", NOW)
    value = one.part.wanted(name, value)
    done(two.part.adopt(name, value))
    assert not two.authority.keys.has_grace(known)
    assert two.part.wanted(name, value) is None


class Graceful:
    """Stands in for an authority's grace."""

    def __init__(self) -> None:
        self.grace, self.has_chosen_grace = USUAL_GRACE, False
        self.by: list[str] = []
        self.tell: Any = None

    def on_grace(self, tell: Any) -> None:
        self.tell = tell

    def set_grace(self, seconds: float, now: float, by: str = "operator") -> Deferred[None]:
        try:
            self.grace = checked_grace(seconds)
        except BadRequest:
            return fail()
        self.has_chosen_grace = True
        self.by.append(by)
        self.tell()
        return succeed(None)


def test_the_grace_that_was_set_last_counts() -> None:
    """A grace that nobody has set is not told; the network's one is set here, once, in its name."""
    one, two = Graceful(), Graceful()
    told: list[str] = []
    parts = [GracePart(each, lambda: NOW, lambda: told.append("renewals")) for each in (one, two)]  # type: ignore[arg-type]
    assert parts[0].wanted("renewals", None) is None
    one.set_grace(0.0, NOW)
    value = parts[0].wanted("renewals", None)
    assert (value, told) == ({"grace": 0.0}, ["renewals"])
    for _ in range(2):
        done(parts[1].adopt("renewals", value))
    assert (two.grace, two.by, parts[1].wanted("renewals", value)) == (0.0, ["network"], None)
    two.set_grace(86_400.0, NOW)
    value = parts[1].wanted("renewals", value)
    done(parts[0].adopt("renewals", value))
    assert (one.grace, parts[0].wanted("renewals", value)) == (86_400.0, None)
    with pytest.raises(NotYet, match="the grace of the network can't be used here"):
        done(parts[0].adopt("renewals", {"grace": 9e9}))
    for value in (None, [], {}, {"grace": None}, {"grace": True}, {"grace": "1d"}, {"grace": [1]}):
        with pytest.raises(NotYet, match="no number of seconds"):
            done(parts[0].adopt("renewals", value))
    for number in (float("nan"), float("inf"), -1, 10**400):
        with pytest.raises(NotYet):
            done(parts[0].adopt("renewals", {"grace": number}))
    assert one.grace == 86_400.0


@pytest.mark.parametrize("seed", range(20))
def test_whoever_hears_whatever_first_all_know_the_same(seed: int) -> None:
    """Three Helens that enrol and revoke on their own know the same, in whatever order they adopt each other's word."""
    dice, places = random.Random(seed), [Place() for _ in range(3)]
    said: dict[str, Any] = {}
    for step in range(60):
        place, agent = dice.choice(places), f"a-{dice.randrange(4)}"
        name, act = document_of(agent), dice.randrange(5)
        if act == 0:
            place.authority.enrol(agent, NOW + step)
        elif act == 1 and place.authority.keys.of(agent):
            place.authority.revoke(agent, NOW + step)
        elif act == 4:
            place.authority.label(agent, NOW + dice.randrange(60), at=str(step))
        elif act == 2 and name in said:
            done(place.part.adopt(name, said[name]))
        else:
            tell(place, name, said)
    for _ in range(4):
        for place in places:
            for name in {document_of(f"a-{number}") for number in range(4)}:
                if name in said:
                    done(place.part.adopt(name, said[name]))
                tell(place, name, said)
    known = [
        {(one.key_hash, one.revoked_at is None) for one in place.authority.keys.all()}
        | place.authority.keys.revoked.keys()
        | {(f"a-{n}", place.authority.given.of(f"a-{n}").get("at")) for n in range(4)}
        for place in places
    ]
    assert known[0] == known[1] == known[2]
    assert all(place.part.wanted(name, value) is None for place in places for name, value in said.items())


def tell(place: Place, name: str, said: dict[str, Any]) -> None:
    """Publish what a Helen has, if it has more to say."""
    said[name] = place.part.wanted(name, said.get(name)) or said.get(name) or {"certificates": {}, "revoked": {}}


# ---------------------------------------------------------------------------------------------- windows


class Board:
    """Holds a Helen's windows: a change that is written into the journal comes back a while later."""

    def __init__(self, now: float = NOW) -> None:
        self.here: dict[str, Any] = {}
        self.journal: list[tuple[str, dict[str, Any]]] = []
        self.now, self.changes = now, 0
        self.part = WindowsPart(lambda: self.here, self.write, lambda: self.now, self.changed)

    def changed(self) -> None:
        self.changes += 1

    def write(self, kind: str, document: dict[str, Any]) -> None:
        self.journal.append((kind, document))

    def flush(self) -> None:
        while self.journal:
            kind, document = self.journal.pop(0)
            if document["action"] == "cancel":
                self.here.pop(document["id"], None)
            else:
                fields = {key: value for key, value in document.items() if key != "action"}
                self.here[document["id"]] = read_window({"kind": kind, **fields}, NOW)
            self.part.noticed(kind, msgspec.json.decode(msgspec.json.encode(document)))


def window(id_: str, until: float = NOW + 100, **more: Any) -> dict[str, Any]:
    return read_window({"id": id_, "kind": "silence", "until": until, **more}, NOW).to_json()


def add(board: Board, id_: str, **more: Any) -> None:
    board.write("silence", {"action": "add", **window(id_, **more)})
    board.flush()


def test_two_windows_opened_at_one_moment_are_both_kept() -> None:
    """Each Helen had not heard of the other's; and what comes from the network is not told again."""
    one, two = Board(), Board()
    add(one, "a")
    add(two, "b")
    first, second = one.part.wanted("windows", None), two.part.wanted("windows", None)
    done(one.part.adopt("windows", second))
    one.flush()
    both = one.part.wanted("windows", second)
    assert set(both["windows"]) == {"a", "b"}
    done(two.part.adopt("windows", both))
    two.flush()
    assert set(one.here) == set(two.here) == {"a", "b"}
    assert (one.part.wanted("windows", both), two.part.wanted("windows", both)) == (None, None)
    assert (one.changes, two.changes) == (1, 1)
    assert set(first["windows"]) == {"a"}


def test_the_newest_word_counts() -> None:
    """A window that was cancelled stays so, and may be opened again."""
    one, two = Board(), Board()
    add(one, "a", comment="first")
    said = one.part.wanted("windows", None)
    done(two.part.adopt("windows", said))
    two.flush()
    two.write("silence", {"action": "cancel", "id": "a"})
    two.flush()
    cancelled = two.part.wanted("windows", said)
    done(one.part.adopt("windows", cancelled))
    one.flush()
    done(one.part.adopt("windows", said))  # an old word comes late
    one.flush()
    assert one.here == two.here == {}
    add(one, "a", comment="second")
    done(two.part.adopt("windows", one.part.wanted("windows", cancelled)))
    two.flush()
    assert two.here["a"].comment == "second"


def test_what_happened_while_nobody_could_be_told() -> None:
    """A window that is here and not told is told after a start; one that was told and is not here was
    cancelled here.
    """
    before, after = Board(), Board()
    add(before, "gone")
    add(before, "stays")
    said = before.part.wanted("windows", None)
    after.here = {"stays": read_window(window("stays"), NOW), "new": read_window(window("new"), NOW)}
    told = after.part.wanted("windows", said)["windows"]
    assert {id_: entry["window"] is not None for id_, entry in told.items()} == {
        "gone": False,
        "stays": True,
        "new": True,
    }


def test_what_is_over_is_forgotten_after_a_while() -> None:
    """A window that is over is forgotten when nobody who was down can still be told of it."""
    old, young = int(1_000 * NOW) - KEPT_MS - 1, int(1_000 * NOW)
    entries = {
        "over": {"at": old, "window": window("over", begin=NOW - 1e6, until=NOW - 5)},
        "cancelled": {"at": old, "window": None}, "on": {"at": old, "window": window("on")},
        "young": {"at": young, "window": None},
    }  # fmt: skip
    assert set(prune(entries, NOW)) == {"on", "young"}


# ---------------------------------------------------------------------------------------------- roots and keys


class Ring:
    """Holds a chain of roots, and what was adopted."""

    def __init__(self, *chain: bytes) -> None:
        self.chain, self.adopted = chain, []
        self.online = Ed25519PrivateKey.generate()
        self.held_private = (Ed25519PrivateKey.generate(),)

    async def adopt(self, chain: Any, online: Any, private: Any) -> None:
        self.adopted.append((online.private_bytes_raw(), private.private_bytes_raw()))
        self.chain, self.online, self.held_private = chain, online, (private,)


def part_of(ring: Ring, has_agents: bool = False) -> SigningKeysPart:
    return SigningKeysPart(ring, KEY, lambda: has_agents, lambda: None)  # type: ignore[arg-type]


def test_a_fresh_helen_takes_the_keys_of_the_network() -> None:
    """A new Helen takes all keys, also the private ones, which only a Helen can read, and has nothing to say then."""
    old, new = Ring(b"a"), Ring(b"b")
    said = part_of(old, has_agents=True).wanted("keys", None)
    assert said["pinned"] and old.held_private[0].private_bytes_raw().hex() not in str(said)
    done(part_of(new).adopt("keys", said))
    assert new.adopted == [(old.online.private_bytes_raw(), old.held_private[0].private_bytes_raw())]
    assert part_of(new).wanted("keys", said) is None


def test_a_longer_chain_is_followed_and_a_shorter_one_is_news_to_the_network() -> None:
    behind, ahead = Ring(b"a"), Ring(b"a", b"b")
    said = part_of(behind).wanted("keys", None)
    done(part_of(ahead, has_agents=True).adopt("keys", said))
    assert ahead.adopted == []
    said = part_of(ahead, has_agents=True).wanted("keys", said)
    done(part_of(behind, has_agents=True).adopt("keys", said))
    assert behind.chain == (b"a", b"b")


def test_keys_that_agents_have_pinned_are_never_thrown_away() -> None:
    """A Helen whose keys nobody has pinned gives way; between two that both have agents a person decides."""
    theirs, ours = Ring(b"a"), Ring(b"b")
    unpinned, pinned = part_of(theirs).wanted("keys", None), part_of(theirs, has_agents=True).wanted("keys", None)
    done(part_of(ours, has_agents=True).adopt("keys", unpinned))
    assert part_of(ours, has_agents=True).wanted("keys", unpinned)["roots"] == ["b"]
    with pytest.raises(NotYet, match="pinned other keys"):
        done(part_of(ours, has_agents=True).adopt("keys", pinned))
    assert part_of(ours, has_agents=True).wanted("keys", pinned) is None
    assert ours.adopted == []


# ---------------------------------------------------------------------------------------------- the others


def test_assignments_are_taken_and_told() -> None:
    taken: list[tuple[str, str]] = []

    def rewrite(text: str, by: str) -> Any:
        taken.append((text, by))
        book.taken = text
        return succeed(None)

    book = SimpleNamespace(taken="", rewrite=rewrite)
    part = AssignmentsPart(book, "h1")  # type: ignore[arg-type]
    assert part.wanted("assignments", None) is None  # nothing was ever assigned
    done(part.adopt("assignments", {"text": "x", "by": "h2"}))
    assert taken == [("x", "the network, by h2")]
    book.taken = "y"
    assert part.wanted("assignments", {"text": "x", "by": "h2"}) == {"text": "y", "by": "h1"}


def test_who_lives() -> None:
    """An unseen Helen is not told to agents; a seen one is until it is missed ten times, or is drained."""
    there: dict[str, bool | None] = {"helen.h2": False}
    told: list[set[str]] = []
    part = HelensPart(
        "h1", Presence("h1:2"), lambda: NOW, lambda: None, lambda service: succeed(there[service]),
        lambda live: told.append(set(live)),
    )  # fmt: skip
    value = {"helens": {name: {"address": f"{name}:1", "name": "", "ca": "", "group": "", "drained": False, "at": NOW}
                        for name in ("h1", "h2")}}  # fmt: skip
    done(part.adopt("helens", value))
    there["helen.h2"] = True
    part.look()
    there["helen.h2"] = None
    for _ in range(2 * MISSED):
        part.look()  # there is no broker: that says nothing about h2
    there["helen.h2"] = False
    for _ in range(MISSED - 1):
        part.look()
    assert told == [{"h2"}]
    part.look()
    assert told == [{"h2"}, set()]
    there["helen.h2"] = True
    part.look()
    value["helens"]["h2"]["drained"] = True
    done(part.adopt("helens", value))
    assert told == [{"h2"}, set(), {"h2"}, set()]
    assert part.wanted("helens", value) is not None  # the address of h1 is another than was said
    value["helens"]["h1"] |= {"address": "h1:2"}
    assert part.wanted("helens", value) is None


# ---------------------------------------------------------------------------------------------- all of it


class Number:
    """Is a part whose newest value counts; `broken` keeps it from being adopted."""

    names = ("number",)

    def __init__(self, in_memory: bool = False) -> None:
        self.in_memory = in_memory
        self.value: int | None = None
        self.broken = ""

    async def adopt(self, name: str, value: Any) -> None:
        if self.broken:
            raise NotYet(self.broken)
        self.value = value["number"]

    def wanted(self, name: str, value: Any) -> Any:
        if self.value is None or (value is not None and value["number"] == self.value):
            return None
        return {"number": self.value}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    for module in (commons_module, document_writes):
        monkeypatch.setattr(module, "deferToThread", maybeDeferred)
    return Clock()


def make(clock: Clock, folder: Path, in_memory: bool = False) -> tuple[Replication, Number]:
    part = Number(in_memory)
    commons = Replication(clock, KEY, DocumentStore(folder), [part], lambda: NOW + clock.seconds())
    commons.open()
    commons.start()
    return commons, part


def meet(one: Replication, other: Replication) -> None:
    """Exchange what two Helens have, as if a broker stood between them."""
    for here, there in ((one, other), (other, one)):
        here.sharer.listen("DOCUMENTS", DocumentsTold({}), [])
        for each in there.sharer.documents.newer_than(here.sharer.documents.have()):
            options = Publish(each.scope.removeprefix("doc/"), each.version, "JSON", each.signature.hex())
            here.sharer.listen("PUBLISH", options, [each.document])


def test_who_has_not_met_the_network_says_nothing(clock: Clock, tmp_path: Path) -> None:
    """The network's word comes first; only where it says nothing our own is told."""
    (old, a), (new, b) = make(clock, tmp_path / "a"), make(clock, tmp_path / "b")
    a.value, b.value = 1, 2
    old.sharer.listen("DOCUMENTS", DocumentsTold({}), [])
    clock.advance(SOON)
    new.changed("number")
    clock.advance(SOON)
    assert len(new.sharer.documents) == 0
    meet(new, old)
    assert b.value == 1
    clock.advance(SOON)
    assert new.overview()["settled"] and not new.overview()["troubles"]
    b.value = 3
    new.changed("number")
    clock.advance(SOON)
    meet(old, new)
    assert a.value == 3


def test_two_who_publish_in_one_millisecond_agree(clock: Clock, tmp_path: Path) -> None:
    """Both Helens take the same one of two documents of one millisecond; no network would settle otherwise."""
    both = [make(clock, tmp_path / name) for name in "ab"]
    for number, (commons, part) in enumerate(both):
        part.value = number
        commons.sharer.listen("DOCUMENTS", DocumentsTold({}), [])
    clock.advance(SOON)
    held = [commons.sharer.documents.get("number") for commons, _ in both]
    assert (held[0].version, held[0].document) == (held[1].version, b'{"number":0}')
    meet(both[0][0], both[1][0])
    clock.advance(SOON)
    assert both[0][1].value == both[1][1].value
    assert both[0][0].sharer.documents.digest == both[1][0].sharer.documents.digest
    assert all(commons.overview()["settled"] for commons, _ in both)
    again, part = make(clock, tmp_path / "a")
    clock.advance(SOON)
    assert (part.value, again.sharer.documents.digest) == (None, both[0][0].sharer.documents.digest)


@pytest.mark.parametrize(("in_memory", "known"), [(False, None), (True, 1)])
def test_what_is_only_in_memory_is_adopted_anew(
    clock: Clock, tmp_path: Path, in_memory: bool, known: int | None
) -> None:
    """A restarted Helen adopts an unchanged document anew, or it would know no others for a day."""
    (old, a), (new, b) = make(clock, tmp_path / "a", in_memory), make(clock, tmp_path / "b", in_memory)
    a.value = 1
    old.sharer.listen("DOCUMENTS", DocumentsTold({}), [])
    clock.advance(SOON)
    meet(new, old)
    clock.advance(SOON)
    assert b.value == 1
    again, part = make(clock, tmp_path / "b", in_memory)
    clock.advance(SOON)
    assert (part.value, again.in_force("number")) == (known, new.in_force("number"))


def test_what_was_in_force_is_so_after_a_restart_and_what_changed_meanwhile_is_told(
    clock: Clock, tmp_path: Path
) -> None:
    first, part = make(clock, tmp_path)
    part.value = 1
    first.sharer.listen("DOCUMENTS", DocumentsTold({}), [])
    clock.advance(SOON)
    again, part = make(clock, tmp_path)
    assert again.has_joined
    part.value = 2  # while it was down, or without a broker
    clock.advance(SOON)
    held = again.sharer.documents.get("number")
    assert (held.document, held.version > first.sharer.documents.get("number").version) == (b'{"number":2}', True)


def test_what_cannot_be_adopted_is_told_and_tried_again(clock: Clock, tmp_path: Path) -> None:
    """A document that cannot be adopted is tried again, and nothing of ours is said over it."""
    (old, a), (new, b) = make(clock, tmp_path / "a"), make(clock, tmp_path / "b")
    a.value, b.value, b.broken = 1, 2, "not today"
    old.sharer.listen("DOCUMENTS", DocumentsTold({}), [])
    clock.advance(SOON)
    meet(new, old)
    clock.advance(SOON)
    assert new.troubles == {"number": "not today"}
    assert new.sharer.documents.get("number").document == b'{"number":1}'
    b.broken = ""
    clock.advance(RETRY)
    assert (new.troubles, b.value) == ({}, 1)


def test_words_of_others_are_not_believed(clock: Clock, tmp_path: Path) -> None:
    """A document of a program at a broker is not believed, since it has no key of the network."""
    commons, part = make(clock, tmp_path)
    lie = Publication("", scope_of("number"), 5, "JSON", b'{"number":9}').signed(Ed25519PrivateKey.generate())
    commons.sharer.listen("PUBLISH", Publish("number", 5, "JSON", lie.signature.hex()), [lie.document])
    assert (part.value, len(commons.sharer.documents)) == (None, 0)


def test_a_damaged_shelf_is_filled_again(clock: Clock, tmp_path: Path) -> None:
    commons, part = make(clock, tmp_path)
    part.value = 1
    commons.sharer.listen("DOCUMENTS", DocumentsTold({}), [])
    clock.advance(SOON)
    (tmp_path / "network" / "number.document").write_bytes(b"x")
    (tmp_path / "network" / "applied.json").write_bytes(b"[")
    again, other = make(clock, tmp_path)
    meet(again, commons)
    assert other.value == 1
