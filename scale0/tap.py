"""`twistd scale0 --config FILE [--state DIR]`: the options, and the wiring of one broker."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.application.service import MultiService
from twisted.internet import reactor
from twisted.python import usage
from twisted.python.reflect import namedAny

from scale0.config import ConfigFault
from scale0.keys import AuthorizedKeys, KeyFault, load_pair
from scale0.loading import load_file
from scale0.plain_usage import PlainOptions
from scale0.ports import Security, host_of
from scale0.reader import Network
from scale0.service import BrokerService

FRONT_END = "scale0.web.FrontEnd"  # by name: it brings a web framework, a fifth of the start, and is off by default


class Options(PlainOptions):
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

    def postOptions(self) -> None:
        """All that a person may have got wrong is told here, in one line and without a traceback."""
        if self["config"] is None:
            raise usage.UsageError("--config FILE is missing")
        if (self["curve-key"] is None) != (self["authorized-keys"] is None):
            raise usage.UsageError(
                "--curve-key and --authorized-keys belong together: CURVE lets in whom the folder names"
            )
        try:
            self.security = security_of(self["curve-key"], self["authorized-keys"])
            self.signing_key = signing_key_of(self["config-signing-key"])
            host_of(load_file(Path(self["config"])).config, self.security)
        except (ConfigFault, KeyFault, OSError) as e:
            raise usage.UsageError(str(e)) from e


class Broker(MultiService):
    """The broker and what stands beside it; ends the process's Context when all have stopped."""

    def startService(self) -> None:
        try:
            super().startService()
        except ConfigFault as e:  # a port that somebody else has
            raise SystemExit(f"scale0: {e}") from e
        # twistd would kill itself with the signal again once all is done; asked to stop in order, we have not failed.
        reactor.callWhenRunning(signal.signal, signal.SIGTERM, lambda *_: reactor.callFromThread(reactor.stop))

    def stopService(self) -> Any:
        stopped = super().stopService()
        return stopped.addBoth(lambda ignored: Network.of(reactor).close())


def makeService(options: Options) -> MultiService:
    config, state = Path(options["config"]), Path(options["state"])
    broker = BrokerService(reactor, config, state, options.security, options.signing_key)
    parent = Broker()
    broker.setServiceParent(parent)
    if broker.broker.config.http:
        namedAny(FRONT_END)(reactor, broker).setServiceParent(parent)
    return parent


def security_of(curve_key: str | None, authorized_keys: str | None) -> Security | None:
    if curve_key is None or authorized_keys is None:
        return None
    folder = Path(authorized_keys)
    if not folder.is_dir():
        raise KeyFault(f"{folder}: no such folder; it holds one NAME.key for each peer that may connect")
    return Security(load_pair(Path(curve_key)), AuthorizedKeys(folder))


def signing_key_of(path: str | None) -> Ed25519PrivateKey | None:
    if path is None:
        return None
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(Path(path).read_text().strip()))
    except ValueError:
        raise KeyFault(f"{path}: an Ed25519 private key is 64 hex digits") from None
