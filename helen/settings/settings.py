"""Reads Helen's settings: from flags, then HELEN_* variables, then a TOML file, then defaults. Values only.

docs/server.rst lists them. The error for an unknown name or a bad value is one sentence that says where it was given.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from groundwork.durations import parse_duration
from helen.quotas.quotas import USUAL, Quotas, read_quotas
from helen.rollout import rings
from helen.rollout.rings import RingSpec
from helen.settings import network_settings
from helen.settings.network_settings import NetworkSettings

DEFAULT_PORT = 4166  # of agents (docs/protocol.rst, section 1)
HUB, STOCK = TRANSPORTS = ("hub", "stock")
DEFAULT_WEB = f"127.0.0.1:{DEFAULT_PORT + 1}"
REPEATED = ("name", "trust-label", "quota", *network_settings.REPEATED)
_LABEL_KEY = re.compile(r"[^\s=,%*]{1,255}")
FLAGS = ("insecure-plaintext", "mute", "web-plain", *network_settings.FLAGS)
SINGLE = (
    "state", "listen", "web", "web-tls", "checks", "signing-keys", "minimum-equus", "retention", "rings", "transport",
    *network_settings.SINGLE,
)  # fmt: skip


class SettingsError(Exception):
    """Says that a setting can't be used; the text says which, where, and what is expected."""


@frozen
class Settings:
    """Holds the settings of one Helen. `listen` and `web` are (host, port), `web` None for none; `retention` in
    seconds.
    """

    state: Path
    listen: tuple[str, int] = ("*", DEFAULT_PORT)
    web: tuple[str, int] | None = None
    web_tls: tuple[Path, Path] | None = None  # certificate and key of `web`, PEM
    checks: Path | None = None
    names: tuple[str, ...] = ()
    signing_keys: Path | None = None
    minimum_equus: tuple[int, ...] = ()
    retention: float = 7 * 86_400.0
    insecure_plaintext: bool = False
    transport: str = HUB  # what carries agents' connections: one of TRANSPORTS
    mute: bool = False  # no notification leaves
    web_plain: bool = False  # a browser may log in over plain HTTP from another machine
    rings: tuple[RingSpec, ...] | None = None  # None: the usual ones for pushes, none for the folder
    quotas: Quotas = USUAL
    network: NetworkSettings = network_settings.NONE
    trust_labels: frozenset[str] = frozenset()  # keys under which agents' own labels steer


def gather(flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    """Return the value of each setting that is given, by the name of its flag; the strongest source wins.

    Raises SettingsError if the file can't be read, or has a name or a kind of value that is unknown.
    """
    found: dict[str, Any] = {}
    if config is not None:
        found |= _from_file(config)
    for name in (*SINGLE, *REPEATED, *FLAGS):
        variable = "HELEN_" + name.upper().replace("-", "_")
        if environment.get(variable):  # an empty one is none: that is how EnvironmentFile= leaves things out
            found[name] = _from_environment(name, variable, environment[variable])
    return found | {name: value for name, value in flags.items() if value not in (None, [], False)}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"--config {path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config {path} is no TOML: {error}") from error
    named = {key.replace("_", "-"): value for key, value in document.items()}
    unknown = named.keys() - {*SINGLE, *REPEATED, *FLAGS}
    if unknown:
        known = ", ".join((*SINGLE, *REPEATED, *FLAGS))
        raise SettingsError(f"--config {path}: {sorted(unknown)[0]!r} is no setting. There are: {known}")
    for name, value in named.items():
        _check_kind(path, name, value)
    return named


def _check_kind(path: Path, name: str, value: Any) -> None:
    """Check the kind of a value in the file: most readers below expect text."""
    if name in FLAGS:
        good, wanted = isinstance(value, bool), "true or false"
    elif name in REPEATED:
        listed = value if isinstance(value, list) else [value]
        good, wanted = all(isinstance(each, str) for each in listed), "a text, or a list of them"
    elif name == "retention":
        good, wanted = isinstance(value, str | int | float) and not isinstance(value, bool), 'a duration such as "7d"'
    elif name == "rings":
        good, wanted = isinstance(value, str | bool), f'rings such as "{rings.USUAL}", or true or false'
    else:
        good, wanted = isinstance(value, str), "a text in quotes"
    if not good:
        raise SettingsError(f"--config {path}: {name} is {value!r}: write {wanted}")


