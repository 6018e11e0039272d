"""Keeps the names of clients and nodes, the connections that hold them, and the leases of nodes.

Pure; it knows no tasks. A name belongs to the connection that asked for it first. It is granted again to the same
connection, to the same key (under CURVE), or to any caller once its holder has been silent for three beats. A node's
lease is a number bound to one connection: beats on that connection renew it, and a lease without a connection has one
more lease time before `lapsed` ends it. All times are monotonic seconds.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from functools import lru_cache

from attrs import define, frozen
from msgspec import Struct

from groundwork import authority
from zerotask import errors
from zerotask.errors import RpcError

BEAT = 2.5  # seconds between a node's beats
LIVENESS = 3  # beats of silence after which a name is free and a lease lapses
LEASE = BEAT * LIVENESS
MOST_NAMES = 100_000  # clients, and as many nodes; some 50 MB. A silent holder makes room for a new one
NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
RANDOM = re.compile(r"[0-9a-f]{32}")  # as `new_name` makes them


class Caller(Struct, frozen=True):
    """Identifies the connection that a call came on. `key` is its CURVE key, empty where there is none.

    Operators come by the control socket. Callers that come through Scale0 are `shared`: they have one connection.
    `bound` is the name to which the key's file binds it; None: a caller without a key, or with a key for any name.
    `roles` are those of its key, or all where it lives in this process or is the user that runs it.
    """

    connection: Hashable
    key: str = ""
    operator: bool = False
    shared: bool = False
    bound: str | None = None
    roles: tuple[str, ...] = ()
    key_name: str = ""  # the identity of the key's file

    @property
    def authority(self) -> authority.Caller:
        """Return the caller as groundwork.authority decides on it."""
        return _authority(self.roles, self.operator, self.shared, self.key_name)


@lru_cache(maxsize=1_024)
def _authority(roles: tuple[str, ...], operator: bool, shared: bool, key_name: str) -> authority.Caller:
    actor = f"the key of {key_name}" if key_name else "a client without a key that has a role"
    entry = "Scale0" if shared else "ZeroTask"
    return authority.Caller(actor, authority.ALL if operator else roles, entry=entry, key=key_name)


@define
class Holder:
    """Records the connection that holds a name. A client has lease 0."""

    name: str
    connection: Hashable
    key: str
    last_call: float  # monotonic seconds
    lease: int = 0
    wants_results: bool = False  # a client that is to be notified when its tasks end


@define
class Orphan:
    """Records a lease that has lost its connection; `until`, in monotonic seconds, is its end."""

    node: str
    until: float


@frozen
class NameErrors:
    """Lists the errors of one kind of name."""

    kind: str
    taken: int
    invalid: int
    unknown: int


CLIENTS = NameErrors("client", errors.CLIENT_TAKEN, errors.CLIENT_INVALID, errors.CLIENT_UNKNOWN)
NODES = NameErrors("node", errors.NODE_TAKEN, errors.NODE_INVALID, errors.NODE_UNKNOWN)


def is_name(value: object) -> bool:
    """Return True if `value` may be the id of a client, a node or a task."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def may_be_called(name: str, bound: str | None) -> bool:
    """Return True if a key that is bound to `bound` (None: to nothing) may use `name`.

    It may use its own name, and any that continues it behind `:` or `.`, since one machine runs several nodes; a Helen
    is `helen.NAME`. A random name of `new_name` is no other peer's.
    """
    if bound is None or RANDOM.fullmatch(name):
        return True
    own = (bound, f"helen.{bound}")
    return name in own or name.startswith(tuple(f"{each}{mark}" for each in own for mark in ":."))


def new_name() -> str:
    """Return a random name for a client or a node."""
    return secrets.token_hex(16)


def new_task_id(wall: float) -> str:
    """Return 32 hex digits; 80 bits of them are random. `wall`: unix seconds.

    The time comes first, so that new rows lie side by side in the database's index.
    """
    return f"{int(wall * 1000) & 0xFFFFFFFFFFFF:012x}{secrets.token_hex(10)}"


