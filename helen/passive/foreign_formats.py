"""Reads results in the formats of other programs, Icinga's API and NRDP, into submissions. Pure.

Only the formats are read here; helen/passive/intake.py knows which checks are declared.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from equus_protocol import results
from equus_protocol.long_text import has_more_parts
from equus_protocol.result_fields import MAX_PARTS
from equus_protocol.results import CRITICAL, OK, UNKNOWN
from helen.passive.submission import NoSubmission, Submission

HOST_CHECK = (
    "host"  # the check that stands for "the host is up": Helen knows checks only, these formats know hosts, too
)
MAX_OUTPUT = 262_144  # characters: a plugin's output; what is beyond is counted in `truncated`
MAX_RESULTS = 1_000  # of one NRDP request
LONGEST_TTL = 366 * 86_400.0
_FILTER_PART = re.compile(r'\s*(host|service)\.(name|__name)\s*==\s*(?:"([^"\\]*)"|([A-Za-z_][A-Za-z0-9_]*))\s*')


@frozen
class Icinga:
    """Holds a submission that came by Icinga's API. `target` is the name of its object in the answer."""

    target: str
    submission: Submission


def plugin_document(status: int, output: str, perfdata: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the document of a result (docs/protocol.rst, section 4) from a plugin's output.

    Its status is the one that is given; `more` are further keys, left out if None.
    """
    text = output[:MAX_OUTPUT]
    read = results.parse_plugin(text.encode("utf-8", "replace"), status, was_cut=len(output) > MAX_OUTPUT)
    if perfdata is not None:
        metrics = results.parse_plugin(f"|{perfdata}".encode("utf-8", "replace"), status)
        read = evolve(read, metrics=read.metrics + metrics.metrics)
    truncated = {**read.truncated, "output": len(output)} if len(output) > MAX_OUTPUT else read.truncated
    summary = read.summary or text.strip().partition("\n")[0]
    document = results.to_json(evolve(read, status=status, summary=summary, truncated=truncated))
    return document | {name: value for name, value in more.items() if value is not None}


def exit_status(given: Any, is_host: bool) -> int:
    """Return the status for a plugin's exit status: 0 to 3, all others are unknown; of a host 0 is up, all others down.

    Raises NoSubmission if it is no number.
    """
    try:
        number = int(given)
    except (TypeError, ValueError, OverflowError) as error:  # 1e999 is infinity, and no int holds that
        raise NoSubmission("the exit status is a number: 0 ok, 1 warning, 2 critical, 3 unknown") from error
    if is_host:
        return OK if number == 0 else CRITICAL
    return number if 0 <= number <= UNKNOWN else UNKNOWN


# ------------------------------------------------------------------------------------------------ Icinga


def read_icinga(body: Mapping[str, Any], given_id: str | None) -> Icinga:
    """Read the body of POST /v1/actions/process-check-result, with the parameters of its query.

    Raises NoSubmission if it is no result of one object.
    """
    host, service = _icinga_target(body)
    if body.get("exit_status") is None:
        raise NoSubmission("Parameter 'exit_status' is required.")
    if not isinstance(body.get("plugin_output"), str):
        raise NoSubmission("Parameter 'plugin_output' is required.")
    perfdata = body.get("performance_data")
    if isinstance(perfdata, list):
        perfdata = " ".join(str(each) for each in perfdata)
    begun, ended = _number(body, "execution_start"), _number(body, "execution_end")
    took = (ended - begun) * 1_000 if begun is not None and ended is not None and ended >= begun else None
    document = plugin_document(
        exit_status(body["exit_status"], service is None), body["plugin_output"],
        perfdata if isinstance(perfdata, str) else None,
        started=begun if begun is not None else ended, took_ms=took, source=_text(body, "check_source"),
    )  # fmt: skip
    ttl = _number(body, "ttl")
    if ttl is not None and not 0 < ttl <= LONGEST_TTL:
        raise NoSubmission(f"ttl is in seconds, more than 0 and at most {LONGEST_TTL:g}")
    submission = Submission(host, service or HOST_CHECK, document, "icinga", given_id, ttl, "by its ttl" if ttl else "")
    return Icinga(host if service is None else f"{host}!{service}", submission)


def _icinga_target(body: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the host, and the service or None: by `service=HOST!NAME`, `host=NAME`, or a filter that names one."""
    service, host = _text(body, "service"), _text(body, "host")
    if service is not None:
        name, mark, check = service.partition("!")
        if not mark or not name or not check:
            raise NoSubmission("service is HOST!SERVICE")
        return name, check
    if host is not None:
        return host, None
    found = _filtered(_text(body, "filter"), body.get("filter_vars"))
    is_host = str(body.get("type", "Service")).lower() == "host"
    if "host" in found and ("service" in found) != is_host:
        return found["host"], found.get("service")
    raise NoSubmission(
        "whose result is it? service=HOST!SERVICE, host=HOST, or type and a filter such as"
        ' host.name=="HOST" && service.name=="SERVICE": one object, by its name'
    )


def _filtered(text: str | None, variables: Any) -> dict[str, str]:
    """Read `host.name=="a" && service.name=="b"`; a name without quotes is one of `filter_vars`."""
    found: dict[str, str] = {}
    for part in (text or "").split("&&"):
        match = _FILTER_PART.fullmatch(part)
        value = None if match is None else match[3]
        if match is not None and match[4] and isinstance(variables, dict):
            value = variables.get(match[4])
        if match is None or not isinstance(value, str) or match[1] in found:
            return {}
        found[match[1]] = value
    return found


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) and value else None