def _from_environment(name: str, variable: str, value: str) -> Any:
    if name in REPEATED:
        return [part.strip() for part in value.split(",") if part.strip()]
    if name not in FLAGS:
        return value
    if value.lower() not in ("0", "1", "true", "false", "yes", "no"):
        raise SettingsError(f"{variable} is {value!r}: write 1 or 0")
    return value.lower() in ("1", "true", "yes")


def read(found: Mapping[str, Any]) -> Settings:
    """Read the values that `gather` found. Raises SettingsError for the first that is missing or can't be used."""
    if not found.get("state"):
        raise SettingsError("--state DIR is missing: the directory that holds all that Helen must not forget")
    names = found.get("name", [])
    names = [names] if isinstance(names, str) else names
    web = str(found.get("web", DEFAULT_WEB))
    return Settings(
        state=Path(found["state"]).absolute(),
        listen=address(str(found.get("listen", f"*:{DEFAULT_PORT}")), "--listen"),
        web=None if web == "off" else address(web, "--web"),
        web_tls=_pair(found.get("web-tls")),
        checks=Path(found["checks"]).absolute() if found.get("checks") else None,
        names=tuple(str(name) for name in names),
        signing_keys=Path(found["signing-keys"]) if found.get("signing-keys") else None,
        minimum_equus=_version(str(found.get("minimum-equus", ""))),
        retention=_seconds(found.get("retention", "7d"), "--retention"),
        insecure_plaintext=bool(found.get("insecure-plaintext", False)),
        transport=_transport(str(found.get("transport", HUB))),
        mute=bool(found.get("mute", False)),
        web_plain=bool(found.get("web-plain", False)),
        rings=_rings(found.get("rings")),
        quotas=_quotas(found.get("quota", [])),
        network=_network(found),
        trust_labels=_keys(found.get("trust-label", [])),
    )


def _quotas(given: Any) -> Quotas:
    try:
        return read_quotas([given] if isinstance(given, str) else given)
    except ValueError as error:
        raise SettingsError(f"--quota {error}") from error


def _transport(text: str) -> str:
    if text not in TRANSPORTS:
        raise SettingsError(f"--transport {text!r}: write hub or stock")
    return text


def _pair(value: Any) -> tuple[Path, Path] | None:
    """Read `CERT,KEY`, two files. Raises SettingsError."""
    if not value:
        return None
    names = [name.strip() for name in str(value).split(",")]
    if len(names) != 2 or not all(names):
        raise SettingsError(f"--web-tls {value!r}: write CERT,KEY, the files of a certificate and its key")
    return Path(names[0]).absolute(), Path(names[1]).absolute()


def _network(found: Mapping[str, Any]) -> NetworkSettings:
    try:
        return network_settings.read(found)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def address(text: str, setting: str) -> tuple[str, int]:
    """Read `HOST:PORT`, with brackets round an IPv6 address; port 0 is any free one. Raises SettingsError."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise SettingsError(f"{setting} {text!r}: write HOST:PORT, for example 127.0.0.1:{DEFAULT_PORT} (0: any port)")
    return host, int(port)


def _keys(given: Any) -> frozenset[str]:
    """Read keys of labels. Raises SettingsError for a text that is none, such as one with a value."""
    listed = [given] if isinstance(given, str) else given
    for text in listed:
        if not _LABEL_KEY.fullmatch(text):
            raise SettingsError(f"--trust-label {text!r}: write the key of a label, such as site, and no value")
    return frozenset(listed)


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".") if text else []
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise SettingsError(f"--minimum-equus {text!r}: write a version such as 1.4.0")
    return tuple(int(part) for part in parts)


def _rings(value: Any) -> tuple[RingSpec, ...] | None:
    """Read rings: `1`, `true` and `yes` are the usual ones; `0`, `false` and `no` are none."""
    if value is None:
        return None
    said = str(value).lower()
    text = rings.USUAL if said in ("1", "true", "yes") else rings.OFF if said in ("0", "false", "no") else str(value)
    try:
        return rings.read_rings(text)
    except ValueError as error:
        raise SettingsError(f"--rings: {error}") from error


def _seconds(text: Any, setting: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{setting}: {error}") from error
