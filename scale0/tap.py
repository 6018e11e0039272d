"""Reads the options of `twistd scale0 --config FILE [--state DIR]`, and makes the service of one broker."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.application.service import MultiService
from twisted.internet import reactor
from twisted.python import usage
from twisted.python.reflect import namedAny

from groundwork.safe_log import guard_log
from groundwork.steady_reactor import use_monotonic_clock
from scale0.broker.service import BrokerService
from scale0.broker.sockets import Security, host_of
from scale0.broker.startup import load_file
from scale0.config.config import ConfigFault
from scale0.config.keys import AuthorizedKeys, KeyFault, load_pair
from scale0.plain_usage import PlainOptions
from scale0.wire.reader import Network

use_monotonic_clock(reactor)  # before anything is scheduled

# By name: it brings a web framework, a fifth of the start, and is off by default.
FRONT_END = "scale0.broker.management_pages.FrontEnd"


class Options(PlainOptions):
    """Declares the options of `twistd scale0`."""

    program = "scale0"
    synopsis = "--config FILE [--state DIR] [--curve-key FILE --authorized-keys DIR]"
    longdesc = "A Scale0 broker. FILE is JSON, XML or ZFL, by its ending."
    optParameters = [
        ["config", None, None, "The configuration, a file ending in .json, .xml or .zfl."],
        ["state", None, "scale0-state", "The folder for run.json and for what must survive a restart."],
        ["curve-key", None, None, "This broker's CURVE pair, as `scale0ctl keygen` writes it."],
        ["authorized-keys", None, None, "The folder of public keys that may connect."],
        ["config-signing-key", None, None, "An Ed25519 private key, 64 hex digits in a file: signs what is published."],
    ]

    optFlags = [["insecure-network", None, "For trials: every peer may offer and ask what is Helen's, without a role."]]

    def postOptions(self) -> None:
        """Check everything that an operator may have got wrong, before anything is started.

        Raises UsageError with one sentence for options that do not fit together and for faulty files.
        """
        if self["config"] is None:
            raise usage.UsageError("--config FILE is missing")
        if (self["curve-key"] is None) != (self["authorized-keys"] is None):
            raise usage.UsageError(
                "--curve-key and --authorized-keys belong together: CURVE admits the keys of that folder"
            )
        try:
            self.security = security_of(self["curve-key"], self["authorized-keys"])
            self.signing_key = signing_key_of(self["config-signing-key"])
            host_of(load_file(Path(self["config"])).config, self.security)
        except (ConfigFault, KeyFault, OSError) as e:
            raise usage.UsageError(str(e)) from e


class Broker(MultiService):
    """Holds the broker and its HTTP pages, and ends the process's Context when both have stopped."""

    def startService(self) -> None:
        """Start both. Raises SystemExit with a sentence if a port is taken."""
        try:
            super().startService()
        except ConfigFault as e:
            raise SystemExit(f"scale0: {e}") from e
        # twistd would kill itself with the signal again once all is done; a stop that was asked for is no failure.
        stop: Any = reactor.stop  # type: ignore[misc]  # mypy takes the reactor for a module of functions with `self`
        reactor.callWhenRunning(signal.signal, signal.SIGTERM, lambda *_: reactor.callFromThread(stop))

    def stopService(self) -> Any:
        """Stop both; the Deferred fires when the Context has ended."""
        stopped = super().stopService()
        return stopped.addBoth(lambda ignored: Network.of(reactor).close())


def makeService(options: Options) -> MultiService:
    """Return the service that twistd runs."""
    guard_log()
    config, state = Path(options["config"]), Path(options["state"])
    broker = BrokerService(
        reactor, config, state, options.security, options.signing_key, is_open=options["insecure-network"]
    )
    parent = Broker()
    broker.setServiceParent(parent)
    if broker.broker.config.http:
        namedAny(FRONT_END)(reactor, broker).setServiceParent(parent)
    return parent


def security_of(curve_key: str | None, authorized_keys: str | None) -> Security | None:
    """Return the keys of a broker, None without CURVE. Raises KeyFault if a file or the folder cannot be used."""
    if curve_key is None or authorized_keys is None:
        return None
    folder = Path(authorized_keys)
    if not folder.is_dir():
        raise KeyFault(f"{folder}: no such folder; it holds one NAME.key for each peer that may connect")
    return Security(load_pair(Path(curve_key)), AuthorizedKeys(folder))


def signing_key_of(path: str | None) -> Ed25519PrivateKey | None:
    """Return the key of a file, None without one. Raises KeyFault if there is none in it, OSError without the file."""
    if path is None:
        return None
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(Path(path).read_text().strip()))
    except ValueError:
        raise KeyFault(f"{path}: an Ed25519 private key is 64 hex digits") from None
