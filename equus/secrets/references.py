"""Put secrets into arguments that name them, such as `args = { password = { secret = "redis" } }`.

The values lie in a TOML file that only root or the agent's user can read, or are systemd's credentials, and never leave
the host: Helen knows names only. docs/secrets.rst describes their use; redaction.py hides values in results and logs.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from equus.policy.destinations import read_destination
from equus.policy.file_ownership import ownership_fault
from equus.secrets.redaction import LEAST, Redaction

DEFAULT_PATH = Path("/etc/equus/secrets.toml")
MAX_FILE = 65_536  # bytes of secrets.toml: some five hundred passwords
MAX_VALUE = 2_048  # bytes of one: a password or a token, no file
MAX_CREDENTIALS = 256  # files of systemd's that are looked at
MAX_OF_RUN = 8  # that one check is given: all of them, escaped, fit into one message of 64 KiB to the broker
MAX_DESTINATIONS = 16  # of one secret
MAX_TO = 1_024  # bytes of them as JSON, for the same message to the broker
# Arguments with secrets that are kept as they were resolved: bytes of one, and their number.
MAX_KEPT_ARGS, MOST_KEPT = 4_096, 1_024
NOTHING_HIDDEN = Redaction(())
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


class SecretsError(Exception):
    """Says that the secrets can't be used; the text says why, and never holds a value."""


@frozen
class Secret:
    """Holds one secret's value, the checks that get it, and the destinations it may travel to: None for any."""

    value: str = field(repr=False)
    checks: tuple[str, ...] | None = None
    to: tuple[str, ...] | None = None


@frozen
class Resolved:
    """Holds arguments with values in place of references, the values that were put in, and the destinations of each."""

    args: bytes = field(repr=False)
    values: tuple[str, ...] = field(default=(), repr=False)
    bound: tuple[tuple[str, ...], ...] = ()
    redaction: Redaction = field(init=False, repr=False, eq=False)  # of these values

    @redaction.default
    def _redaction(self) -> Redaction:
        return Redaction(self.values) if self.values else NOTHING_HIDDEN


class Secrets:
    """Holds all secrets of this host by name. `read` is called at the start and at SIGHUP."""

    def __init__(self, path: Path | None, environment: Mapping[str, str]) -> None:
        self._path = path
        self._credentials = environment.get("CREDENTIALS_DIRECTORY")
        self._known: dict[str, Secret] = {}
        self._faults: dict[str, str] = {}
        self._redaction = Redaction(())
        self._resolved: dict[tuple[str, bytes], Resolved] = {}  # by check and arguments

    def read(self) -> None:
        """Read file and credentials again. Blocking. Raises SecretsError if that fails; then the old secrets stay."""
        known, faults = _read_credentials(Path(self._credentials)) if self._credentials else ({}, {})
        if self._path is not None or os.path.lexists(DEFAULT_PATH):
            known |= read_file(self._path or DEFAULT_PATH, known)
        self._known, self._faults = known, faults
        self._redaction = Redaction(secret.value for secret in known.values())
        self._resolved.clear()

    @property
    def where(self) -> Path:
        """Return the path of secrets.toml, for sentences."""
        return self._path or DEFAULT_PATH

    @property
    def unbound(self) -> list[str]:
        """Return the names of the secrets without `to`, sorted: they go to whatever address an assignment names."""
        return sorted(name for name, secret in self._known.items() if secret.to is None)

    def hide(self, text: str) -> str:
        """Return a text for a log, with all values masked."""
        return self._redaction.text(text)

    def resolve(self, check: str, args: bytes) -> Resolved | str:
        """Return the arguments of a check with values for references, or a sentence if one of them can't be had.

        The same arguments come again and again with a schedule, and are decoded once.
        """
        if b'"secret"' not in args:
            return Resolved(args)
        kept = self._resolved.get((check, args))
        if kept is not None:
            return kept
        resolved = self._resolve(check, args)
        if isinstance(resolved, Resolved) and resolved.values and len(args) <= MAX_KEPT_ARGS:
            if len(self._resolved) >= MOST_KEPT:
                self._resolved.clear()
            self._resolved[check, args] = resolved
        return resolved

    def _resolve(self, check: str, args: bytes) -> Resolved | str:
        try:
            document = json.loads(args)
        except (ValueError, RecursionError):
            return Resolved(args)  # the sandbox says what is wrong with it
        if not isinstance(document, dict):
            return Resolved(args)
        used: list[Secret] = []
        try:
            for name, value in document.items():
                document[name] = self._replaced(check, f"args.{name}", value, used)
        except SecretsError as error:
            return str(error)
        if not used:
            return Resolved(args)
        if len(used) > MAX_OF_RUN:
            return f"the arguments name {len(used)} secrets; at most {MAX_OF_RUN} are allowed"
        text = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        bound = tuple(dict.fromkeys(secret.to for secret in used if secret.to is not None))
        return Resolved(text, tuple(secret.value for secret in used), bound)

    def _replaced(self, check: str, place: str, value: Any, used: list[Secret]) -> Any:
        if isinstance(value, list):
            return [self._replaced(check, place, item, used) for item in value]
        if not isinstance(value, dict) or value.keys() != {"secret"}:
            return value
        used.append(self._secret(check, place, value["secret"]))
        return used[-1].value

    def _secret(self, check: str, place: str, name: Any) -> Secret:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise SecretsError(f"{place}: a secret is named by letters, digits, _ . and -, not by {name!r}")
        secret = self._known.get(name)
        if secret is None:
            why = self._faults.get(name, f"add it to {self.where}, or as a credential of the agent's systemd unit")
            raise SecretsError(f"{place}: this host has no secret {name!r}: {why}")
        if secret.checks is not None and check not in secret.checks:
            raise SecretsError(f"{place}: the secret {name!r} is not for the check {check!r}; see {self.where}")
        return secret


