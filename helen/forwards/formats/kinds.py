"""Lists the kinds of forwards, the values of `type` in forwards.toml: how each writes, and by which way it sends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import frozen

from helen.files.toml_table import Table
from helen.forwards.formats import graphite, influx, otlp, remote_write
from helen.forwards.formats.values import Signal
from helen.forwards.records import STATES
from helen.forwards.sending import OverHttp, OverTcp

Options = dict[str, str]
Signals = Callable[[frozenset[str], str, Options], tuple[Signal, ...]]


def _none(table: Table) -> Options:
    return {}


@frozen
class Kind:
    """Describes a kind. `signals` makes its bodies of what is sent, the prefix and its own `options`.

    `missing` says which package is not installed, None: all are.
    """

    type_name: str
    way: type[OverHttp] | type[OverTcp]
    signals: Signals
    options: Callable[[Table], Options] = _none
    missing: str | None = None


def _remote_write(sends: frozenset[str], prefix: str, options: Options) -> tuple[Signal, ...]:
    return (Signal("", remote_write.HEADERS, partial(remote_write.write, sends=sends, prefix=prefix)),)


def _otlp(sends: frozenset[str], prefix: str, options: Options) -> tuple[Signal, ...]:
    metrics = Signal("/v1/metrics", otlp.HEADERS, partial(otlp.write_metrics, sends=sends, prefix=prefix))
    logs = Signal("/v1/logs", otlp.HEADERS, otlp.write_logs, otlp.EMPTY)
    named = {"metrics": metrics, "logs": logs}
    signals = options.get("signals", "both")
    found = (metrics, logs) if signals == "both" else (named[signals],)
    return found if STATES in sends else tuple(each for each in found if each is not logs)


def _otlp_options(table: Table) -> Options:
    return {"signals": table.choice("signals", ("both", "metrics", "logs"), "both")}


def _influx(sends: frozenset[str], prefix: str, options: Options) -> tuple[Signal, ...]:
    return (Signal("", influx.HEADERS, partial(influx.write, sends=sends, prefix=prefix)),)


def _graphite(sends: frozenset[str], prefix: str, options: Options) -> tuple[Signal, ...]:
    write = partial(graphite.write, sends=sends, prefix=prefix, style=options["style"])
    return (Signal("", {}, write),)


def _graphite_options(table: Table) -> Options:
    return {"style": table.choice("style", graphite.STYLES, "path")}


_CRAMJAM = "type = \"remote-write\" needs the package cramjam: pip install 'helen-equus[forwards]'"

KINDS: dict[str, Kind] = {
    kind.type_name: kind
    for kind in (
        Kind("remote-write", OverHttp, _remote_write, missing=None if remote_write.HAS_SNAPPY else _CRAMJAM),
        Kind("otlp", OverHttp, _otlp, _otlp_options),
        Kind("influx", OverHttp, _influx),
        Kind("graphite", OverTcp, _graphite, _graphite_options),
    )
}
