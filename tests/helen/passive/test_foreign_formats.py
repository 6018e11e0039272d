"""Tests that Icinga's and NRDP's formats are read into submissions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equus_protocol.result_fields import MAX_PARTS
from helen.passive.foreign_formats import (
    MAX_OUTPUT,
    MAX_RESULTS,
    plugin_document,
    read_icinga,
    read_nrdp_json,
    read_nrdp_xml,
)
from helen.passive.submission import NoSubmission, Submission

# As in Icinga's own documentation of process-check-result.
ICINGA = {
    "type": "Service", "filter": 'host.name=="example.localdomain" && service.name=="passive-ping"', "exit_status": 2,
    "plugin_output": "PING CRITICAL - Packet loss = 100%",
    "performance_data": ["rta=5000.000000ms;3000.000000;5000.000000;0.000000", "pl=100%;80;100;0"],
    "check_source": "example.localdomain", "pretty": True,
}  # fmt: skip


def test_icingas_example() -> None:
    """Icinga's own example is read with everything that is in it."""
    read = read_icinga(ICINGA, "7")
    assert read.target == "example.localdomain!passive-ping"
    rta = {"name": "rta", "value": 5000.0, "unit": "ms", "kind": "gauge", "warn": "3000.000000", "crit": "5000.000000",
           "min": 0.0}  # fmt: skip
    pl = {"name": "pl", "value": 100.0, "unit": "%", "kind": "gauge", "warn": "80", "crit": "100", "min": 0.0}
    document = {
        "status": "critical", "summary": "PING CRITICAL - Packet loss = 100%", "metrics": [rta, pl],
        "source": "example.localdomain",
    }  # fmt: skip
    assert read.submission == Submission("example.localdomain", "passive-ping", document, "icinga", "7")


TARGETS: dict[str, tuple[dict[str, Any], tuple[str, str] | None]] = {
    "by service": ({"service": "a!b c"}, ("a", "b c")),
    "by host": ({"host": "a"}, ("a", "host")),
    "by a filter of a host": ({"type": "Host", "filter": 'host.name == "a"'}, ("a", "host")),
    "by variables": (
        {"filter": "service.name==S && host.name==H", "filter_vars": {"H": "a", "S": "b"}}, ("a", "b")),
    "a variable that isn't there": ({"filter": "service.name==S && host.name==H", "filter_vars": {"H": "a"}}, None),
    "a pattern": ({"filter": 'match("web*", host.name)'}, None),
    "either": ({"filter": 'host.name=="a" || host.name=="b"'}, None),
    "a host where a service is meant": ({"filter": 'host.name=="a"'}, None),
    "a service without a host": ({"service": "b"}, None),
    "nothing": ({}, None),
}  # fmt: skip


@pytest.mark.parametrize("title", TARGETS)
def test_whose_it_is(title: str) -> None:
    """A result belongs to one object, by its name; else it is refused with the way to say it."""
    words, wanted = TARGETS[title]
    body = {"exit_status": 0, "plugin_output": "OK"} | words
    if wanted is None:
        with pytest.raises(NoSubmission, match="HOST!SERVICE"):
            read_icinga(body, None)
    else:
        submission = read_icinga(body, None).submission
        assert (submission.host, submission.check) == wanted


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"exit_status": None}, "exit_status"), ({"plugin_output": 3}, "plugin_output"), ({"exit_status": "x"}, "number"),
     ({"ttl": 0}, "ttl"), ({"ttl": "never"}, "ttl"), ({"execution_end": -1}, "execution_end")],
)  # fmt: skip
def test_what_icinga_would_refuse(changes: dict[str, Any], said: str) -> None:
    """A request that Icinga would refuse is refused with the name of what is wrong."""
    with pytest.raises(NoSubmission, match=said):
        read_icinga(ICINGA | changes, None)


def test_times_and_ttl() -> None:
    """A result has when it ran, for how long, and when the next one is due; a host that is not up is down."""
    body = {"host": "a", "exit_status": 1, "plugin_output": "no answer\nmore", "execution_start": 100.0,
            "execution_end": 101.5, "ttl": 90}  # fmt: skip
    submission = read_icinga(body, None).submission
    document = {"status": "critical", "summary": "no answer", "output": "more", "started": 100.0, "took_ms": 1500.0}
    assert submission == Submission("a", "host", document, "icinga", None, 90.0, "by its ttl")


def test_the_exit_status_is_what_counts() -> None:
    """The exit status counts, whatever stands in the text; a text that is cut tells its length."""
    assert plugin_document(2, "status ok all is fine")["status"] == "critical"
    cut = plugin_document(0, "x" * (MAX_OUTPUT + 1))
    assert cut["truncated"] == {"output": MAX_OUTPUT + 1}
    assert [plugin_document(at, "a | b=1")["metrics"][0]["value"] for at in (0, 1)] == [1.0, 1.0]


# ------------------------------------------------------------------------------------------------ NRDP

