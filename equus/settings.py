"""Merge and check the agent's settings: flags, environment, file and defaults. It reads files, and starts nothing.

Flags win over the environment (`EQUUS_*`), the environment over the TOML file, the file over the defaults. Each mistake
is a SettingsError with one sentence that says what to do next.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from equus import nrpe_settings

DEFAULT_PORT = 4166  # docs/protocol.rst, section 1
MAX_SERVERS = 64  # addresses to try; more than any network of Helens that one agent can belong to
MAX_LABELS = 64  # each goes into every load report and into Helen's index
LOG_LEVELS = ("debug", "info", "warn", "error", "critical")
AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")  # docs/protocol.rst, section 1
LABEL_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,254}")  # with those of Kubernetes: app.kubernetes.io/name
MAX_LABEL_VALUE = 255  # characters
# Names of the settings in the TOML file and, upper case with underscores behind EQUUS_, in the environment.
TEXTS = (
    "state", "join", "join-file", "certificate", "key", "ca", "checks", "policy", "secrets", "name", "log-level",
    "labels-from", *nrpe_settings.NAMES,
)  # fmt: skip
SWITCHES = ("once", "insecure-plaintext")
LISTS = ("server", "label")
ALL = (*TEXTS, *SWITCHES, *LISTS)
MAX_TOKEN = 4_096  # characters of a line on standard input, or of a file
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class SettingsError(Exception):
    """Says that a setting is wrong; the text is one sentence for the operator."""


@frozen
class Server:
    """Describes one Helen to dial.

    `verify` is the name or address that its certificate must be for, `ca` the PEM of its CA if that is not our own.
    """

    host: str
    port: int
    verify: str
    ca: str | None = None

    @property
    def address(self) -> str:
        """Return HOST:PORT, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class Settings:
    """Holds all settings of the agent, checked. They don't change while it runs."""

    servers: tuple[Server, ...]
    state: Path
    join: str | None = field(default=None, repr=False)
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    checks: Path | None = None
    policy: Path | None = None
    secrets: Path | None = None
    name: str | None = None
    labels: Mapping[str, str] = field(factory=dict)
    labels_from: str | None = None  # a file or a command line that has more of them
    nrpe: nrpe_settings.NrpeSettings | None = None  # where check_nrpe is answered
    once: bool = False
    insecure_plaintext: bool = False
    log_level: str = "info"
    own_files: tuple[Path, ...] = ()  # keys, passwords and tokens, wherever they lie: no check reads them


def gather(flags: Mapping[str, Any], environment: Mapping[str, str], home: Path, root: bool) -> Settings:
    """Merge the four sources; `flags` holds only flags that were given. Raises SettingsError at the first mistake."""
    from_environment = read_environment(environment)
    config = flags.get("config") or environment.get("EQUUS_CONFIG")
    from_file = read_file(Path(config)) if config else {}
    from_flags = {name: value for name, value in flags.items() if name != "config"}
    merged: dict[str, Any] = {"state": str(default_state(environment, home, root))}
    for source in (from_file, from_environment, from_flags):
        if "join" in source or "join-file" in source:  # the token of a weaker source, too, gives way to either
            merged = {name: value for name, value in merged.items() if name not in ("join", "join-file")}
        merged |= source
    settings = check_settings(merged | {"join": read_token(merged)})
    named = [merged.get("join-file"), config, environment.get("CREDENTIALS_DIRECTORY")]
    given = [Path(os.path.abspath(path)) for path in named if path]
    keys = [settings.key, settings.secrets, settings.nrpe.key if settings.nrpe else None]
    return evolve(settings, own_files=(*filter(None, keys), *given))


def read_token(merged: Mapping[str, Any]) -> str | None:
    """Return the join token: as it is given, of standard input for `-`, or of the file; None without one.

    Raises SettingsError if it can't be read. A file that is gone is no fault once the agent has an identity: one with a
    token that is good once is best deleted.
    """
    given, path = merged.get("join"), merged.get("join-file")
    if given == "-":
        given = sys.stdin.readline(MAX_TOKEN).strip()
        if not given:
            raise SettingsError("--join -: standard input has no token; write the one that `helen token` printed.")
    if given or not path:
        return given or None
    if not Path(path).exists() and (Path(merged["state"]) / "agent.pem").exists():
        return None
    return _read_text(Path(path), "--join-file (or EQUUS_JOIN_FILE)").strip()[:MAX_TOKEN] or None


def default_state(environment: Mapping[str, str], home: Path, root: bool) -> Path:
    """Return systemd's folder for the state of services if run by root, else the user's own folder for state."""
    if root:
        return Path("/var/lib/equus")
    return Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "equus"


