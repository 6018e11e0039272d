"""Tests the text of forwards.toml: what it may say, every fault at once, and nothing of a secret in what is shown."""

from __future__ import annotations

import pytest
from agreed_numbers import numbers_in_force

from helen.forwards.config import Forwards, ForwardsError, read
from helen.forwards.formats import kinds

LIMITS: dict[str, dict[str, float]] = {
    "helen.forwards.config": {"MOST": 10, "MOST_PATTERNS": 100, "DAY": 86_400.0},
    "helen.forwards.delivery": {
        "MOST_REFUSALS": 64, "MOST_PROBES": 8, "PROOF_SECONDS": 60.0,
        "FIRST_RETRY": 1.0, "LONGEST_RETRY": 60.0, "LONGEST_ASKED": 600.0, "JITTER": 0.25,
    },
    "helen.forwards.formats.otlp": {"MOST_ERROR": 500},
    "helen.forwards.forwarder": {"LOOK_SECONDS": 1.0, "KEEP_SECONDS": 10.0, "AGAIN_SECONDS": 10.0},
    "helen.forwards.forwarding": {"NEWS_SECONDS": 3_600.0},
    "helen.forwards.runtime": {"THREADS": 2},
    "helen.forwards.segment_files": {"ROWS": 500, "READ_BYTES": 8_388_608},
    "helen.forwards.segment_rows": {"LONGEST_RUN_MS": 1e9, "LATEST": 1e10},
    "helen.forwards.sending": {"MOST_SAID": 4_096},
    "helen.forwards.segment_walk": {
        "MOST_FIGURES": 2_000, "MOST_BYTES": 1_048_576, "NEWEST_STEPS": 3, "NAMES_AT_ONCE": 2_000,
    },
    "helen.forwards.stream": {"PORT": 2003},
}  # fmt: skip
WHOLE = """
[forwards.prom]
type = "remote-write"
url = "https://prometheus.example/api/v1/write"
bearer = { file = "/etc/helen/prometheus.token" }
ca = "/etc/helen/ca.pem"
on = ["web-*", "role=db"]
checks = ["disk*"]
send = ["metrics"]
prefix = "helen_"
timeout = "5s"
trouble_after = "1h"
begin = "oldest"

[forwards.otel]
type = "otlp"
url = { env = "OTEL_URL" }
headers = { x-tenant = "hunter2", x-key = { env = "OTEL_KEY" } }
signals = "logs"

[forwards.lake]
type = "influx"
url = "http://influx.example:8086/api/v2/write?org=o&bucket=hunter2"

[forwards.carbon]
type = "graphite"
url = "tcp://[::1]:7"
style = "tags"
"""


def faults(text: str) -> list[str]:
    with pytest.raises(ForwardsError) as caught:
        read(text)
    return str(caught.value).splitlines()


def one(more: str, kind: str = "influx", url: str = '"http://h/w"') -> str:
    return f'[forwards.x]\ntype = "{kind}"\nurl = {url}\n{more}\n'


def test_numbers_that_others_count_on() -> None:
    """A change of one of them is a decision about all who count on it, and changes this table, too."""
    assert numbers_in_force(LIMITS) == LIMITS


def test_all_that_can_be_set() -> None:
    found: Forwards = read(WHOLE)
    assert list(found) == ["prom", "otel", "lake", "carbon"]
    prom, otel = found["prom"], found["otel"]
    assert (prom.on, prom.checks, prom.sends) == (("web-*", "role=db"), ("disk*",), frozenset(("metrics",)))
    assert (prom.timeout, prom.trouble_after, prom.is_from_oldest) == (5.0, 3_600.0, True)
    assert (otel.on, otel.checks, otel.sends) == (("*",), ("*",), frozenset(("metrics", "states")))
    assert (otel.timeout, otel.trouble_after, otel.is_from_oldest) == (30.0, 600.0, False)
    paths = {name: [signal.path for signal in each.signals] for name, each in found.items()}
    assert paths == {"prom": [""], "otel": ["/v1/logs"], "lake": [""], "carbon": [""]}
    assert read(WHOLE) == found and read("") == {}


