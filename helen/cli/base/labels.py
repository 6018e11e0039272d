"""Read and print labels of agents as options and columns have them: `role=web,env=prod`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click


def read_labels(given: Iterable[str]) -> dict[str, str]:
    """Return the labels of texts such as `role=web,env=prod`. Raises UsageError for a part without a value."""
    labels: dict[str, str] = {}
    for part in (part.strip() for text in given for part in text.split(",")):
        key, is_label, value = part.partition("=")
        if not (key and is_label and value):
            raise click.UsageError(f"{part!r} is no label: write KEY=VALUE, such as role=web, with commas between them")
        if labels.get(key, value) != value:
            raise click.UsageError(f"the label {key} is given twice, as {labels[key]} and as {value}")
        labels[key] = value
    return labels


def in_words(labels: Mapping[str, str]) -> str:
    """Return labels as `env=prod, role=web`."""
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