# ---------------------------------------------------------------------------------------------------- files


def read_file(path: Path, credentials: Mapping[str, Secret] = MappingProxyType({})) -> dict[str, Secret]:
    """Return the secrets of secrets.toml by name: `name = "value"`, or a table with `value`, `checks` and `to`.

    A table without `value` is about the credential of that name. Raises SecretsError if the file can't be read, can be
    read by other users, or has a fault.
    """
    try:
        document = tomllib.loads(_read_private(path))
    except tomllib.TOMLDecodeError as error:
        # Its message may quote the line, which holds a secret; so only the place is kept.
        place = re.search(r"\(at (?:line \d+, column \d+|end of document)\)", str(error))
        raise SecretsError(f"{path} is not TOML {place[0] if place else ''}".rstrip()) from None
    return {name: _secret(path, name, entry, credentials.get(name)) for name, entry in document.items()}


def _secret(path: Path, name: str, entry: Any, credential: Secret | None) -> Secret:
    if not NAME.fullmatch(name):
        raise SecretsError(f"{path}: {name!r} is not a name of a secret: letters, digits, _ . and -, at most 63")
    table = entry if isinstance(entry, dict) else {"value": entry}
    unknown = sorted(table.keys() - {"value", "checks", "to"})
    if unknown:
        raise SecretsError(f"{path}: {name} has no field {unknown[0]!r}; there are value, checks and to")
    checks = table.get("checks")
    if checks is not None and not (isinstance(checks, list) and all(isinstance(check, str) for check in checks)):
        raise SecretsError(f'{path}: {name}.checks is a list of names of checks, such as ["redis"]')
    value = table.get("value", credential.value if credential is not None else None)
    fault = _fault(value)
    if fault is not None:
        raise SecretsError(f"{path}: {name} {fault}")
    return Secret(str(value), None if checks is None else tuple(checks), _destinations(path, name, table.get("to")))


def _destinations(path: Path, name: str, to: Any) -> tuple[str, ...] | None:
    if to is None:
        return None
    if not isinstance(to, list) or len(to) > MAX_DESTINATIONS or len(json.dumps(to)) > MAX_TO:
        most = f"{MAX_DESTINATIONS} places and {MAX_TO} bytes"
        raise SecretsError(f'{path}: {name}.to is a list of at most {most}, such as ["10.0.0.5:6379"]')
    for text in to:
        try:
            read_destination(text)
        except ValueError as error:
            raise SecretsError(f"{path}: {name}.to {error}") from None
    return tuple(to)


def _fault(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a text in quotes"
    if len(value) < LEAST or len(value.encode("utf-8", "replace")) > MAX_VALUE:
        return f"must have at least {LEAST} characters and at most {MAX_VALUE} bytes: shorter ones can't be hidden"
    if not value.isprintable():
        return "holds a control character or a line end"
    return None


def _read_private(path: Path) -> str:
    try:
        fault = ownership_fault(path)
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                fault = f"{path} is not a regular file"
            elif mode & 0o077:
                fault = f"{path} can be read by others (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}"
            content = file.read(MAX_FILE + 1)
    except OSError as error:
        raise SecretsError(f"{path} cannot be read: {error.strerror}") from None
    if fault is not None:
        raise SecretsError(f"{fault} (it holds secrets: if others have read them, change them)")
    if len(content) > MAX_FILE:
        raise SecretsError(f"{path} is larger than {MAX_FILE} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise SecretsError(f"{path} is not UTF-8") from None


def _read_credentials(folder: Path) -> tuple[dict[str, Secret], dict[str, str]]:
    """Return the secrets that systemd has put into a folder, and sentences about credentials that are left out."""
    known: dict[str, Secret] = {}
    faults: dict[str, str] = {}
    try:
        names = sorted(os.listdir(folder))[:MAX_CREDENTIALS]
    except OSError as error:
        raise SecretsError(f"$CREDENTIALS_DIRECTORY {folder} cannot be read: {error.strerror}") from None
    for name in names:
        if not NAME.fullmatch(name):
            continue
        try:
            with open(folder / name, "rb") as file:
                value = file.read(MAX_VALUE + 2).decode().removesuffix("\n")
        except (OSError, UnicodeDecodeError):
            faults[name] = f"the credential {folder / name} can't be read as text"
            continue
        fault = _fault(value)
        if fault is None:
            known[name] = Secret(value)
        else:
            faults[name] = f"the credential {folder / name} {fault}"
    return known, faults
