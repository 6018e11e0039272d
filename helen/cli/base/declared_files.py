"""Read and write folders of declarations: `helen export` writes one, `helen apply` reads it.

    assignments.toml  notifications.toml  passive.toml  targets.toml  forwards.toml     as Helen has them
    windows.toml      [[window]], downtimes and silences    web-tokens.toml   [[token]], without their secrets
    checks/           NAME.lua, lib/NAME.lua, tests/NAME.lua

A part that the folder doesn't have is None here, and `apply` leaves it alone. Everything else in it (README, .git) is
ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import tomlkit
from attrs import define, field

from equus_protocol.manifest import FILE_NAME
from groundwork.atomic_write import PUBLIC, write_durably
from helen.cli.base.client import Client, Failed
from helen.cli.base.pinned import judge_pinned
from helen.states.downtimes import WEEKDAYS

DOCUMENTS = {
    "assignments.toml": "/api/v1/assignments", "notifications.toml": "/api/v1/notifications/file",
    "passive.toml": "/api/v1/passive", "targets.toml": "/api/v1/targets", "forwards.toml": "/api/v1/forwards/file",
}  # fmt: skip
WINDOWS, TOKENS, CHECKS = "windows.toml", "web-tokens.toml", "checks"
PARTS = (*DOCUMENTS, WINDOWS, TOKENS, CHECKS)
WINDOW_FIELDS = ("id", "kind", "agents", "checks", "labels", "matchers", "keys", "begin", "until", "recurrence",
                 "author", "comment")  # fmt: skip
EXPIRY_SLACK = 60.0  # seconds by which the end of a token may differ: it is made from a duration

Windows = dict[str, dict[str, Any]]


@define
class Declared:
    """Hold all declarations. `tags` are the ETags of the parts that were read from a Helen; windows have their own."""

    documents: dict[str, str] = field(factory=dict)
    windows: Windows | None = None
    tokens: dict[str, dict[str, Any]] | None = None
    checks: dict[str, str] | None = None  # disk.lua, lib/x.lua, tests/disk.lua
    tags: dict[str, str] = field(factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.documents and self.windows is None and self.tokens is None and self.checks is None


# ------------------------------------------------------------------------------------------------ of a Helen


def fetch(client: Client) -> Declared:
    """Return the declarations that a Helen has now."""
    found = Declared()
    for name, path in DOCUMENTS.items():
        document, found.tags[name] = client.get_tagged(path)
        if document["text"]:
            found.documents[name] = document["text"]
    found.windows = {each["id"]: plain_window(each) for each in _pages(client, "/api/v1/windows", "windows")}
    listed = client.get("/api/v1/web-tokens")["tokens"]
    found.tokens = {each["name"]: plain_token(each) for each in listed if not each["expired"]}
    files, found.tags[CHECKS] = client.get_tagged("/api/v1/checks/files")
    found.checks = files["files"] | {f"tests/{name}": text for name, text in files["tests"].items()}
    return found


def _pages(client: Client, path: str, key: str) -> Iterator[dict[str, Any]]:
    mark = ""
    while True:
        page = client.get(path + (f"?cursor={mark}" if mark else ""))
        yield from page[key]
        mark = page.get("next") or ""
        if not mark:
            return


def plain_window(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared fields of a window, without defaults; times are unix seconds, to the millisecond."""
    window = {name: given[name] for name in WINDOW_FIELDS if given.get(name) not in (None, "", [], {}, ["*"])}
    if len(window.get("recurrence", {}).get("days", ())) == len(WEEKDAYS):
        window["recurrence"] = {key: value for key, value in window["recurrence"].items() if key != "days"}
    return window | {name: round(float(window[name]), 3) for name in ("begin", "until") if name in window}


