"""Test the settings of --nrpe: the files that are demanded before any client gets an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from equus.nrpe_settings import NrpeSettings, read
from equus.settings import SettingsError, gather

FILES = {"nrpe-certificate": "/c", "nrpe-key": "/k", "nrpe-ca": "/a"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"nrpe": "127.0.0.1:5666"}, NrpeSettings("127.0.0.1", 5666)),
        ({"nrpe": "[::1]:0"}, NrpeSettings("::1", 0)),
        ({"nrpe": "0.0.0.0:5666", **FILES}, NrpeSettings("0.0.0.0", 5666, Path("/c"), Path("/k"), Path("/a"))),
    ],
)
def test_good(given: dict[str, str], expected: NrpeSettings | None) -> None:
    assert read(given) == expected


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"nrpe": "5666"}, "say ADDRESS:PORT"),
        ({"nrpe": "host:5666"}, "say ADDRESS:PORT"),
        ({"nrpe": "127.0.0.1:70000"}, "say ADDRESS:PORT"),
        ({"nrpe": "1.2.3.4.5:5666"}, "say ADDRESS:PORT"),
        ({"nrpe": "0.0.0.0:5666"}, "give --nrpe-certificate, --nrpe-key and --nrpe-ca"),
        ({"nrpe": "127.0.0.1:1", "nrpe-key": "/k"}, "--nrpe-certificate and --nrpe-ca too"),
        ({"nrpe-key": "/k"}, "is for --nrpe ADDRESS:PORT"),
    ],
)
def test_bad(given: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError) as fault:
        read(given)
    assert why in str(fault.value)


def test_among_the_agents_settings(tmp_path: Path) -> None:
    """NRPE is set by flag or environment, needs TLS for other machines, and its key is no file that checks may read."""
    flags = {"server": ["a"], "nrpe": "0.0.0.0:1", **FILES}
    settings = gather(flags, {}, tmp_path, root=False)
    assert settings.nrpe is not None and settings.nrpe.port == 1
    assert Path("/k") in settings.own_files
    with pytest.raises(SettingsError, match="other machines get answers by TLS"):
        gather({"server": ["a"]}, {"EQUUS_NRPE": "0.0.0.0:1"}, tmp_path, root=False)
