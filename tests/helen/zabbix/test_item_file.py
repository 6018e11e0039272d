"""Tests the file of `helen zabbix`: its faults, all at once, and what values become by it."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest

from helen.cli.base.listening import ListenerFileError
from helen.cli.zabbix.item_file import Item, read, result_of
from helen.cli.zabbix.packets import Value
from helen.web.body_fields import read_seconds

FILE = """
[[source]]
address = ["10.0.3.0/24", "::1"]
hosts = ["nas*", "db-1"]
[[item]]
key = "raid.state"
check = "raid-{1}"
states = { "clean" = "ok", "check*" = "warning", "failed" = "critical" }
[[item]]
key = ["backup.age", "backup.*.age"]
check = "backup"
warning = "90000"
critical = "180000"
metric = "age"
unit = "s"
summary = "{0} of {host}: {value}"
ttl = "1d"
[[item]]
key = "net.if[eth0]"
check = "{key}"
[[item]]
key = "tmp.*"
drop = true
"""


def test_what_is_read() -> None:
    """Sources are found by address, and items by key: the first that fits."""
    config = read(FILE)
    assert config.listen == (("0.0.0.0", 10051),)
    [source] = config.sources_of(ipaddress.ip_address("10.0.3.9"))
    assert [source.speaks_for(host) for host in ("nas-1", "db-1", "db-2", "")] == [True, True, False, False]
    assert config.sources_of(ipaddress.ip_address("10.0.4.9")) == []
    found = {key: config.item_of(key) for key in ("raid.state[md0]", "backup.db.age", "net.if[eth0]", "net.if[eth1]")}
    assert {key: item and item.check for key, item in found.items()} == {
        "raid.state[md0]": "raid-{1}", "backup.db.age": "backup", "net.if[eth0]": "{key}", "net.if[eth1]": None,
    }  # fmt: skip
    assert config.item_of("tmp.x[1]").is_dropped  # type: ignore[union-attr]


def became(host: str, key: str, value: str, clock: float | None = None) -> dict[str, Any]:
    item = read(FILE).item_of(key)
    assert item is not None
    return result_of(Value(host, key, value, clock), item)


@pytest.mark.parametrize(("value", "status"), [
    ("clean", "ok"), ("checking", "warning"), ("failed", "critical"), ("odd", "unknown"), ("", "unknown"),
])  # fmt: skip
def test_a_text_has_the_status_of_its_pattern(value: str, status: str) -> None:
    """A text has the status of the first pattern that it fits; without one it is unknown."""
    assert became("nas", "raid.state[md0]", value) == {
        "host": "nas", "check": "raid-md0", "status": status, "source": "helen zabbix", "output": value,
        "summary": f"raid.state[md0] = {value or '?'}",
    }  # fmt: skip


@pytest.mark.parametrize(("value", "status", "number"), [
    ("100", "ok", 100.0), ("90000", "ok", 90_000.0), ("90000.5", "warning", 90_000.5), (" 2e5 ", "critical", 200_000.0),
    ("-1", "critical", -1.0), ("late", "unknown", None), ("nan", "unknown", None), ("1e999", "unknown", None),
    ("1_000", "unknown", None), ("9" * 400, "unknown", None),
])  # fmt: skip
def test_a_number_has_the_status_of_its_ranges(value: str, status: str, number: float | None) -> None:
    """A number has the status of its ranges and is a figure with them; a value that is no number is unknown."""
    result = became("nas", "backup.age[x]", value)
    metric = {"name": "age", "value": number, "unit": "s", "warn": "90000", "crit": "180000"}
    assert (result["status"], result["check"], result["ttl"]) == (status, "backup", 86_400.0)
    assert result.get("metrics") == (None if number is None else [metric])


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2_592_000.0), ("90s", 90.0), ("1500ms", 1.5), ("365d", 3.1536e7)]
)
def test_helen_takes_each_time_to_live(text: str, seconds: float) -> None:
    """The posted result is read by the reader of the route."""
    item = read(FILE.replace("1d", text)).item_of("backup.age")
    assert item is not None
    body = json.loads(json.dumps(result_of(Value("nas", "backup.age", "5"), item)))
    assert read_seconds(body, "ttl") == seconds


@pytest.mark.parametrize(("written", "key", "fits"), [
    ("raid.state[md0]", "raid.state[md0]", True), ("raid.state[md0]", "raid.statem", False),
    ("raid.state[md0]", "raid.state0[x]", False), ("raid.*[md0]", "raid.xm", False),
    ("raid.stat?", "raid.state[m]", True),
])  # fmt: skip
def test_parameters_are_no_choice_of_letters(written: str, key: str, fits: bool) -> None:
    """A key that is written with its parameters is that one alone."""
    assert Item((written,), "x").fits(key) is fits


def test_a_value_with_a_time_is_one_result() -> None:
    """The same value of the same time has the same id, another one has another; without a time there is none."""
    first, again = (became("nas", "raid.state[md0]", "clean", 1_700_000_000.25) for _ in range(2))
    assert (first["started"], first["id"]) == (1_700_000_000.25, again["id"])
    others = [
        became("nas", "raid.state[md0]", "clean", 1_700_000_001.0),
        became("nas2", "raid.state[md0]", "clean", 1.0),
    ]
    assert len({each["id"] for each in (first, *others)}) == 3
    assert "id" not in became("nas", "raid.state[md0]", "clean")


def test_what_others_chose_makes_no_odd_name() -> None:
    """Names of hosts and checks are sound, texts are safe to print, and none is long."""
    result = became("nas\x1b[2J", "net.if[eth0]", "\u202e" + "v" * 60_000)
    assert (result["host"], result["check"]) == ("nas_x1b_2J", "net.if_eth0_")
    assert len(result["summary"]) <= 500 and result["summary"].isprintable()
    assert len(result["output"]) == 10_000
    assert len(became("n" * 255, "raid.state[" + "m" * 2_000 + "]", "clean")["check"]) == 120


@pytest.mark.parametrize(("text", "said"), [
    ("", "names no [[source]]"), ("listen = 5", "listen is 5"), ("nonsense", "no TOML"),
    ('listen = "here"\n', "as 0.0.0.0:10051"), ("lsten = 1", "lsten"), ("source = 1", "write [[source]] for each"),
    ("[[source]]\nhosts = 'x'", "address is missing"), ("[[source]]\naddress = '1.2.3.4'", "hosts is missing"),
    ("[[source]]\naddress = '1.2.3.4/8'\nhosts = 'x'", "has host bits set"),
    ("[[item]]\ncheck = 'x'", "key is missing"), ("[[item]]\nkey = 'x'", "check is missing"),
    ("[[item]]\nkey = 'x'\ncheck = '{21}'", "check has {21}, which is nothing"),
    ("[[item]]\nkey = 'x'\ncheck = 'x'\nwarning = 'high'", "warning: 'high' is no range"),
    ("[[item]]\nkey = 'x'\ncheck = 'x'\nstates = { a = 'fine' }", "'fine' is none of ok, warning"),
    ("[[item]]\nkey = 'x'\ncheck = 'x'\nwarning = '1'\nstates = { a = 'ok' }", "write one of both"),
    ("[[item]]\nkey = 'x'\ncheck = 'x'\nttl = '5y'", "ttl"),
])  # fmt: skip
def test_faults(text: str, said: str) -> None:
    """A fault is told with its place, and what to write instead."""
    with pytest.raises(ListenerFileError) as caught:
        read(text)
    assert said in str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    """All faults are told at once, so that a file is mended once."""
    with pytest.raises(ListenerFileError) as caught:
        read("listen = 5\na_minute = 0\n[[source]]\naddress = 'x'\n[[item]]\nkey = 'x'\n")
    assert len(str(caught.value).splitlines()) >= 5
