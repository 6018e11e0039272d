"""Test the lines that operators are advised to add to a policy."""

from __future__ import annotations

import pytest

from equus.policy.advice import advice, network_line


@pytest.mark.parametrize(
    ("capability", "setting", "line"),
    [
        ("disk", None, 'paths = ["/"]'), ("dns", None, 'networks = [{ cidr = "10.0.0.0/8" }]'),
        ("procs", None, "allow = true"), ("disk", 'paths = ["/srv"]', 'paths = ["/srv"]'),
    ],
)  # fmt: skip
def test_the_line_and_its_place(capability: str, setting: str | None, line: str) -> None:
    """An example stands where the caller knows no line of its own."""
    assert advice("/etc/equus/policy.toml", capability, setting) == (
        f"add to /etc/equus/policy.toml, section [caps.{capability}]: {line}"
    )


@pytest.mark.parametrize(
    ("ip", "port", "line"),
    [
        ("10.0.0.1", 443, 'networks = [{ cidr = "10.0.0.1/32", ports = [443] }]'),
        ("10.0.0.1", None, 'networks = [{ cidr = "10.0.0.1/32" }]'),
        ("2001:db8::1", 53, 'networks = [{ cidr = "2001:db8::1/128", ports = [53] }]'),
    ],
)
def test_a_network_of_one_address(ip: str, port: int | None, line: str) -> None:
    """The prefix is that of the address's family."""
    assert network_line(ip, port) == line
