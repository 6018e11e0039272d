"""Who is connected: names of clients and nodes, the connections that speak for them, and the leases of nodes.

Pure. A name belongs to the connection that asked for it first; it is granted again to the same connection, to the same
key (under CURVE), or to anybody once its holder has been silent for three beats. A node's lease is a number bound to
one connection: beats on that connection keep it, and a lease whose connection is gone has one more lease time before
`lapsed` gives it up. Nothing here knows tasks.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections import OrderedDict
from collections.abc import Hashable, Iterator

from attrs import define, frozen
from msgspec import Struct

from zerotask import errors
from zerotask.errors import RpcError

BEAT = 2.5  # seconds between a node's beats
LIVENESS = 3  # beats of silence after which a name is free and a lease lapses
LEASE = BEAT * LIVENESS
MOST_NAMES = 100_000  # clients, and as many nodes; some 50 MB. Silent ones make room for new ones
NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Caller(Struct, frozen=True):
    """One connection. `key` is its CURVE key, empty where there is none. Operators come by the control socket; many
    callers share one connection when they come through Scale0."""

    line: Hashable
    key: str = ""
    operator: bool = False
    shared: bool = False


@define
class Holder:
    """Who speaks for a name. A client has lease 0."""

    name: str
    line: Hashable
    key: str
    seen: float
    lease: int = 0
    told: bool = False  # a client that wants to be told of its tasks' ends


@define
class Orphan:
    """A lease without its connection, and until when it is honoured."""

    node: str
    until: float


@frozen
class Codes:
    """The errors of one kind of name."""

    what: str
    taken: int
    invalid: int
    unknown: int


CLIENTS = Codes("client", errors.CLIENT_TAKEN, errors.CLIENT_INVALID, errors.CLIENT_UNKNOWN)
NODES = Codes("node", errors.NODE_TAKEN, errors.NODE_INVALID, errors.NODE_UNKNOWN)


def is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def new_name() -> str:
    return secrets.token_hex(16)


def new_task_id(wall: float) -> str:
    """32 hex digits that rise with time, so that new rows lie side by side in the store's index; 80 bits are chance."""
    return f"{int(wall * 1000) & 0xFFFFFFFFFFFF:012x}{secrets.token_hex(10)}"


class Names:
    """Names of one kind and their holders."""

    def __init__(self, codes: Codes) -> None:
        self.codes = codes
        self._holders: OrderedDict[str, Holder] = OrderedDict()  # who was silent for longest comes first
        self._by_line: dict[Hashable, Holder] = {}
        self._by_key: dict[str, Holder] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[Holder]:
        return iter(list(self._holders.values()))

    def get(self, name: str) -> Holder | None:
        return self._holders.get(name)

    def check(self, name: str | None, caller: Caller, now: float) -> tuple[str, Holder | None]:
        """The name that would be granted and who holds it so far; RpcError if it would not be."""
        if name is None:
            return new_name(), None
        if not is_name(name):
            said = f"a {self.codes.what} id is 1 to 128 characters of A-Za-z0-9._:-"
            raise RpcError(self.codes.invalid, said)
        holder = self._holders.get(name)
        if holder is None or _same(holder, caller) or now - holder.seen >= LEASE:
            return name, holder
        raise RpcError(self.codes.taken, f"{self.codes.what} id {name} is in use; wait {LEASE:g} s or choose another")

    def grant(self, name: str, caller: Caller, now: float, lease: int = 0) -> Holder:
        """Make the caller the holder. A line speaks for its newest name of each kind."""
        if name not in self._holders and len(self._holders) >= MOST_NAMES:
            self._make_room(now)
        self.remove(name)
        holder = Holder(name, caller.line, caller.key, now, lease)
        self._holders[name] = self._by_line[caller.line] = holder
        if caller.key:
            self._by_key[caller.key] = holder
        return holder

    def _make_room(self, now: float) -> None:
        """A silent one goes."""
        oldest = next(iter(self._holders.values()))
        if now - oldest.seen >= LEASE:
            self.remove(oldest.name)
            return
        raise RpcError(errors.OVERLOADED, f"more than {MOST_NAMES} {self.codes.what}s; try again later")

    def remove(self, name: str) -> Holder | None:
        holder = self._holders.pop(name, None)
        if holder is not None:
            if self._by_line.get(holder.line) is holder:
                del self._by_line[holder.line]
            if self._by_key.get(holder.key) is holder:
                del self._by_key[holder.key]
        return holder

    def speaking(self, name: str, caller: Caller, now: float) -> Holder:
        """The holder of the name, if it is the caller."""
        holder = self._holders.get(name) if isinstance(name, str) else None
        if holder is None:
            raise RpcError(self.codes.unknown, f"no {self.codes.what} {str(name)[:128]}; connect first")
        if not _same(holder, caller):
            raise RpcError(
                errors.UNAUTHORISED, f"{self.codes.what} {name} is somebody else's; connect under an id of your own"
            )
        self._hear(holder, now)
        return holder

    def _hear(self, holder: Holder, now: float) -> None:
        holder.seen = now
        self._holders.move_to_end(holder.name)

    def of(self, caller: Caller, now: float) -> Holder:
        """Who calls, by the connection or else by the key."""
        if caller.shared:
            said = f"who is it? Through Scale0 a {self.codes.what} has to say its {self.codes.what}_id by name"
            raise RpcError(self.codes.unknown, said)
        holder = self._by_line.get(caller.line) or (self._by_key.get(caller.key) if caller.key else None)
        if holder is None:
            raise RpcError(self.codes.unknown, f"no {self.codes.what} on this connection; connect first")
        self._hear(holder, now)
        return holder

    def on_line(self, line: Hashable) -> Holder | None:
        return self._by_line.get(line)

    def silent(self, now: float) -> list[Holder]:
        return list(itertools.takewhile(lambda holder: now - holder.seen >= LEASE, self._holders.values()))


def _same(holder: Holder, caller: Caller) -> bool:
    return holder.line == caller.line or (holder.key != "" and holder.key == caller.key)


class Leases:
    """Numbers of leases, and those whose connection is gone."""

    def __init__(self, first: int) -> None:
        self._next = first
        self.orphans: dict[int, Orphan] = {}

    def new(self) -> int:
        self._next += 1
        return self._next - 1

    def orphan(self, lease: int, node: str, now: float) -> None:
        self.orphans[lease] = Orphan(node, now + LEASE)

    def of(self, node: str) -> list[int]:
        """Leases that a node held on connections that are gone."""
        return [lease for lease, orphan in self.orphans.items() if orphan.node == node]

    def lapsed(self, now: float) -> list[tuple[int, str]]:
        """Leases whose time is over, with their nodes; they are nobody's from now on."""
        over = [(lease, orphan.node) for lease, orphan in self.orphans.items() if orphan.until <= now]
        for lease, _ in over:
            del self.orphans[lease]
        return over