class Names:
    """Grants names of one kind and finds their holders."""

    def __init__(self, codes: NameErrors) -> None:
        self.codes = codes
        self._holders: OrderedDict[str, Holder] = OrderedDict()  # the holder that has been silent longest comes first
        self._by_connection: dict[Hashable, Holder] = {}
        self._by_key: dict[str, Holder] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def __iter__(self) -> Iterator[Holder]:
        return iter(list(self._holders.values()))

    def get(self, name: str) -> Holder | None:
        """Return the holder of a name, None if it is free."""
        return self._holders.get(name)

    def check(self, name: str | None, caller: Caller, now: float) -> tuple[str, Holder | None]:
        """Return the name that `grant` may be called with, and its present holder; a new name if None is asked for.

        `now`: monotonic seconds. Raises RpcError if the name is malformed, belongs to another key, or is held by
        another caller that is not silent.
        """
        if name is None:
            return new_name(), None
        if not is_name(name):
            message = f"a {self.codes.kind} id is 1 to 128 characters of A-Za-z0-9._:-"
            raise RpcError(self.codes.invalid, message)
        if not may_be_called(name, caller.bound):
            message = f"this key belongs to {caller.bound}: connect as {caller.bound}, or {caller.bound}:ANYTHING"
            raise RpcError(errors.UNAUTHORISED, message, {"name": caller.bound})
        holder = self._holders.get(name)
        if holder is None or _same(holder, caller) or now - holder.last_call >= LEASE:
            return name, holder
        raise RpcError(self.codes.taken, f"{self.codes.kind} id {name} is in use; wait {LEASE:g} s or choose another")

    def grant(self, name: str, caller: Caller, now: float, lease: int = 0) -> Holder:
        """Make the caller the holder of a name and return the holder. `now`: monotonic seconds.

        A connection that holds several names of a kind is found by the newest one. Raises RpcError if there are
        MOST_NAMES and no holder is silent.
        """
        if name not in self._holders and len(self._holders) >= MOST_NAMES:
            self._make_room(now)
        self.remove(name)
        holder = Holder(name, caller.connection, caller.key, now, lease)
        self._holders[name] = self._by_connection[caller.connection] = holder
        if caller.key:
            self._by_key[caller.key] = holder
        return holder

    def _make_room(self, now: float) -> None:
        """Remove the holder that has been silent longest, if it is silent."""
        oldest = next(iter(self._holders.values()))
        if now - oldest.last_call >= LEASE:
            self.remove(oldest.name)
            return
        raise RpcError(errors.OVERLOADED, f"more than {MOST_NAMES} {self.codes.kind}s; try again later")

    def remove(self, name: str) -> Holder | None:
        """Free a name and return the former holder, None if there was none."""
        holder = self._holders.pop(name, None)
        if holder is not None:
            if self._by_connection.get(holder.connection) is holder:
                del self._by_connection[holder.connection]
            if self._by_key.get(holder.key) is holder:
                del self._by_key[holder.key]
        return holder

    def require(self, name: str, caller: Caller, now: float) -> Holder:
        """Return the holder of a name after making sure that it is the caller; the call counts as a beat.

        `now`: monotonic seconds. Raises RpcError if the name is unknown or held by another caller.
        """
        holder = self._holders.get(name) if isinstance(name, str) else None
        if holder is None:
            raise RpcError(self.codes.unknown, f"no {self.codes.kind} {str(name)[:128]}; connect first")
        if not _same(holder, caller):
            message = f"{self.codes.kind} id {name} belongs to another connection; connect under an id of your own"
            raise RpcError(errors.UNAUTHORISED, message)
        self._renew(holder, now)
        return holder

    def _renew(self, holder: Holder, now: float) -> None:
        holder.last_call = now
        self._holders.move_to_end(holder.name)

    def of_caller(self, caller: Caller, now: float) -> Holder:
        """Return the holder that calls, found by its connection or else by its key; the call counts as a beat.

        `now`: monotonic seconds. Raises RpcError if neither holds a name, or if the connection is a shared one.
        """
        if caller.shared:
            kind = self.codes.kind
            message = f"{kind} not known: calls through Scale0 share a connection, so give {kind}_id by name"
            raise RpcError(self.codes.unknown, message)
        holder = self._by_connection.get(caller.connection) or (self._by_key.get(caller.key) if caller.key else None)
        if holder is None:
            raise RpcError(self.codes.unknown, f"no {self.codes.kind} on this connection; connect first")
        self._renew(holder, now)
        return holder

    def on_connection(self, connection: Hashable) -> Holder | None:
        """Return the holder of the connection's newest name, None if it holds none."""
        return self._by_connection.get(connection)

    def silent(self, now: float) -> list[Holder]:
        """Return the holders that have not called for a lease time. `now`: monotonic seconds."""
        return list(itertools.takewhile(lambda holder: now - holder.last_call >= LEASE, self._holders.values()))


def _same(holder: Holder, caller: Caller) -> bool:
    return holder.connection == caller.connection or (holder.key != "" and holder.key == caller.key)


class Leases:
    """Numbers leases, and keeps the orphans: leases without a connection."""

    def __init__(self, first: int) -> None:
        self._next = first
        self.orphans: dict[int, Orphan] = {}

    def new(self) -> int:
        """Return the number of a new lease; it is larger than all before it."""
        self._next += 1
        return self._next - 1

    def orphan(self, lease: int, node: str, now: float) -> None:
        """Note that a lease has lost its connection; it lapses a lease time after `now` (monotonic seconds)."""
        self.orphans[lease] = Orphan(node, now + LEASE)

    def orphans_of(self, node: str) -> list[int]:
        """Return the leases that a node held on connections that are gone."""
        return [lease for lease, orphan in self.orphans.items() if orphan.node == node]

    def lapsed(self, now: float) -> list[tuple[int, str]]:
        """Remove and return the orphans that have ended, each with its node. `now`: monotonic seconds."""
        over = [(lease, orphan.node) for lease, orphan in self.orphans.items() if orphan.until <= now]
        for lease, _ in over:
            del self.orphans[lease]
        return over
