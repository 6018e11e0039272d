"""Read the output of plugins: Cloudkick's and Rackspace's agent plugins, Nagios plugins with their performance data.

It is a part of equus_protocol.results, which reads whole blobs. docs/protocol.rst section 4 is the specification. Each
expression here is linear in what it reads: possessive repeats (`*+`), and no two that could share a character. None
reads more than PIECE characters in one call, because such a call holds all other threads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import islice

from attrs import evolve

from equus_protocol.long_text import PIECE, end_of_run, first_match, lines_in_pieces, with_escapes
from equus_protocol.result_fields import (
    CRITICAL,
    MAX_METRICS,
    OK,
    STATUS_WORDS,
    UNKNOWN,
    WARNING,
    Metric,
    ResultDocument,
)

MAX_WORDS = 4 * MAX_METRICS  # of performance data that are looked at; a megabyte has half a million, at 1 us each
MAX_DIGITS = 300  # characters of a number: the greatest float has 309 before its point

_AGENT_STATUS = {"ok": OK, "success": OK, "warn": WARNING, "warning": WARNING, "err": CRITICAL, "error": CRITICAL,
                 "critical": CRITICAL, "fail": CRITICAL}  # fmt: skip
_SEVERITY = {OK: 0, UNKNOWN: 1, WARNING: 2, CRITICAL: 3}
_STATUS = rf"[ \t]*+status[ \t]++({'|'.join(_AGENT_STATUS)})(?![^\s])"
_AGENT_STATUS_LINE = re.compile(_STATUS)
_STATUS_LINES = re.compile(rf"(?m)^{_STATUS}")
# Metrics and empty lines may stand before the status, and nothing else: a line of a Nagios plugin's long output can
# begin with `status ok`, too.
_BEFORE_STATUS = re.compile(r"(?:[ \t\r]*+(?:metric[ \t][^\n]*+)?+\n)*+")
_AGENT_METRIC = re.compile(
    r"(?m)^[ \t]*+metric[ \t]++(\S++)[ \t]++(int|int32|uint32|int64|uint64|double|float|gauge|counter|number|string)"
    r"[ \t]++(\S++)(?:[ \t]++(\S++))?[ \t\r]*+$"
)
_AGENT_METRIC_BEGUN = re.compile(r"(?m)^[ \t]*+metric(?![^\s])")
_NAGIOS_WORD = re.compile(r"\b(OK|WARNING|CRITICAL|UNKNOWN)\b")
_LONGEST_WORD = 8
_NAGIOS_METRIC = re.compile(
    r"""(?:'((?:[^']|'')++)'|([^\s='|]++))=(U|[-+]?(?:[0-9]++(?:[.,][0-9]*+)?|[.,][0-9]++)(?:[eE][-+]?[0-9]++)?)"""
    r"""([^\s;0-9]*+)((?:;[^\s;]*+){0,4}+);?(?![^\s])""",
    re.ASCII,
)
_WORD = re.compile(r"\S*+", re.ASCII)
_SPACE = re.compile(r"\s*+", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?")


def parse_plugin(text: bytes, exit_status: int | None, was_cut: bool = False) -> ResultDocument:
    """Read the output of a plugin that has ended with this exit status: negative for a signal, None if it is not known.

    A Nagios plugin's status is its exit status: 0 to 2, all others are `unknown`. Agent-plugin text names its status
    itself; an exit status other than 0 can make that worse, never better. `was_cut`: there was more text, which is
    lost. Then a figure that may be part of a longer one is left out.
    """
    shown = with_escapes(text, was_cut)
    ended = exit_status if exit_status in (OK, WARNING, CRITICAL) else UNKNOWN
    document = read_agent_plugin(shown, was_cut)
    if document is None:
        summary, output, metrics, dropped = _split_nagios(shown, was_cut)
        return ResultDocument(ended, summary, metrics, output=output or None, truncated=dropped)
    if exit_status is None:
        return document
    return evolve(document, status=max(document.status, ended, key=_SEVERITY.__getitem__))


def contradicts(text: bytes, status: int) -> bool:
    """Return True if a plugin's text names another status than this one: in its summary, or in a line `status WORD`."""
    shown = with_escapes(text)
    lines = (line for piece in lines_in_pieces(shown) for line in _STATUS_LINES.finditer(shown, *piece))
    if any(_AGENT_STATUS[line[1]] != status for line in lines):
        return True
    word = first_match(_NAGIOS_WORD, _split_nagios(shown)[0], _LONGEST_WORD)
    return word is not None and STATUS_WORDS.index(word[1].lower()) != status


def read_plugin(text: str) -> ResultDocument | None:
    """Read a plugin's text whose exit status is not known, or return None if it is neither kind of plugin's."""
    document = read_agent_plugin(text)
    if document is not None or "|" not in text:
        return document
    summary, output, metrics, dropped = _split_nagios(text)
    if not metrics:
        return None
    word = first_match(_NAGIOS_WORD, summary, _LONGEST_WORD)
    status = STATUS_WORDS.index(word[1].lower()) if word else UNKNOWN
    return ResultDocument(status, summary, metrics, output=output or None, truncated=dropped)