XML = """<?xml version='1.0'?>
<checkresults>
  <checkresult type="host" checktype="1"><hostname>Web1</hostname><state>0</state><output>UP</output></checkresult>
  <checkresult type="service" checktype="1"><hostname>Web1</hostname><servicename>CPU &amp; more</servicename>
    <state>1</state><output>WARN | load=5;4;6</output></checkresult>
</checkresults>"""
JSON = {"checkresults": [
    {"checkresult": {"type": "host", "checktype": "1"}, "hostname": "Web1", "state": "0", "output": "UP"},
    {"checkresult": {"type": "service", "checktype": "1"}, "hostname": "Web1", "servicename": "CPU & more",
     "state": "1", "output": "WARN | load=5;4;6"},
]}  # fmt: skip


def test_nrdp_in_both_languages() -> None:
    """XML and JSON come to the same, and each result has an id of its own if the request has one."""
    load = {"name": "load", "value": 5.0, "unit": "", "kind": "gauge", "warn": "4", "crit": "6"}
    wanted = [
        Submission("Web1", "host", {"status": "ok", "summary": "UP"}, "nrdp", "k/0"),
        Submission("Web1", "CPU & more", {"status": "warning", "summary": "WARN", "metrics": [load]}, "nrdp", "k/1"),
    ]
    assert read_nrdp_xml(XML, "k") == read_nrdp_json(json.dumps(JSON), "k") == wanted


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><checkresults>&b;</checkresults>'


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (read_nrdp_xml, BOMB, "BAD XML: no document type"),
        (read_nrdp_xml, "<checkresults>", "BAD XML"),
        (read_nrdp_xml, "<x/>", "BAD XML: <checkresults>"),
        (read_nrdp_xml, "<checkresults/>", "BAD DATA: 0 results"),
        (read_nrdp_xml, f"<checkresults>{'<checkresult/>' * (MAX_RESULTS + 1)}</checkresults>", "1001 results"),
        (read_nrdp_xml, f"<checkresults>{'<a/>' * (MAX_PARTS - 2)}</checkresults>", "BAD DATA: 0 results"),
        (read_nrdp_xml, f"<checkresults>{'<a/>' * (MAX_PARTS - 1)}</checkresults>", "BAD DATA: more than 26624 tags"),
        (read_nrdp_xml, "<checkresults " + "a='' " * MAX_PARTS + "/>", "BAD DATA: more than 26624 tags"),
        (read_nrdp_json, '{"checkresults": [' + "{}," * MAX_PARTS, "BAD DATA: more than 26624 commas"),
        (read_nrdp_json, "{}", "BAD JSON"),
        (read_nrdp_json, "[" * MAX_PARTS, "BAD JSON"),
        (read_nrdp_json, '{"checkresults": [1]}', "BAD JSON"),
        (read_nrdp_json, '{"checkresults": [{"hostname": "a", "checkresult": {"type": "service"}}]}', "servicename"),
        (read_nrdp_json, '{"checkresults": [{"hostname": "a", "servicename": "b", "state": "up"}]}', "exit status"),
    ],
)
def test_what_nrdp_would_refuse(read: Any, text: str, said: str) -> None:
    """A request that NRDP would refuse is refused in its own words if it has some."""
    with pytest.raises(NoSubmission, match=said):
        read(text, None)


NUMBERS = ("1e999", "-1e999", "9" * 400, "-" + "9" * 400, "NaN", "Infinity", "1e308", "-0", '"' + "9" * 400 + '"', '""',
           "true", "[]", "{}", '"\\ud800"')  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS, ids=lambda text: text[:12])
@pytest.mark.parametrize("field", ["exit_status", "execution_start", "execution_end", "ttl"])
def test_icingas_numbers_that_are_none(field: str, text: str) -> None:
    """JSON writes numbers that no int or float holds: each is taken or refused, and nothing else happens."""
    body = json.loads(json.dumps(ICINGA | {field: "HERE"}).replace('"HERE"', text))
    try:
        document = read_icinga(body, None).submission.document
    except NoSubmission as refused:
        assert "number" in str(refused) or "ttl is in seconds" in str(refused)
    else:
        assert document["status"] in ("ok", "warning", "critical", "unknown")


@pytest.mark.parametrize("text", NUMBERS, ids=lambda text: text[:12])
@pytest.mark.parametrize("field", ["state", "time"])
def test_nrdps_numbers_that_are_none(field: str, text: str) -> None:
    """A number of NRDP that is none is refused with all results, which are taken together or not at all."""
    each = {"checkresult": {"type": "service"}, "hostname": "nas", "servicename": "smart", "state": 0, "output": "x"}
    listed = json.dumps({"checkresults": [each | {field: "HERE"}]}).replace('"HERE"', text)
    try:
        (taken,) = read_nrdp_json(listed, None)
    except NoSubmission as refused:
        assert "number" in str(refused)
    else:
        assert (taken.host, taken.check) == ("nas", "smart")
