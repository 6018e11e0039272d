"""Reads and writes the configuration of a broker in any of the three syntaxes. Pure: files are read elsewhere.

`load` returns a BrokerConfig (schema.py), or raises ConfigFault with every fault of the document: its line, its name
and what was expected there.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

import attrs

from scale0.config.schema import ALIASES, RUNTIME_NAMES, SHARED, BrokerConfig
from scale0.config.syntax import Lines, Path, Tree, Unreadable, check, plain, read, spell
from scale0.wire.zap import is_local


@attrs.frozen
class Fault:
    """Describes one fault of a document: where it is and what is wrong."""

    line: int
    name: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.name}: {self.message}" if self.name else f"line {self.line}: {self.message}"


class ConfigFault(Exception):
    """Reports a document that is no configuration, with all its faults; `source` is its file or its topic."""

    def __init__(self, source: str, faults: list[Fault]) -> None:
        super().__init__("\n".join(f"{source}: {fault}" for fault in faults))
        self.source, self.faults = source, faults


# ----------------------------------------------------------------------------------------- reading


def load(document: bytes, syntax: str, source: str = "configuration", strict: bool = True) -> BrokerConfig:
    """Return the broker configuration in a document; `syntax` is JSON, XML or ZFL.

    Without `strict` unknown names are read over, as a newer network may send some. Raises ConfigFault if anything in
    the document is wrong.
    """
    tree, lines = _tree(document, syntax, source)
    return _finish(tree, lines, source, strict)


def overlay(base: BrokerConfig, document: bytes, syntax: str, source: str) -> BrokerConfig:
    """Return `base` with the names of SHARED replaced by those of a shared document.

    Raises ConfigFault if anything in the document is wrong.
    """
    tree, lines = _tree(document, syntax, source)
    shared = {name: values for name, values in tree.items() if name in SHARED}
    whole = plain(dump(base)) | shared
    return _finish(whole, lines, source, strict=False)


def digest(document: bytes) -> str:
    """Return the SHA-256 in hex that tells two documents of one version apart."""
    return hashlib.sha256(document).hexdigest()


def dump(config: BrokerConfig) -> dict[str, Any]:
    """Return the configuration as a tree that any syntax can write: its names to values, defaults included.

    Empty texts and lists are left out.
    """
    tree: dict[str, Any] = _dump(config)
    return tree


def _dump(value: Any) -> Any:
    if attrs.has(type(value)):
        pairs = ((a.name, _dump(getattr(value, a.name))) for a in attrs.fields(type(value)))
        return {name: v for name, v in pairs if v not in ("", [])}
    if isinstance(value, tuple):
        return [_dump(v) for v in value]
    return value


def client_document(config: BrokerConfig, identity: str, services: list[str], backend: bool) -> dict[str, Any]:
    """Return the configuration that one client is sent: `identity`, `services`, `group_config`, `prefered_broker`.

    A backend gets `documents` as well, since they are made for backends.
    """
    tree: dict[str, Any] = {
        "identity": identity,
        "services": services,
        "group_config": [_dump(group) for group in config.groups()],
        "prefered_broker": config.prefered_broker or config.identity,
    }
    if backend and config.documents:
        tree["documents"] = [_dump(document) for document in config.documents]
    return tree


def _tree(document: bytes, syntax: str, source: str) -> tuple[Tree, Lines]:
    try:
        tree, lines = read(document, syntax)
    except Unreadable as e:
        raise ConfigFault(source, [Fault(e.line, "", e.message)]) from None
    faults = [Fault(_line(lines, path), spell(path), text) for path, text in check(tree)]
    if faults:
        raise ConfigFault(source, faults)
    return {ALIASES.get(name, name): values for name, values in tree.items() if name not in RUNTIME_NAMES}, lines


def _finish(tree: Tree, lines: Lines, source: str, strict: bool) -> BrokerConfig:
    faults: list[Fault] = []
    config = _build(BrokerConfig, tree, (), lines, faults, strict)
    if config is not None:
        faults += _consistency(config, lines)
    if config is None or faults:
        raise ConfigFault(source, faults)
    return config


def _line(lines: Lines, path: Path) -> int:
    """Return the line of a value, or of the nearest thing around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


T = TypeVar("T")


def _build(kind: type[T], tree: Tree, path: Path, lines: Lines, faults: list[Fault], strict: bool) -> T | None:
    """Return an attrs value made of a tree; None if anything in it was faulty."""
    before = len(faults)
    names = attrs.fields_dict(kind)  # type: ignore[arg-type]  # mypy cannot know that T is an attrs class
    if strict:
        faults += [_unknown(name, list(names), path, lines) for name in tree if name not in names]
    values = {}
    for name, attribute in names.items():
        if name in tree:
            read = [_value(attribute, v, (*path, name, i), lines, faults, strict) for i, v in enumerate(tree[name])]
            if not attribute.metadata["many"] and len(read) > 1:
                message = f"given {len(read)} times; it has one value"
                faults.append(Fault(_line(lines, (*path, name, 1)), spell((*path, name)), message))
            values[name] = tuple(read) if attribute.metadata["many"] else read[0]
        elif attribute.default is attrs.NOTHING:
            faults.append(Fault(_line(lines, path), spell((*path, name)), "is missing"))
    return kind(**values) if len(faults) == before else None


def _value(attribute: Any, value: str | Tree, path: Path, lines: Lines, faults: list[Fault], strict: bool) -> Any:
    kind = attribute.metadata.get("kind")
    if kind is not None:
        if isinstance(value, dict) or value.strip() == "":
            return _build(kind, value if isinstance(value, dict) else {}, path, lines, faults, strict)
        expected = "a tree with " + ", ".join(a.name for a in attrs.fields(kind))
    elif isinstance(value, dict):
        expected = "a single value"
    else:
        try:
            return attribute.metadata["convert"](value)
        except ValueError as e:
            expected = str(e)
    got = "a tree" if isinstance(value, dict) else repr(value[:60])
    faults.append(Fault(_line(lines, path), spell(path), f"expected {expected}, not {got}"))
    return None


def _unknown(name: str, names: list[str], path: Path, lines: Lines) -> Fault:
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; the names here are {', '.join(names)}"
    return Fault(_line(lines, (*path, name, 0)), spell((*path, name)), "no such name" + hint)


def _consistency(config: BrokerConfig, lines: Lines) -> Iterator[Fault]:
    """Yield the faults that show only when values are compared."""
    names = [group.name for group in config.group_config]
    for name in {name for name in names if names.count(name) > 1}:
        yield Fault(_line(lines, ("group_config", names.index(name))), "group_config", f"two groups are named {name}")
    if config.http and not config.insecure and not is_local(config.http.rpartition(":")[0].strip("[]")):
        message = "passwords go over this port in the clear: an address of this machine only, or insecure = 1"
        yield Fault(_line(lines, ("http", 0)), "http", message)
    if config.group in config.fallback_groups:
        at = config.fallback_groups.index(config.group)
        line = _line(lines, ("fallback_groups", at))
        yield Fault(line, "fallback_groups", f"{config.group} is the own group; it cannot be a fallback of itself")
    ports = [config.frontend_port, config.peer_port, config.config_pub_port]
    ports += [config.backend_port] if config.backend_port != config.frontend_port else []
    for port in {p for p in ports if p and ports.count(p) > 1}:
        yield Fault(1, "", f"port {port} is used twice; only frontend_port and backend_port may be equal")
