"""Where Helen's settings come from: flags, then HELEN_* variables, then a TOML file, then defaults. Values only.

docs/server.rst lists them. An unknown name or a bad value is one sentence that says where it stands.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from helen import network_settings, rings
from helen.durations import seconds
from helen.network_settings import NetworkSettings
from helen.ports import DEFAULT_PORT
from helen.rings import RingSpec

DEFAULT_WEB = "127.0.0.1:4167"
REPEATED = ("name", *network_settings.REPEATED)
FLAGS = ("insecure-plaintext", *network_settings.FLAGS)
SINGLE = (
    "state", "listen", "web", "checks", "signing-keys", "minimum-equus", "retention", "rings",
    *network_settings.SINGLE,
)  # fmt: skip


class SettingsError(Exception):
    """A setting that can't be used; the text says which, where, and what is expected."""


@frozen
class Settings:
    """`listen` and `web` are (host, port); `web` is None for none. `retention` is in seconds. No `rings`: at once."""

    state: Path
    listen: tuple[str, int] = ("*", DEFAULT_PORT)
    web: tuple[str, int] | None = None
    checks: Path | None = None
    names: tuple[str, ...] = ()
    signing_keys: Path | None = None
    minimum_equus: tuple[int, ...] = ()
    retention: float = 7 * 86_400.0
    insecure_plaintext: bool = False
    rings: tuple[RingSpec, ...] | None = None  # None: the usual ones for pushes, none for the folder
    network: NetworkSettings = network_settings.NONE


def gather(flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    """One value for each setting that anybody has given, the strongest source winning. Names are those of the flags."""
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
        _judge_kind(path, name, value)
    return named


def _judge_kind(path: Path, name: str, value: Any) -> None:
    """Of a value in the file: the readers below expect text, but for these."""
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
    """Judge every value; raises SettingsError."""
    if not found.get("state"):
        raise SettingsError("--state DIR is missing: the directory that holds all that Helen must not forget")
    names = found.get("name", [])
    names = [names] if isinstance(names, str) else names
    web = str(found.get("web", DEFAULT_WEB))
    return Settings(
        state=Path(found["state"]).absolute(),
        listen=address(str(found.get("listen", f"*:{DEFAULT_PORT}")), "--listen"),
        web=None if web == "off" else address(web, "--web"),
        checks=Path(found["checks"]).absolute() if found.get("checks") else None,
        names=tuple(str(name) for name in names),
        signing_keys=Path(found["signing-keys"]) if found.get("signing-keys") else None,
        minimum_equus=_version(str(found.get("minimum-equus", ""))),
        retention=_seconds(found.get("retention", "7d"), "--retention"),
        insecure_plaintext=bool(found.get("insecure-plaintext", False)),
        rings=_rings(found.get("rings")),
        network=_network(found),
    )


def _network(found: Mapping[str, Any]) -> NetworkSettings:
    try:
        return network_settings.read(found)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def address(text: str, setting: str) -> tuple[str, int]:
    """`HOST:PORT`, with brackets round an IPv6 address; port 0 is any free one."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise SettingsError(f"{setting} {text!r}: write HOST:PORT, for example 127.0.0.1:{DEFAULT_PORT} (0: any port)")
    return host, int(port)


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".") if text else []
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise SettingsError(f"--minimum-equus {text!r}: write a version such as 1.4.0")
    return tuple(int(part) for part in parts)


def _rings(value: Any) -> tuple[RingSpec, ...] | None:
    """`1`, `true` and `yes` are the usual ones; `0`, `false` and `no` are none."""
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
        return seconds(text)
    except ValueError as error:
        raise SettingsError(f"{setting}: {error}") from error
