"""Tests where targets are found: tables of sources, files in Prometheus's format, SRV records; and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from helen.targets.declarations import read
from helen.targets.sources import MAX_FOUND, Source, SourceFault, targets_of_file, targets_of_records
from helen.targets.target_fields import Quorum, Target, TargetsError

SOURCE = Source(("probe-*",), ("/etc/targets/*.json",), labels={"role": "node"}, quorum=Quorum(2, 3))


def test_what_a_table_says() -> None:
    text = """
    [[source]]
    file_sd = "/etc/targets/*.json"
    via = "probe-*"
    labels = { role = "node" }
    quorum = "2 of 3"
    [[source]]
    srv = "_http._tcp.example.org"
    server = "[::1]:8600"
    every = "30s"
    via = ["site=north"]
    """
    assert read(text).sources == (
        SOURCE, Source(("site=north",), (), "_http._tcp.example.org", ("::1", 8600), 30.0)
    )  # fmt: skip
    assert [each.place for each in read(text).sources] == ["/etc/targets/*.json", "SRV _http._tcp.example.org"]
    longest = ".".join(("_x", "y" * 63, "z" * 63, "w" * 63, "v" * 58)) + "."
    assert read(f'[[source]]\nsrv = "{longest}"\nvia = "a"').sources[0].srv == longest
    assert read('[[source]]\nsrv = "a"\nvia = "a"\nserver = "10.0.0.2"').sources[0].server == ("10.0.0.2", 53)


FAULTS = [
    ('via = "a"', "write file_sd, the files, or srv, the name of the records"),
    ('via = "a"\nfile_sd = "/a"\nsrv = "b"', "write file_sd, the files, or srv"),
    ('via = "a"\nfile_sd = "a.json"', "write a path from the root"), ('via = "a"\nfile_sd = []', "file_sd is []"),
    ('via = "a"\nfile_sd = "/**/a"', "file_sd is ['/**/a']"),
    ('via = "a"\nfile_sd = ["/a", 1]', "file_sd is ['/a', 1]"),
    ('via = "a"\nsrv = "a..b"', "srv is 'a..b': write a name"), ('via = "a"\nsrv = ".a"', "srv is '.a'"),
    ('via = "a"\nsrv = "_x.' + "y" * 64 + '"', "with 63 characters at most between two dots"),
    ('via = "a"\nsrv = "' + "yy." * 85 + '"', "write a name such as"),
    ('via = "a"\nsrv = "a b"', "srv is 'a b': write a name"), ('via = "a"\nsrv = ""', "srv is ''"),
    ('via = "a"\nsrv = "a"\nserver = "ns1"', "server is 'ns1': write the address of a name server"),
    ('via = "a"\nsrv = "a"\nserver = "10.0.0.1:70000"', "server is '10.0.0.1:70000'"),
    ('via = "a"\nsrv = "a"\nevery = "1s"', "every is '1s': write a duration from 10s to 1d"),
    ('via = "a"\nsrv = "a"\nevery = true', "every is True"), ('srv = "a"', "via is None"),
    ('via = "a"\nfile_sd = "/a"\nevery = "1m"', "every is for srv: files are watched"),
    ('via = "a"\nfile_sd = "/a"\ncolour = 1', "'colour' is no setting: file_sd"),
    ('via = "a"\nsrv = "a"\nquorum = "3 of 2"', "quorum is '3 of 2'"),
    ('via = "a"\nfile_sd = "/a"\n[[source]]\nvia = "b"\nfile_sd = "/a"', "two of them read the same: write it once"),
    ('via = "a"\nsrv = "b"\n' + '[[source]]\nvia = "a"\nsrv = "c"\n' * 50, "source: write [[source]] for each of at"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_tables_that_cannot_be(text: str, fault: str) -> None:
    with pytest.raises(TargetsError) as refused:
        read(f"[[source]]\n{text}")
    assert fault in str(refused.value)


def found(*groups: Any) -> list[Target]:
    return targets_of_file(SOURCE, json.dumps(groups).encode())


def test_a_file() -> None:
    """Each place has its own name, the group's labels win over the source's, and Prometheus's own are left out."""
    made = found({"targets": ["Web-1.example.org:9100", "10.0.0.7"], "labels": {"env": "prod", "__scheme__": "https"}},
                 {"targets": ["[2001:db8::1]:22", "2001:db8::2"], "labels": {"role": "db", "empty": ""}},
                 {"targets": ["https://me@shop.example.org:8443/health?deep=1"]})  # fmt: skip
    assert [(each.name, each.address, each.port, each.given, dict(each.labels)) for each in made] == [
        ("web-1.example.org-9100", "Web-1.example.org", 9100, "", {"role": "node", "env": "prod"}),
        ("10.0.0.7", "10.0.0.7", None, "", {"role": "node", "env": "prod"}),
        ("2001-db8-1-22", "2001:db8::1", 22, "", {"role": "db"}),
        ("2001-db8-2", "2001:db8::2", None, "", {"role": "db"}),
        ("shop.example.org-8443", "shop.example.org", 8443, "https://me@shop.example.org:8443/health?deep=1",
         {"role": "node"}),
    ]  # fmt: skip
    assert {(each.via, each.quorum) for each in made} == {(("probe-*",), Quorum(2, 3))}
    assert targets_of_file(SOURCE, b"[]") == []


