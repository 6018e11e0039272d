"""Tests passive.toml: what it declares and what is wrong with it; its secrets; and how often somebody may report."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from helen.passive.declarations import MAX_OF_HOST, Declared, Passive, PassiveError, checked_id, read
from helen.passive.rate_limit import MAX_KEYS, RateLimit
from helen.passive.submission_keys import PREFIX, SubmissionKeys, digest_of
from helen.states.model import Rule

FILE = """
serial = 2
[hosts.nas]
labels = { site = "north" }
[[check]]
host = "nas"
id = "vol-*"
stale = "1h"
missing = "warning"
[[check]]
host = "nas"
id = "vol-9"
attempts = 3
depends = ["vol-1"]
override = true
[[ping]]
id = "nightly"
every = "1d"
grace = "1h"
[[ping]]
host = "nas"
id = "sync"
every = "10m"
"""


def test_a_file() -> None:
    """A file has labels, patterns and names, deadlines, and hosts that only checks name."""
    config = read(FILE)
    assert {name: host.labels for name, host in config.hosts.items()} == {"nas": {"site": "north"}, "pings": {}}
    assert [each.id for each in config.pings()] == ["sync", "nightly"]
    rules = config.rules("nas", ["vol-1", "vol-9", "x"])
    assert rules == {
        "sync": Rule(attempts=1, stale=1_200.0, passive=True, missing=2),
        "vol-1": Rule(attempts=1, stale=3_600.0, passive=True, missing=1),
        "vol-9": Rule(attempts=3, depends=("nas/vol-1",), passive=True),
    }
    assert config.rules("pings", ()) == {"nightly": Rule(attempts=1, stale=90_000.0, passive=True, missing=2)}


def test_a_name_wins_over_a_pattern() -> None:
    """A check that is declared by its name is that, wherever it stands; else the first pattern that
    covers it counts.
    """
    config = read(
        '[[check]]\nhost="a"\nid="*"\nstale="1m"\n[[check]]\nhost="a"\nid="x*"\n[[check]]\nhost="a"\nid="xy"\n'
    )
    found = [config.of("a", name) for name in ("xy", "xz", "z")]
    assert [None if each is None else each.id for each in found] == ["xy", "*", "*"]
    assert config.of("b", "xy") is None


FAULTS = {
    'serial = 0': "top level: serial is 0: write a number from 1 to 1000000",
    'x = 1': "top level: 'x' is no setting here: check, hosts, ping, serial",
    '[hosts]\na = 1': "hosts: write [hosts.NAME] and its settings below",
    '[hosts.A]': "hosts.A: 'A' is no name for a host",
    '[[check]]\nid = "x"': "[[check]] number 1: host is missing: write the name that reports",
    '[[check]]\nhost = "a"\nid = "equus:x"': "[[check]] number 1: id: 'equus:x' is no name for a check",
    '[[check]]\nhost = "a"\nid = "x "': "no space at an end",
    '[[check]]\nhost = "a"\nid = "x"\nevery = "1m"': "'every' is no setting here",
    '[[check]]\nhost = "a"\nid = "x"\nattempts = 0': "[[check]] number 1: attempts is 0: write a number from 1 to 100",
    '[[check]]\nhost = "a"\nid = "x"\nmissing = "ok"': "missing is 'ok': write unknown or warning or critical",
    '[[check]]\nhost = "a"\nid = "x"\n' * 2: "a/x is there twice",
    '[[ping]]\nid = "x"': "[[ping]] number 1: every is missing: how often it pings",
    '[[ping]]\nid = "x/y"\nevery = "1m"': "a ping has one name, without * ? [ and /",
    '[[ping]]\nid = "x"\nevery = "0s"': "every is 0 s: 1 to 3.16224e+07 s",
    "".join(f'[[ping]]\nid = "p{at}"\nevery = "1m"\n' for at in range(MAX_OF_HOST + 1)): "pings has 1001 checks",
    "no": "no TOML: ",
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS, ids=range(len(FAULTS)))
def test_a_fault(text: str) -> None:
    """A fault is told with its place and what to write instead."""
    with pytest.raises(PassiveError) as refused:
        read(text)
    assert FAULTS[text] in str(refused.value)


def test_all_faults_come_at_once() -> None:
    """All faults of a file come at once, in one list."""
    with pytest.raises(PassiveError) as refused:
        read("x = 1\n[[check]]\n[[ping]]\n")
    assert len(str(refused.value).splitlines()) == 5


def test_names_of_checks() -> None:
    """Services of others have spaces and slashes; nothing that moves a cursor, nothing of an agent's own."""
    assert checked_id("Disk C:/ usage") == "Disk C:/ usage"
    for bad in ("", " x", "x\n", "a\x1b[2J", "equus:gap", "x" * 201):
        with pytest.raises(ValueError, match="no name for a check"):
            checked_id(bad)


# ------------------------------------------------------------------------------------------------ secrets


def test_secrets_are_their_own_and_change_with_the_serial(tmp_path: Path) -> None:
    """A key is good for its host, the one of `*` for all; nothing of it is in the file of settings."""
    keys, config = SubmissionKeys.load(tmp_path / "passive.key"), read(FILE)
    assert stat.S_IMODE((tmp_path / "passive.key").stat().st_mode) == 0o600
    own, all_ = keys.of_host(config, "nas"), keys.of_host(config, "*")
    assert own.startswith(PREFIX)
    good = [keys.is_good(config, host, given) for host in ("nas", "pings", "none") for given in (own, all_, "", "hs_")]
    assert good == [True, True, False, False, False, True, False, False, False, True, False, False]
    again = SubmissionKeys.load(tmp_path / "passive.key")
    assert (again.of_host(config, "nas"), again.ping_key(config)) == (own, keys.ping_key(config))
    known = keys.digests(config)
    assert [digest_of(given) in known for given in (own, all_, own + "x", "", "\ud800")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    other = read(FILE.replace('labels = { site = "north" }', "serial = 7").replace("serial = 2", ""))
    assert {keys.of_host(other, "nas"), keys.of_host(other, "*")}.isdisjoint({own, all_})
    codes = {keys.ping(Declared("pings", name, serial=serial)) for name in ("a", "b") for serial in (1, 2)}
    assert len(codes | {SubmissionKeys(b"else").ping(Declared("pings", "a"))}) == 5
    assert not keys.is_good(Passive(), "nas", own)


def test_a_limit() -> None:
    """A key has a burst of its own, then so many a minute; those seen longest ago are forgotten."""
    limit = RateLimit(60.0, 2)
    assert [limit.take("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert limit.take("b", 0.0) == 0.0
    assert (limit.take("a", 0.5), limit.take("a", 1.0), limit.take("a", 1.0)) == (0.5, 0.0, 1.0)
    for at in range(MAX_KEYS):
        limit.take(f"k{at}", 1.0)
    assert limit.take("a", 1.0) == 0.0