def test_what_is_shown_has_no_secret() -> None:
    shown = {name: each.show() for name, each in read(WHOLE).items()}
    assert shown["prom"] == {
        "name": "prom", "type": "remote-write", "on": ["web-*", "role=db"], "checks": ["disk*"], "send": ["metrics"],
        "timeout": 5.0, "trouble_after": 3_600.0, "prefix": "helen_", "url": "https://prometheus.example/****",
        "headers": {}, "bearer": "(file /etc/helen/prometheus.token)",
    }  # fmt: skip
    assert shown["otel"]["headers"] == {"x-tenant": "****", "x-key": "(env OTEL_KEY)"}
    assert (shown["otel"]["url"], shown["otel"]["signals"]) == ("(env OTEL_URL)", "logs")
    assert (shown["carbon"]["url"], shown["carbon"]["style"]) == ("tcp://[::1]:7", "tags")
    assert "hunter2" not in str(shown)


@pytest.mark.parametrize(("send", "signals", "paths"), [
    ('["metrics", "states"]', "both", ["/v1/metrics", "/v1/logs"]), ('"metrics"', "both", ["/v1/metrics"]),
    ('"states"', "both", ["/v1/metrics", "/v1/logs"]), ('"states"', "metrics", ["/v1/metrics"]),
    ('"metrics"', "metrics", ["/v1/metrics"]), ('["metrics", "states"]', "logs", ["/v1/logs"]),
])  # fmt: skip
def test_signals_of_otlp(send: str, signals: str, paths: list[str]) -> None:
    found = read(one(f'send = {send}\nsignals = "{signals}"', "otlp"))["x"]
    assert [signal.path for signal in found.signals] == paths


@pytest.mark.parametrize(("more", "said"), [
    ('on = []', "forwards.x: on is []: write patterns of agents"),
    ('checks = [""]', "forwards.x: checks is ['']: write patterns of checks"),
    ('on = [1]', "forwards.x: on is [1]: write patterns of agents"),
    ('send = []', "forwards.x: send is []"), ('send = ["logs"]', "forwards.x: send is ['logs']"),
    ('prefix = "a b"', "forwards.x: prefix is 'a b': write letters"), ('prefix = "{p}"', "forwards.x: prefix is '{p}'"),
    ('timeout = "0s"', "forwards.x: timeout is 0 s: 1 to 300 s"), ('timeout = "soon"', "forwards.x: timeout: 'soon'"),
    ('trouble_after = "1s"', "forwards.x: trouble_after is 1 s"), ('begin = "then"', "forwards.x: begin is 'then'"),
    ('style = "tags"', "forwards.x: 'style' is no setting here"), ('headers = { host = "x" }', "'host' can't be set"),
    ('bearer = "written"', "bearer is written out"), ('what = 1', "forwards.x: 'what' is no setting here"),
])  # fmt: skip
def test_faults(more: str, said: str) -> None:
    (found,) = faults(one(more))
    assert said in found


@pytest.mark.parametrize(("text", "said"), [
    ("forwards = 1", "forwards: write [forwards.NAME]"), ("[forward.x]", "top level: 'forward' is no setting here"),
    ("[forwards]\nx = 1", "forwards.x: write [forwards.NAME]"), ('[forwards."a b"]', "forwards.a b: write"),
    ("[forwards.x]", "forwards.x: type is missing"), (one("", "statsd"), "forwards.x: type is 'statsd'"),
    (one("", url='"ftp://h"'), "forwards.x: url can't be used"), (one("", "graphite"), "forwards.x: url is 'http://h/w'"),
    (one("", "graphite", '"tcp://h:0"'), 'write "tcp://HOST[:2003]"'), ("x = [", "no TOML"),
    (one('style = "x"', "graphite", '"tcp://h"'), "forwards.x: style is 'x'"),
    (one('signals = "x"', "otlp"), "forwards.x: signals is 'x'"),
    (one("", "otlp", '"http://h/x?key=1"'), "forwards.x: url has a query, which /v1/metrics can't be added to"),
    (one('signals = "logs"\nsend = "metrics"', "otlp"), "forwards.x: signals and send leave nothing to send"),
    ("".join(f'[forwards.f{n}]\ntype = "influx"\nurl = "http://h"\n' for n in range(11)), "at most 10 of them"),
])  # fmt: skip
def test_files_that_can_not_be_used(text: str, said: str) -> None:
    assert said in "\n".join(faults(text))


def test_all_faults_at_once() -> None:
    text = one('on = []\ntimeout = "0s"') + '[forwards.y]\ntype = "otlp"\n'
    assert [each.split(":")[0] for each in faults(text)] == ["forwards.x", "forwards.x", "forwards.y"]


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kinds.KINDS["influx"]
    monkeypatch.setitem(kinds.KINDS, "influx", type(kind)(kind.type_name, kind.way, kind.signals, missing="needs a, b"))
    assert faults(one("")) == ["forwards.x: needs a, b"]