BROKEN = [
    (b"", 'no list of {"targets"'), (b"[", 'no list of {"targets"'), (b"{}", "Expected `array`, got `object`"),
    (b'[{"targets": "a"}]', "Expected `array`"), (b'[{"targets": [1]}]', "Expected `str`, got `int`"),
    (b'[{"labels": {}}]', "missing required field `targets`"), (b'[{"targets": [], "labels": {"a": 1}}]', "`str`"),
    (b'[{"targets": ["a"], "labels": {"agent": "x"}}]', "labels: the label agent is Helen's own"),
    (b'[{"targets": ["a"], "labels": {"x y": "x"}}]', "labels: 'x y' is no key"),
    (b'[{"targets": ["a"], "labels": {"x": "a,b"}}]', "labels: x='a,b' is no label"),
    (b"[" * 100_000, 'no list of {"targets"'), (b"\xff\xfe[]", 'no list of {"targets"'), (b'["\xff"]', "no list of"),
    (json.dumps([{"targets": ["a"] * (MAX_FOUND + 1)}]).encode(), "more than 10,000 targets"),
    *((json.dumps([{"targets": [text]}]).encode(), fault) for text, fault in (
        ("", "'' is no HOST:PORT"), ("a:b", "'a:b' is no"), ("a:0", "port 0 is no place"), ("a:99999", "port 99999"),
        ("a/b", "'a/b' is no HOST:PORT"), ("a b", "'a b' with port None is no place"), ("http://", "is no HOST:PORT"),
        ("\u001b[2J", "is no HOST:PORT"), ("h" * 300, "no place that can be looked at"), ("a..b", "is no name"),
        ("h" * 64, "is no name for an agent"), ("_", "is no name"), ("http://a/" + "x" * 3_000, "is no HOST:PORT"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "fault"), BROKEN, ids=range(len(BROKEN)))
def test_files_that_are_broken(raw: bytes, fault: str) -> None:
    with pytest.raises(SourceFault) as refused:
        targets_of_file(SOURCE, raw)
    assert fault in str(refused.value) and len(str(refused.value)) < 500


@given_any(st.one_of(st.binary(max_size=200), st.lists(st.text(max_size=30)).map(
    lambda texts: json.dumps([{"targets": texts}]).encode())))  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_files_of_any_bytes(raw: bytes) -> None:
    """Files of any bytes are refused with a sentence, or give names that a target can have."""
    try:
        made = targets_of_file(SOURCE, raw)
    except SourceFault:
        return
    assert all(each.name == each.name.lower() and 0 < len(each.name) <= 63 for each in made)


def test_records() -> None:
    """Records are targets by name, each once; none, and the one for no such service, make none."""
    source = Source(("a",), (), "_http._tcp.example.org", labels={"role": "web"})
    made = targets_of_records(source, [("b.example.org.", 80), ("a.example.org", 8080), ("b.example.org", 80)])
    assert [(each.name, each.address, each.port, each.labels) for each in made] == [
        ("a.example.org-8080", "a.example.org", 8080, {"role": "web"}),
        ("b.example.org-80", "b.example.org", 80, {"role": "web"}),
    ]  # fmt: skip
    for records, fault in (
        ([], "no such records"), ([(".", 0)], "no such records"), ([("a", 0)], "port 0"), ([("", 80)], "no place"),
        ([("a b", 80)], "no place"), ([(f"h{n}", 80) for n in range(MAX_FOUND + 1)], "more than 10,000"),
    ):  # fmt: skip
        with pytest.raises(SourceFault, match=fault):
            targets_of_records(source, records)
