"""Keeps the labels that operators have given to agents in memory, in front of the store: facts, and no claims.

They come with a join token, by a command, or from another Helen of the network. Labels that an agent reports itself are
in helen/agents/roster.py, with the rule by which labels of both kinds steer. `now` is unix seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from twisted.internet.defer import Deferred, fail, succeed

from helen.keys.certificates import BadRequest
from helen.storage import given_rows
from helen.storage.agent_rows import Agent
from helen.storage.database import Store
from helen.storage.given_rows import Given

MAX_GIVEN = 64  # labels of one agent, as many as it may say of itself
MAX_WORD = 255  # characters of a key, and of a value
OWN = ("alertname", "agent", "check", "severity")  # labels that Helen gives to alerts: an agent's would not count
_KEY = re.compile(r"[^\s=,%\"'{}]+")


class GivenLabels:
    """Has the labels of each name. Listeners of `on_changed` hear of each name with other labels than before."""

    def __init__(self, store: Store, agents: Iterable[Agent]) -> None:
        self._store = store
        self._given = {one.name: Given(one.given, one.given_at, one.ephemeral) for one in agents if one.given_at}
        self._listeners: list[Callable[[str], None]] = []

    def on_changed(self, tell: Callable[[str], None]) -> None:
        """Call `tell(name)` when a name has other labels than before."""
        self._listeners.append(tell)

    @property
    def names(self) -> set[str]:
        """Return the names of which an operator has said something, be it that they have no labels any more."""
        return set(self._given)

    def of(self, name: str) -> dict[str, str]:
        """Return the labels of a name."""
        given = self._given.get(name)
        return {} if given is None else given.labels

    def ephemeral(self, name: str) -> float | None:
        """Return the seconds away after which the agent of a name is forgotten; None: it is expected back."""
        given = self._given.get(name)
        return None if given is None else given.ephemeral

    def about(self, name: str) -> Given | None:
        """Return the labels of a name with their date; None if an operator never gave it any."""
        return self._given.get(name)

    def change(
        self, name: str, labels: Mapping[str, str], drop: Collection[str], now: float, by: str
    ) -> Deferred[Given]:
        """Give a name these labels, and take those of `drop` from it; fires once that is on disk and in force.
        `now`: unix seconds.

        Fails with BadRequest if there would be a label that can't be given.
        """
        try:
            checked(given_rows.changed(self.of(name), labels, drop))
        except BadRequest:
            return fail()

        def done(given: Given) -> Given:
            self._take(name, given)
            return given

        return self._store.call(given_rows.change, name, dict(labels), tuple(drop), now, by).addCallback(done)

    def refresh(self, name: str) -> Deferred[None]:
        """Read a name's labels from the store, where a token may have changed them."""
        return self._store.call(given_rows.read, name).addCallback(lambda given: self._take(name, given))

    def learn(self, others: Mapping[str, Given]) -> Deferred[None]:
        """Take over what other Helens know and is newer than what is known here."""
        newer = {name: given for name, given in others.items() if given.is_newer(self._given.get(name))}
        if not newer:
            return succeed(None)

        def learned(_: object) -> None:
            for name, given in newer.items():
                self._take(name, given)

        return self._store.call(given_rows.learn, newer).addCallback(learned)

    def _take(self, name: str, given: Given | None) -> None:
        held = self._given.get(name)
        if given is None or not given.at or not given.is_newer(held):
            return
        self._given[name] = given
        for tell in self._listeners:
            tell(name)


def checked(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels that an operator may give. Raises BadRequest, with a sentence, for one that can't be given."""
    if len(labels) > MAX_GIVEN:
        raise BadRequest(f"{len(labels)} labels: {MAX_GIVEN} of one agent are the most")
    for key, value in labels.items():
        if not _KEY.fullmatch(key) or len(key) > MAX_WORD or not key.isprintable():
            raise BadRequest(f"{key[:80]!r} is no key of a label: no spaces, and none of = , % {{ }} and quotes")
        if key in OWN:
            raise BadRequest(f"the label {key} is Helen's own: {', '.join(OWN)} can't be given")
        if not value.isprintable() or "," in value or not 0 < len(value) <= MAX_WORD or value != value.strip():
            raise BadRequest(f"{key}={value[:80]!r} is no label: a value has 1 to {MAX_WORD} letters and no comma")
    return dict(labels)
