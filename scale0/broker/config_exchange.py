"""Publishes the configuration of a broker to others, and takes theirs: config_pub_port and config_sub_ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from groundwork.one_by_one import OneByOne
from scale0.broker.broker import Broker
from scale0.broker.configurations import Configurations
from scale0.broker.context import Effect
from scale0.broker.sockets import BrokerSockets
from scale0.config.config import ConfigFault
from scale0.config.schema import BrokerConfig
from scale0.documents import publication
from scale0.documents.collection import SCOPE
from scale0.documents.publication import ALL, NotAPublication, Publication

KEEPALIVE = 1.0  # seconds between two keepalives of the configuration
ASK_AGAIN = 5.0  # seconds between two new subscriptions, when keepalives tell of a version that is missing here
REPEAT = 1.0  # seconds between two repetitions of the documents for new subscribers
IN_THREAD = 64 << 10  # bytes of a document from which on it is read in a thread: msgspec does 100 MB/s, the schema 5

log = Logger()


class ConfigExchange:
    """Connects the publications of Configurations with the sockets of one broker.

    `clock` returns monotonic and unix seconds, `perform` carries out effects, and `in_turn` runs blocking work in a
    thread, one piece at a time of each queue.
    """

    def __init__(
        self,
        reactor: Any,
        broker: Broker,
        configurations: Configurations,
        sockets: BrokerSockets,
        reading: OneByOne,
        clock: Callable[[], tuple[float, float]],
        perform: Callable[[list[Effect]], None],
        in_turn: Callable[[OneByOne, Callable[[], Any]], Deferred[Any]],
    ) -> None:
        self._reactor, self._broker, self._configurations, self._sockets = reactor, broker, configurations, sockets
        self._reading, self._clock, self._perform, self._in_turn = reading, clock, perform, in_turn
        self._asked_again = self._repeated = float("-inf")
        self._repeat: Any = None
        self._rejected: dict[str, str] = {}  # the last alarm about each scope; there are two

    def connect(self) -> None:
        """Subscribe to the sources that the configuration names."""
        self._sockets.connect_sources(self._broker.config, self._topics(), self.received)

    def stop(self) -> None:
        """Cancel the repetition that is still to come."""
        if self._repeat is not None and self._repeat.active():
            self._repeat.cancel()

    def _topics(self) -> list[bytes]:
        config = self._broker.config
        return [f"config/{config.network}/{scope}".encode() for scope in (config.identity, ALL, SCOPE)]

    # ------------------------------------------------------------------------------------ receiving

    def received(self, frames: list[bytes]) -> None:
        """Take a publication that has arrived from a source."""
        config = self._broker.config
        try:
            new = publication.parse(frames)
        except NotAPublication as e:
            log.warn("a message on config_sub_ports was dropped: {fault}", fault=str(e))
            return
        if new.network != config.network:
            return
        if new.scope.startswith(SCOPE) and self._broker.state == "active":
            self._perform(self._broker.document(new, *self._clock()))
        elif new.scope in (config.identity, ALL):
            self._configuration_received(new)

    def _configuration_received(self, new: Publication) -> None:
        verdict = self._configurations.judge(new)
        if verdict == "conflict":
            text = f"two documents of version {new.version} for {new.scope}; the first one is kept"
            self._perform(self._broker.alarm(text, *self._clock()))
        elif verdict == "news" and new.is_keepalive:
            self._ask_again()
        elif verdict == "news":
            self._read(new)

    def _ask_again(self) -> None:
        """Subscribe again, as a keepalive tells of a document that was lost on its way."""
        now = self._clock()[0]
        if now - self._asked_again >= ASK_AGAIN:
            self._asked_again = now
            self._sockets.subscribe_again(self._topics())

    def _read(self, new: Publication) -> None:
        if len(new.document) < IN_THREAD:
            reading = self._reading.run(lambda: maybeDeferred(self._configurations.read, new, self._broker.config))
        else:
            work = self._configurations.read
            reading = self._in_turn(self._reading, lambda: work(new, self._broker.config))
        reading.addCallback(self._accept, new).addErrback(self._reject, new)
        reading.addErrback(lambda failure: log.failure("a received configuration is left out", failure))

    def _accept(self, config: BrokerConfig, new: Publication) -> None:
        if self._configurations.judge(new) != "news":
            return  # another source was faster while this one was read
        config = self._configurations.accept(new, config)
        self._rejected.pop(new.scope, None)
        version = max(self._broker.version, new.version)
        self._perform(self._broker.configured(config, version, *self._clock()))

    def _reject(self, failure: Failure, new: Publication) -> None:
        """Raise an alarm, once: the document comes again with each subscription, and may fit later."""
        failure.trap(ConfigFault)
        text = f"configuration {new.version} is refused: {failure.getErrorMessage()}"
        if self._rejected.get(new.scope) != text:
            self._rejected[new.scope] = text
            self._perform(self._broker.alarm(text, *self._clock()))

    # ------------------------------------------------------------------------------------ publishing

    def subscribed(self, message: bytes) -> None:
        """Repeat all publications for a new subscriber; for many at once, once."""
        if message[:1] == b"\1" and self._repeat is None:
            wait = max(0.0, self._repeated + REPEAT - self._clock()[0])
            self._repeat = self._reactor.callLater(wait, self._repeat_all)

    def _repeat_all(self) -> None:
        self._repeat, self._repeated = None, self._clock()[0]
        self.publish_all()

    def changed(self) -> None:
        """Publish everything anew, as another configuration is in force."""
        self._configurations.changed()
        self.publish_all()

    def publish_all(self) -> None:
        """Publish configurations and documents."""
        for each in (*self._publications(), *self._broker.sharing.documents.all()):
            self._sockets.publish(each.frames())

    def keepalive(self) -> None:
        """Publish the versions of all configurations, so that a subscriber sees which it lacks."""
        for each in self._publications():
            self._sockets.publish(each.keepalive())

    def _publications(self) -> list[Publication]:
        return self._configurations.publications(self._broker.config, self._broker.version)

    def share(self, tree: dict[str, Any]) -> int:
        """Put names of schema.SHARED into force here and in all the network; return the version given to them.

        Raises ConfigFault if anything in the tree is wrong.
        """
        version = max(self._broker.version + 1, int(1000 * self._clock()[1]))
        merged = self._configurations.share(tree, self._broker.config, version)
        self._perform(self._broker.configured(merged, version, *self._clock()))
        return version