def read_agent_plugin(text: str, was_cut: bool = False) -> ResultDocument | None:
    """Read Cloudkick's and Rackspace's text: `status ok|warn|err TEXT`, `metric NAME TYPE VALUE [UNIT]`.

    Return None unless it begins with its status.
    """
    status = _agent_status(text)
    if status is None:
        return None
    figures = text.rpartition("\n")[0] if was_cut else text  # without its unit a figure is a wrong one
    metrics = tuple(_agent_metric(*line.groups()) for line in islice(_agent_metrics(figures), MAX_METRICS))
    begun = sum(len(_AGENT_METRIC_BEGUN.findall(text, *piece)) for piece in lines_in_pieces(text))
    dropped = {"metrics": begun} if begun > len(metrics) else {}
    word, summary = status
    return ResultDocument(_AGENT_STATUS[word], summary, metrics, output=text, truncated=dropped)


def _agent_status(text: str) -> tuple[str, str] | None:
    """Return the word of the status that a text begins with, and the rest of its line; None if it has no such begin."""
    at = 0
    for begin, end in lines_in_pieces(text):
        at = _BEFORE_STATUS.match(text, begin, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        if at < end:
            break
    found = _AGENT_STATUS_LINE.match(text, at, at + PIECE)
    if found is None or (found.end() == at + PIECE < len(text)):  # the word may go on
        return None
    return found[1], text[found.end() :].partition("\n")[0].strip()


def _agent_metrics(text: str) -> Iterator[re.Match[str]]:
    """Yield each line that is a metric. The begin of a longer line is none, however much it looks like one."""
    for begin, end in lines_in_pieces(text):
        for line in _AGENT_METRIC.finditer(text, begin, end):
            if line.end() == len(text) or text[line.end()] == "\n":
                yield line


def _agent_metric(name: str, kind: str, value: str, unit: str | None) -> Metric:
    number = _decimal(value) if kind != "string" else None
    kind = "counter" if kind == "counter" else "gauge"
    return Metric(name, number, unit=unit or "", kind=kind, text=None if number is not None else value)


def _split_nagios(text: str, was_cut: bool = False) -> tuple[str, str, tuple[Metric, ...], dict[str, int]]:
    """Return summary, long output, metrics, and their number if some are left out (Nagios' plugin API, version 3).

    The summary is the first line that isn't empty.
    """
    first, newline, rest = _without_empty_lines(text).partition("\n")
    summary, _, perfdata = first.partition("|")
    output, bar, more = rest.partition("|")
    cut = ""
    if was_cut and bar:
        more, cut = _whole_words(more)
    elif was_cut and not newline:
        perfdata, cut = _whole_words(perfdata)
    if not summary.strip():
        summary, _, output = _without_empty_lines(output).partition("\n")
    metrics, lost = _perfdata(f"{perfdata} {more}")
    lost += "=" in cut
    return summary.strip(), output.strip("\n"), metrics, {"metrics": len(metrics) + lost} if lost else {}


def _without_empty_lines(text: str) -> str:
    """Return the text from its first line that isn't empty."""
    start = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, start) + 1 :]


def _whole_words(perfdata: str) -> tuple[str, str]:
    """Return the whole words of performance data whose end is lost, and the part of a word or label behind them."""
    end = perfdata.rindex("'") if perfdata.count("'") % 2 else len(perfdata)
    if not perfdata[end - 1 : end].isspace():
        last = perfdata[:end].rsplit(None, 1)[-1:]
        end -= len(last[0]) if last else 0
    return perfdata[:end], perfdata[end:]


def _perfdata(text: str) -> tuple[tuple[Metric, ...], int]:
    """Read each `'label'=value[unit];[warn];[crit];[min];[max]`, and pass over any other text.

    Return the metrics, and the number of words with an equals sign that are none. Metrics beyond MAX_METRICS are only
    counted, by their equals signs.
    """
    metrics: list[Metric] = []
    lost = 0
    at = end_of_run(_SPACE, text, 0)
    for _ in range(MAX_WORDS):
        if len(metrics) >= MAX_METRICS or at >= len(text):
            break
        match = _NAGIOS_METRIC.match(text, at, at + PIECE)
        if match is not None and (match.end() < at + PIECE or match.end() == len(text)):
            metrics.append(_nagios_metric(*match.groups()))
            end = match.end()
        else:
            end = end_of_run(_WORD, text, at)
            lost += text.find("=", at, end) >= 0
        at = end_of_run(_SPACE, text, end)
    return tuple(metrics), lost + text.count("=", at)


def _nagios_metric(quoted: str | None, bare: str, value: str, unit: str, limits: str) -> Metric:
    warn, crit, low, high = (limits.split(";")[1:] + [""] * 4)[:4]
    number = _decimal(value.replace(",", "."))
    return Metric(
        quoted.replace("''", "'") if quoted else bare,
        number,
        unit=unit,
        kind="counter" if unit == "c" else "gauge",
        warn=warn or None,
        crit=crit or None,
        min=_decimal(low),
        max=_decimal(high),
        text=None if number is not None or value == "U" else value,
    )


def _decimal(text: str) -> float | None:
    """Return a decimal number, or None if the text is none or a float can't hold it."""
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None
