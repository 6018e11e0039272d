"""Secrets by reference: `args = { password = { secret = "redis" } }` names one, and its value never leaves this host.

They lie in a TOML file that only root (or who runs the agent) can read, or are systemd's credentials. Helen knows names
alone. docs/secrets.rst is for those who use them; what hides values in results and logs is redaction.py.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from equus.redaction import LEAST, Redaction
from equus.sandbox.ownership import ownership_fault

DEFAULT_PATH = Path("/etc/equus/secrets.toml")
MAX_FILE = 65_536  # bytes of secrets.toml: some five hundred passwords
MAX_VALUE = 2_048  # bytes of one: a password or a token, no file
MAX_CREDENTIALS = 256  # files of systemd's that are looked at
MAX_OF_RUN = 8  # that one check is given: all of them, escaped, fit into one message of 64 KiB to the broker
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


class SecretsError(Exception):
    """Why the secrets can't be used, as a sentence. It never holds a value."""


@frozen
class Secret:
    """One value, and which checks get it: None for any."""

    value: str = field(repr=False)
    checks: tuple[str, ...] | None = None


@frozen
class Resolved:
    """Arguments with the values in them."""

    args: bytes = field(repr=False)
    values: tuple[str, ...] = field(default=(), repr=False)


class Secrets:
    """All that this host has, by name. `read` again at SIGHUP."""

    def __init__(self, path: Path | None, environment: Mapping[str, str]) -> None:
        self._path = path
        self._credentials = environment.get("CREDENTIALS_DIRECTORY")
        self._known: dict[str, Secret] = {}
        self._faults: dict[str, str] = {}
        self._redaction = Redaction(())

    def read(self) -> None:
        """Blocking. Raises SecretsError, and what was known stays."""
        known, faults = _read_credentials(Path(self._credentials)) if self._credentials else ({}, {})
        if self._path is not None or os.path.lexists(DEFAULT_PATH):
            known |= read_file(self._path or DEFAULT_PATH)
        self._known, self._faults = known, faults
        self._redaction = Redaction(secret.value for secret in known.values())

    @property
    def where(self) -> Path:
        return self._path or DEFAULT_PATH

    def hide(self, text: str) -> str:
        """A text for a log, without any of the values."""
        return self._redaction.text(text)

    def resolve(self, check: str, args: bytes) -> Resolved | str:
        """The arguments of a check with values for references, or a sentence: which one can't be had, and why."""
        if b'"secret"' not in args:
            return Resolved(args)
        try:
            document = json.loads(args)
        except (ValueError, RecursionError):
            return Resolved(args)  # the sandbox says what is wrong with it
        if not isinstance(document, dict):
            return Resolved(args)
        values: list[str] = []
        try:
            for name, value in document.items():
                document[name] = self._replaced(check, f"args.{name}", value, values)
        except SecretsError as error:
            return str(error)
        if not values:
            return Resolved(args)
        if len(values) > MAX_OF_RUN:
            return f"the arguments name {len(values)} secrets; {MAX_OF_RUN} are the most"
        return Resolved(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"), tuple(values))

    def _replaced(self, check: str, place: str, value: Any, values: list[str]) -> Any:
        if isinstance(value, list):
            return [self._replaced(check, place, item, values) for item in value]
        if not isinstance(value, dict) or value.keys() != {"secret"}:
            return value
        values.append(self._value(check, place, value["secret"]))
        return values[-1]

    def _value(self, check: str, place: str, name: Any) -> str:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise SecretsError(f"{place}: a secret is named by letters, digits, _ . and -, not by {name!r}")
        secret = self._known.get(name)
        if secret is None:
            why = self._faults.get(name, f"add it to {self.where}, or as a credential of the agent's systemd unit")
            raise SecretsError(f"{place}: this host has no secret {name!r}: {why}")
        if secret.checks is not None and check not in secret.checks:
            raise SecretsError(f"{place}: the secret {name!r} is not for the check {check!r}; see {self.where}")
        return secret.value


# ---------------------------------------------------------------------------------------------------- files


def read_file(path: Path) -> dict[str, Secret]:
    """secrets.toml: `name = "value"`, or a table with `value` and `checks`. Raises SecretsError."""
    try:
        document = tomllib.loads(_read_private(path))
    except tomllib.TOMLDecodeError as error:
        # Its message may quote the line, which holds a secret; the place is all that is told.
        place = re.search(r"\(at (?:line \d+, column \d+|end of document)\)", str(error))
        raise SecretsError(f"{path} is no TOML {place[0] if place else ''}".rstrip()) from None
    return {name: _secret(path, name, entry) for name, entry in document.items()}


def _secret(path: Path, name: str, entry: Any) -> Secret:
    if not NAME.fullmatch(name):
        raise SecretsError(f"{path}: {name!r} is no name of a secret: letters, digits, _ . and -, at most 63")
    table = entry if isinstance(entry, dict) else {"value": entry}
    unknown = sorted(table.keys() - {"value", "checks"})
    if unknown:
        raise SecretsError(f"{path}: {name} has no field {unknown[0]!r}; there are value and checks")
    checks = table.get("checks")
    if checks is not None and not (isinstance(checks, list) and all(isinstance(check, str) for check in checks)):
        raise SecretsError(f'{path}: {name}.checks is a list of names of checks, such as ["redis"]')
    fault = _fault(table.get("value"))
    if fault is not None:
        raise SecretsError(f"{path}: {name} {fault}")
    return Secret(table["value"], None if checks is None else tuple(checks))


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
        raise SecretsError(f"{path} is no UTF-8") from None


def _read_credentials(folder: Path) -> tuple[dict[str, Secret], dict[str, str]]:
    """What systemd has put there; what is no secret of a check's is left out, and why."""
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