def _number(body: Mapping[str, Any], key: str) -> float | None:
    value = body.get(key)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:  # JSON has integers that no float holds
        raise NoSubmission(f"{key} is a number of seconds") from error
    if not 0 <= number < 4e9:
        raise NoSubmission(f"{key} is a number of seconds")
    return number


# ------------------------------------------------------------------------------------------------ NRDP


def read_nrdp_json(text: str, given_id: str | None) -> list[Submission]:
    """Read JSONDATA of NRDP. Raises NoSubmission if one result of it can't be read: all are taken, or none."""
    if len(text) > MAX_PARTS and has_more_parts(text.encode("utf-8", "replace"), MAX_PARTS):
        raise NoSubmission(f"BAD DATA: more than {MAX_PARTS} commas, [ and {{ outside of strings: send fewer results")
    try:
        document = json.loads(text)
        listed = document["checkresults"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NoSubmission("BAD JSON: an object with `checkresults`, a list, is expected") from error
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise NoSubmission("BAD JSON: `checkresults` is a list of objects")
    return _nrdp([(_nrdp_type(each.get("checkresult")), each) for each in listed], given_id)


def _nrdp_type(attributes: Any) -> str:
    return str(attributes.get("type", "")) if isinstance(attributes, dict) else ""


def read_nrdp_xml(text: str, given_id: str | None) -> list[Submission]:
    """Read XMLDATA of NRDP. Raises NoSubmission if one result of it can't be read.

    A document type is refused: it could bring entities, which nothing here needs. So are more elements and attributes
    than the results of one request have: one call of the parser holds all other threads until it returns.
    """
    if sum(text.count(mark) for mark in ("<", '="', "='")) > MAX_PARTS:
        raise NoSubmission(f"BAD DATA: more than {MAX_PARTS} tags and attributes: send fewer results")
    if "<!" in text.replace("<![CDATA[", ""):
        raise NoSubmission("BAD XML: no document type, no comments")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise NoSubmission(f"BAD XML: {error}") from error
    if root.tag != "checkresults":
        raise NoSubmission("BAD XML: <checkresults> with a <checkresult> for each is expected")
    listed = [
        (each.get("type", ""), {child.tag: child.text or "" for child in each}) for each in root.iter("checkresult")
    ]
    return _nrdp(listed, given_id)


def _nrdp(listed: Sequence[tuple[str, Mapping[str, Any]]], given_id: str | None) -> list[Submission]:
    if not 0 < len(listed) <= MAX_RESULTS:
        raise NoSubmission(f"BAD DATA: {len(listed)} results; 1 to {MAX_RESULTS} come in one request")
    return [_one_of_nrdp(kind, each, None if given_id is None else f"{given_id}/{at}")
            for at, (kind, each) in enumerate(listed)]  # fmt: skip


def _one_of_nrdp(kind: str, each: Mapping[str, Any], given_id: str | None) -> Submission:
    host, service = _text(each, "hostname"), _text(each, "servicename")
    is_host = kind == "host" or (not kind and service is None)
    if host is None or (service is None and not is_host):
        raise NoSubmission("BAD DATA: a result has a hostname, and a servicename unless its type is host")
    output = each.get("output")
    document = plugin_document(
        exit_status(each.get("state"), is_host), output if isinstance(output, str) else "",
        started=_number(each, "time") if each.get("time") else None,
    )  # fmt: skip
    return Submission(host, HOST_CHECK if is_host else service or "", document, "nrdp", given_id)
