"""`twistd scale0 --config FILE [--state DIR]`: the options, and the wiring of one broker."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.application.service import MultiService
from twisted.internet import reactor
from twisted.python import usage

from scale0.config import ConfigFault
from scale0.keys import AuthorizedKeys, KeyFault, load_pair
from scale0.ports import Security, host_of
from scale0.reader import Network
from scale0.service import BrokerService
from scale0.web import FrontEnd


class Options(usage.Options):
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
        if self["config"] is None:
            raise usage.UsageError("--config FILE is missing")
        if (self["curve-key"] is None) != (self["authorized-keys"] is None):
            raise usage.UsageError(
                "--curve-key and --authorized-keys belong together: CURVE lets in whom the folder names"
            )


class Broker(MultiService):
    """The broker and what stands beside it; ends the process's Context when all have stopped."""

    def startService(self) -> None:
        super().startService()
        # twistd would kill itself with the signal again once all is done; asked to stop in order, we have not failed.
        reactor.callWhenRunning(signal.signal, signal.SIGTERM, lambda *_: reactor.callFromThread(reactor.stop))

    def stopService(self) -> Any:
        stopped = super().stopService()
        return stopped.addBoth(lambda ignored: Network.of(reactor).close())


def security_of(curve_key: str | None, authorized_keys: str | None) -> Security | None:
    if curve_key is None or authorized_keys is None:
        return None
    return Security(load_pair(Path(curve_key)), AuthorizedKeys(Path(authorized_keys)))


def makeService(options: Options) -> MultiService:
    try:
        security = security_of(options["curve-key"], options["authorized-keys"])
        signing_key = _signing_key(options["config-signing-key"])
        broker = BrokerService(reactor, Path(options["config"]), Path(options["state"]), security, signing_key)
        host_of(broker.broker.config, security)
    except (ConfigFault, KeyFault, OSError) as e:
        raise usage.UsageError(str(e)) from e
    parent = Broker()
    broker.setServiceParent(parent)
    if broker.broker.config.http:
        FrontEnd(reactor, broker).setServiceParent(parent)
    return parent


def _signing_key(path: str | None) -> Ed25519PrivateKey | None:
    if path is None:
        return None
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(Path(path).read_text().strip()))
    except ValueError:
        raise KeyFault(f"{path}: an Ed25519 private key is 64 hex digits") from None