def read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in EQUUS_ variables, by the names of the flags. Raises SettingsError if one is wrong."""
    found: dict[str, Any] = {}
    for name in ALL:
        value = environment.get("EQUUS_" + name.upper().replace("-", "_"))
        if value is not None:
            found[name] = _from_text(name, value)
    return found


def _from_text(name: str, value: str) -> Any:
    if name in LISTS:
        return [part for part in re.split(r"[,\s]+", value) if part]
    if name in SWITCHES:
        if value.lower() not in _TRUE + _FALSE:
            raise SettingsError(f"EQUUS_{name.upper().replace('-', '_')}={value!r}: say 1 or 0.")
        return value.lower() in _TRUE
    return value


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file, by the names of the flags.

    Raises SettingsError if it can't be read, or has an unknown key: that is most often a slip of the pen.
    """
    try:
        document = tomllib.loads(_read_text(path, "--config"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}.") from error
    for key, value in document.items():
        if key not in ALL:
            raise SettingsError(f"{path}: unknown key {key!r}; known are {', '.join(sorted(ALL))}.")
        _check_type(path, key, value)
    if isinstance(document.get("label"), dict):
        document["label"] = [f"{key}={value}" for key, value in document["label"].items()]
    if isinstance(document.get("server"), str):
        document["server"] = [document["server"]]
    return document


def _check_type(path: Path, key: str, value: Any) -> None:
    if key in SWITCHES:
        wanted, good = "true or false", isinstance(value, bool)
    elif key in LISTS:
        wanted = "a list of strings" + (" or a table" if key == "label" else "")
        items = value if isinstance(value, list) else [value] if key == "server" else None
        items = list(value.values()) if key == "label" and isinstance(value, dict) else items
        good = items is not None and all(isinstance(item, str) for item in items)
    else:
        wanted, good = "a string", isinstance(value, str)
    if not good:
        raise SettingsError(f"{path}: {key} must be {wanted}, not {value!r}.")


def _read_text(path: Path, told_by: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"{told_by}: cannot read {path}: {reason}.") from error


def check_settings(merged: Mapping[str, Any]) -> Settings:
    """Return checked Settings of merged raw values. Raises SettingsError at the first mistake."""
    servers = tuple(parse_server(text) for text in merged.get("server") or ())
    if not servers:
        raise SettingsError("Say where Helen listens: --server HOST:PORT (or EQUUS_SERVER).")
    if len(servers) > MAX_SERVERS:
        raise SettingsError(f"{len(servers)} servers are given; at most {MAX_SERVERS} are allowed.")
    _check_identity(merged)
    level = merged.get("log-level") or "info"
    if level not in LOG_LEVELS:
        raise SettingsError(f"--log-level {level!r}: say one of {', '.join(LOG_LEVELS)}.")
    checks = _path(merged, "checks")
    if checks is not None and not checks.is_dir():
        raise SettingsError(f"--checks {checks}: no such folder. It holds one .lua file per check.")
    try:
        nrpe = nrpe_settings.read(merged)
    except ValueError as fault:
        raise SettingsError(str(fault)) from fault
    return Settings(
        servers=servers,
        state=Path(os.path.abspath(merged["state"])),
        join=merged.get("join") or None,
        certificate=_path(merged, "certificate"),
        key=_path(merged, "key"),
        ca=_path(merged, "ca"),
        checks=checks,
        policy=_path(merged, "policy"),
        secrets=_path(merged, "secrets"),
        name=_check_name(merged.get("name")),
        labels=parse_labels(merged.get("label") or ()),
        labels_from=merged.get("labels-from") or None,
        nrpe=nrpe,
        once=bool(merged.get("once")),
        insecure_plaintext=bool(merged.get("insecure-plaintext")),
        log_level=level,
    )


def _check_identity(merged: Mapping[str, Any]) -> None:
    files = [name for name in ("certificate", "key", "ca") if merged.get(name)]
    if files and merged.get("join"):
        raise SettingsError(
            "--join makes an identity and --certificate brings one: give one of the two. "
            "(Certificates from `helen certificate` need no token.)"
        )
    if files and len(files) < 3:
        missing = [f"--{name}" for name in ("certificate", "key", "ca") if name not in files]
        raise SettingsError(f"--{files[0]} alone is not enough: {' and '.join(missing)} too, please.")
    if merged.get("insecure-plaintext") and (files or merged.get("join")):
        raise SettingsError("--insecure-plaintext has no certificates: leave out either it or the identity.")


def _path(merged: Mapping[str, Any], name: str) -> Path | None:
    return Path(os.path.abspath(merged[name])) if merged.get(name) else None


def _check_name(name: str | None) -> str | None:
    if name is None or is_agent_name(name):
        return name
    raise SettingsError(
        f"--name {name!r}: a name is 1 to 63 of a-z, 0-9, dot, underscore and hyphen, begins with a letter or digit, "
        "and has no two dots together."
    )


def is_agent_name(name: str) -> bool:
    """Return True if this is a legal name of an agent (docs/protocol.rst, section 1)."""
    return bool(AGENT_NAME.fullmatch(name)) and ".." not in name


def parse_server(text: str) -> Server:
    """Return the Server that `HOST`, `HOST:PORT` or `[IPv6]:PORT` names. Raises SettingsError if it is none of them."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@\s]+))(?::([0-9]{1,5}))?", text)
    if match is None:
        raise SettingsError(f"--server {text!r}: say HOST:PORT, such as helen.example:4166 or [2001:db8::1]:4166.")
    host, port = match[1] or match[2], int(match[3] or DEFAULT_PORT)
    if not _is_host(host):
        raise SettingsError(f"--server {text!r}: {host!r} is not a host name.")
    if not 1 <= port <= 65535:
        raise SettingsError(f"--server {text!r}: a port is 1 to 65535; Helen's own is {DEFAULT_PORT}.")
    return Server(host, port, verify=host)


def _is_host(host: str) -> bool:
    """Return True if the text is an address, or can be looked up in DNS."""
    try:
        return ":" in host or bool(host.encode("idna"))
    except UnicodeError:
        return False


def parse_labels(texts: Any) -> dict[str, str]:
    """Return labels by key of texts `KEY=VALUE`; the last of one key wins. Raises SettingsError if one is wrong."""
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not LABEL_KEY.fullmatch(key):
            raise SettingsError(f"--label {text!r}: say KEY=VALUE, such as role=web.")
        if len(value) > MAX_LABEL_VALUE or not value.isprintable():
            raise SettingsError(f"--label {key}=...: a value is at most {MAX_LABEL_VALUE} printable characters.")
        labels[key] = value
    if len(labels) > MAX_LABELS:
        raise SettingsError(f"{len(labels)} labels are given; at most {MAX_LABELS} are allowed.")
    return labels