def plain_token(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a token as `{"name", "scopes"}`; with a limit `on`, with an end `expires` (unix seconds)."""
    expires = given.get("expires")
    made: dict[str, Any] = {"name": given["name"], "scopes": sorted(given["scopes"])}
    if "on" in given and given["on"] is not None:
        made["on"] = [given["on"]] if isinstance(given["on"], str) else sorted(given["on"])
    return made if expires is None else made | {"expires": float(round(expires))}


def is_same_token(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two tokens have the same scopes and limit, and the same end within EXPIRY_SLACK."""
    ends = one.get("expires"), other.get("expires")
    if (ends[0] is None) != (ends[1] is None) or sorted(one["scopes"]) != sorted(other["scopes"]):
        return False
    if one.get("on") != other.get("on"):
        return False
    return ends[0] is None or ends[1] is None or abs(ends[0] - ends[1]) <= EXPIRY_SLACK


# ------------------------------------------------------------------------------------------------ of a folder


def read(folder: Path) -> Declared:
    """Return the declarations of a folder; raises Failed with the file and its fault if one can't be used."""
    found = Declared()
    for name in DOCUMENTS:
        if (folder / name).exists():
            found.documents[name] = read_text(folder / name)
    if (folder / WINDOWS).exists():
        listed = _tables(folder / WINDOWS, "window", ("id", "kind"))
        found.windows = {each["id"]: plain_window(each) for each in listed}
    if (folder / TOKENS).exists():
        listed = _tables(folder / TOKENS, "token", ("name", "scopes"))
        found.tokens = {each["name"]: plain_token(each) for each in listed}
    if (folder / CHECKS).is_dir():
        judge_pinned(folder / CHECKS, check_names(folder / CHECKS))
        found.checks = {name: read_text(folder / CHECKS / name) for name in check_names(folder / CHECKS)}
    return found


def check_names(folder: Path) -> list[str]:
    """Return the check files, libraries and tests of a folder; other names are left out, as Helen leaves them out."""
    names = [str(path.relative_to(folder)) for path in folder.rglob("*.lua") if path.is_file()]
    return sorted(name for name in names if FILE_NAME.fullmatch(name.removeprefix("tests/")))


def read_text(path: Path) -> str:
    """Return a file's text, with bytes that are no UTF-8 as surrogates; raises Failed if it can't be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    return raw.decode("utf-8", "surrogateescape")


def _tables(path: Path, key: str, needed: Iterable[str]) -> list[dict[str, Any]]:
    """Return the [[key]] tables of a file, with times as unix seconds; raises Failed if the file can't be used."""
    try:
        document = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise Failed(f"{path} is no TOML: {error}") from error
    listed = document.get(key, [])
    if document.keys() - {key} or not isinstance(listed, list):
        raise Failed(f"{path}: write [[{key}]] for each, and nothing else")
    for at, each in enumerate(listed, 1):
        missing = [name for name in needed if not each.get(name)]
        if missing:
            raise Failed(f"{path}: [[{key}]] number {at}: {missing[0]} is missing")
    names = [each[next(iter(needed))] for each in listed]
    if len(set(names)) < len(names):
        raise Failed(f"{path}: one of them is there twice")
    return [{name: _seconds(value, path) for name, value in each.items()} for each in listed]


def _seconds(value: Any, path: Path) -> Any:
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise Failed(f"{path}: {value} has no zone: end it with Z")
    return value.timestamp()


# ------------------------------------------------------------------------------------------------ into a folder


def texts(declared: Declared) -> dict[str, str]:
    """Return the text of every file of the folder, `{PATH: TEXT}`."""
    made = dict(declared.documents)
    windows = sorted((declared.windows or {}).items())
    tokens = sorted((declared.tokens or {}).items())
    made[WINDOWS] = "# Downtimes and silences.\n" + _array("window", [each for _, each in windows])
    made[TOKENS] = "# Tokens of the HTTP API, without their secrets.\n" + _array("token", [t for _, t in tokens])
    return made | {f"{CHECKS}/{name}": text for name, text in (declared.checks or {}).items()}


def _array(key: str, listed: list[dict[str, Any]]) -> str:
    document, tables = tomlkit.document(), tomlkit.aot()
    for each in listed:
        table = tomlkit.table()
        for name, value in each.items():
            table.add(name, _item(name, value))
        tables.append(table)
    if listed:
        document.add(key, tables)
    return "\n" + tomlkit.dumps(document) if listed else ""


def _item(name: str, value: Any) -> Any:
    if name in ("begin", "until", "expires") and isinstance(value, float):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        inline.update(value)
        return inline
    if isinstance(value, list) and value and isinstance(value[0], dict):
        array = tomlkit.array()
        for each in value:
            array.append(_item("", each))
        return array
    return value


def write(folder: Path, declared: Declared) -> list[str]:
    """Write the files that differ, remove checks that are gone, and return a line for each.

    Raises Failed if the folder can't be written.
    """
    wanted, done = texts(declared), []
    try:
        for name, text in sorted(wanted.items()):
            path, raw = folder / name, text.encode("utf-8", "surrogateescape")
            if not path.exists() or path.read_bytes() != raw:
                done.append(f"{'changed' if path.exists() else 'new'}: {name}")
                path.parent.mkdir(parents=True, exist_ok=True)
                write_durably(path, raw, PUBLIC)
        held = [*DOCUMENTS, *(f"{CHECKS}/{name}" for name in check_names(folder / CHECKS))]
        for name in held:
            if name not in wanted and (folder / name).exists():
                (folder / name).unlink()
                done.append(f"gone: {name}")
    except OSError as error:
        raise Failed(f"{error.filename or folder} can't be written: {error.strerror}") from error
    return done


def judge_folder(folder: Path, force: bool) -> None:
    """Refuse to export into a folder that is neither new, nor empty, nor an export: it may hold other work.

    Raises BadParameter if it is no folder, and Failed if it holds other things, unless `force` is set.
    """
    if folder.exists() and not folder.is_dir():
        raise click.BadParameter(f"{folder} is no folder", param_hint="DIR")
    is_ours = any((folder / name).exists() for name in PARTS)
    if folder.is_dir() and any(folder.iterdir()) and not is_ours and not force:
        raise Failed(f"{folder} holds other things, and no export: give another folder, or --force")
