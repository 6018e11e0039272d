"""Addresses that are never reached, and those that pretend to be others."""

from ipaddress import ip_network

import pytest

from equus.sandbox.addresses import LOOPBACK, Network, parse_address, refusal

EVERYTHING = (Network(ip_network("0.0.0.0/0")), Network(ip_network("::/0")))

NEVER = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "example.org",
    "",
    "127.1",
    "0x7f000001",
    "2130706433",
    "127.0.0.1 ",
    "010.0.0.1",
]


@pytest.mark.parametrize("ip", NEVER)
def test_never(ip: str) -> None:
    """Not even where everything is granted."""
    assert refusal(ip, 80, EVERYTHING) is not None


@pytest.mark.parametrize("ip", ["8.8.8.8", "10.0.0.1", "127.0.0.1", "::1", "2001:db8::1", "fd00::1", "100.64.0.1"])
def test_everything_else_can_be_granted(ip: str) -> None:
    """By the networks of the policy, and by nothing else."""
    assert refusal(ip, 80, EVERYTHING) is None
    assert refusal(ip, 80, ()) is not None


@pytest.mark.parametrize(
    ("ip", "reaches"),
    [
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("64:ff9b::7f00:1", "127.0.0.1"),
        ("2002:7f00:1::", "127.0.0.1"),
        ("::127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_embedded_addresses(ip: str, reaches: str) -> None:
    """Judged is the address that packets would go to."""
    assert str(parse_address(ip)) == reaches


def test_loopback_is_no_door_to_others() -> None:
    """The default network holds this host, and no address that is translated to another."""
    assert refusal("::ffff:10.0.0.1", 80, LOOPBACK) == "::ffff:10.0.0.1 port 80 is not granted"
    assert refusal("10.0.0.1", None, LOOPBACK) == "10.0.0.1 is in none of the granted networks"
    assert refusal("::ffff:127.0.0.1", 80, LOOPBACK) is None


@pytest.mark.parametrize(
    ("port", "allowed"), [(79, False), (80, True), (81, False), (99, False), (100, True), (110, True)]
)
def test_ports(port: int, allowed: bool) -> None:
    """Both ends of a range belong to it."""
    networks = (Network(ip_network("10.0.0.0/8"), ((80, 80), (100, 110))),)
    assert (refusal("10.0.0.1", port, networks) is None) is allowed
