"""Read what `sensuctl dump all` writes: resources as JSON documents one after the other, or as YAML.

sensuctl dump all --all-namespaces --format wrapped-json --file sensu.json
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from helen.importing.found import SourceError

MAX_SIZE = 64 * 1024 * 1024  # bytes
MAX_RESOURCES = 200_000


@frozen
class Resource:
    """Holds one resource of Sensu: its type, where it is, and its settings."""

    type: str
    name: str
    namespace: str
    labels: dict[str, Any]
    annotations: dict[str, Any]
    spec: dict[str, Any]


def read(source: Path) -> list[Resource]:
    """Return all resources of a dump. Raises SourceError if it can't be used."""
    try:
        if source.stat().st_size > MAX_SIZE:
            raise SourceError(f"{source} has more than {MAX_SIZE >> 20} MiB: dump checks and entities alone, no events")
        text = source.read_text("utf-8")
    except OSError as error:
        raise SourceError(f"{source} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{source} is no UTF-8 text: {error.reason} at byte {error.start:,}") from error
    documents = _json(text, source) if text.lstrip()[:1] in ("{", "[") else _yaml(text, source)
    found = []
    for at, document in enumerate(documents, 1):
        for each in document if isinstance(document, list) else [document]:
            if each is not None:
                found.append(_resource(each, f"{source}, document {at}"))
        if len(found) > MAX_RESOURCES:
            raise SourceError(f"{source} has more than {MAX_RESOURCES:,} resources")
    if not any(each.type == "CheckConfig" for each in found):
        raise SourceError(f"{source} has no resource of the type CheckConfig: dump core/v2.CheckConfig,core/v2.Entity")
    return found


def _json(text: str, source: Path) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace() or text[at] == ",":
            at += 1
            continue
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, at) + 1
            raise SourceError(f"{source} is no JSON from line {line}: {str(error)[:200]}") from error
        yield document


def _yaml(text: str, source: Path) -> Iterator[Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise SourceError(
            f"{source} looks like YAML, and PyYAML is not installed: dump it with `sensuctl dump --format wrapped-json`"
        ) from error
    try:
        yield from yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        words = " ".join(str(error).split())
        raise SourceError(f"{source} is neither JSON nor YAML: {words[:200]}") from error


def _resource(document: Any, place: str) -> Resource:
    if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
        raise SourceError(
            f"{place} is no resource with type, metadata and spec: use `sensuctl dump --format wrapped-json` or `yaml`"
        )
    spec = document["spec"]
    metadata = document.get("metadata") or spec.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise SourceError(f"{place} has no metadata with a name")
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    return Resource(
        str(document.get("type", "")), metadata["name"], str(metadata.get("namespace") or "default"),
        labels if isinstance(labels, dict) else {}, annotations if isinstance(annotations, dict) else {}, spec,
    )  # fmt: skip
