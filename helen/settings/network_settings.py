"""Reads the settings of Helen's part in a Scale0 network and in ZeroTask. Values only: nothing here needs pyzmq.

A broker is written `tcp://HOST:PORT` or `ipc://PATH`; under CURVE with `#NAME` behind it, NAME.key being the broker's
public key in the folder of --authorized-keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

SINGLE = (
    "scale0-identity", "embed-scale0", "network-key", "zerotask", "zerotask-listen", "curve-key", "authorized-keys",
)  # fmt: skip
REPEATED = ("scale0",)
FLAGS = ("embed-zerotask", "insecure-network")
IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")  # as Scale0 and ZeroTask have it, with room to spare
_ENDPOINT = re.compile(r"tcp://(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}|ipc://[!\x22$-~]{1,100}")
_LOOPBACK = re.compile(r"tcp://(localhost|127(\.[0-9]{1,3}){3}|\[::1\]):[0-9]+|ipc://.+")


@frozen
class Broker:
    """Holds the endpoint of a broker; `name` is that of its key, empty without CURVE."""

    endpoint: str
    name: str = ""


@frozen
class NetworkSettings:
    """Holds the settings of Scale0 and ZeroTask: all of it is off unless it is set."""

    scale0: tuple[Broker, ...] = ()
    identity: str = ""  # empty: the first --name, or this machine's
    embed_scale0: Path | None = None  # the broker's configuration
    zerotask: Broker | None = None
    embed_zerotask: bool = False
    zerotask_listen: str | None = None  # of the embedded broker; None: a socket in the state directory
    network_key: Path | None = None  # what Helens share is signed with it; without one they share nothing
    curve_key: Path | None = None
    authorized_keys: Path | None = None
    insecure: bool = False  # for trials: peers without a key may do what is Helen's

    @property
    def is_wanted(self) -> bool:
        """Return True if pyzmq is needed."""
        return bool(self.scale0 or self.embed_scale0 or self.zerotask or self.embed_zerotask)


def read(found: Mapping[str, Any]) -> NetworkSettings:
    """Read the settings of the network. Raises ValueError with a sentence for the first that can't be used."""
    scale0 = found.get("scale0", [])
    scale0 = [scale0] if isinstance(scale0, str) else scale0
    chosen = NetworkSettings(
        scale0=tuple(_broker(str(text), "--scale0") for text in scale0),
        identity=_identity(str(found.get("scale0-identity", ""))),
        embed_scale0=_path(found, "embed-scale0"),
        zerotask=_broker(str(found["zerotask"]), "--zerotask") if found.get("zerotask") else None,
        embed_zerotask=bool(found.get("embed-zerotask", False)),
        zerotask_listen=_endpoint(str(found["zerotask-listen"]), "--zerotask-listen")
        if found.get("zerotask-listen")
        else None,
        network_key=_path(found, "network-key"),
        curve_key=_path(found, "curve-key"),
        authorized_keys=_path(found, "authorized-keys"),
        insecure=bool(found.get("insecure-network", False)),
    )
    _check_together(chosen)
    return chosen


def _path(found: Mapping[str, Any], name: str) -> Path | None:
    return Path(found[name]).absolute() if found.get(name) else None


def _identity(text: str) -> str:
    if text and not IDENTITY.fullmatch(text):
        raise ValueError(f"--scale0-identity {text!r}: 1 to 100 letters, digits and ._:-, a letter or digit first")
    return text


def _broker(text: str, setting: str) -> Broker:
    endpoint, _, name = text.partition("#")
    return Broker(_endpoint(endpoint, setting), name)


def is_trusted(broker: Broker) -> bool:
    """Return True if a broker proves its key, or is reached through a file that only its own user can open."""
    return bool(broker.name) or broker.endpoint.startswith("ipc://")


def _endpoint(text: str, setting: str) -> str:
    if not _ENDPOINT.fullmatch(text) or (text.startswith("tcp:") and int(text.rpartition(":")[2]) > 65_535):
        raise ValueError(f"{setting} {text!r}: write tcp://HOST:PORT, for example tcp://127.0.0.1:5556, or ipc://PATH")
    return text


def _check_together(chosen: NetworkSettings) -> None:
    """Check settings that depend on each other. Raises ValueError with a sentence."""
    if (chosen.curve_key is None) != (chosen.authorized_keys is None):
        raise ValueError("--curve-key and --authorized-keys belong together: CURVE lets in whom the folder names")
    if chosen.network_key is not None and not chosen.scale0 and chosen.embed_scale0 is None:
        raise ValueError("--network-key is for a network: give --scale0 tcp://HOST:PORT, or --embed-scale0 FILE")
    if chosen.zerotask is not None and chosen.embed_zerotask:
        raise ValueError("--zerotask and --embed-zerotask exclude each other: tasks lie with one broker")
    if chosen.zerotask_listen is not None and not chosen.embed_zerotask:
        raise ValueError("--zerotask-listen is for --embed-zerotask")
    called = [("--scale0", broker) for broker in chosen.scale0]
    called += [("--zerotask", chosen.zerotask)] if chosen.zerotask else []
    for setting, broker in called:
        if broker.name and chosen.curve_key is None:
            raise ValueError(f"{setting} {broker.endpoint}#{broker.name}: a broker's key needs --curve-key, too")
        if not broker.name and not _LOOPBACK.fullmatch(broker.endpoint):
            raise ValueError(
                f"{setting} {broker.endpoint}: beyond this machine only CURVE: give --curve-key, --authorized-keys, and"
                f" {broker.endpoint}#NAME, where NAME.key in that folder is the broker's key"
            )


NONE = NetworkSettings()
