"""Test addresses that are never reached, and addresses that hide another one."""

from ipaddress import ip_network

import pytest

from equus.policy.networks import LOOPBACK, Network, parse_address, refusal

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
    "168.63.129.16",
    "192.0.0.192",
    "fd00:c1::a9fe:a9fe",
    "fd00:ec2::23",
    "fd00:42::42",
    "fd00:a9fe:a9fe::1",
    "64:ff9b::168.63.129.16",
    "2002:c000:c0::1",
    "2001:db8::5efe:169.254.169.254",
    "64:ff9b:1::100.100.100.200",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2001:0:a9fe:a9fe:8000:63bf:3fff:fdd2",
    "2001:0:4136:e378:8000:63bf:5601:5601",
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
    """Some addresses are refused even where the policy grants everything."""
    assert refusal(ip, 80, EVERYTHING) is not None


@pytest.mark.parametrize("ip", ["8.8.8.8", "10.0.0.1", "127.0.0.1", "::1", "2001:db8::1", "fd00::1", "100.64.0.1"])
def test_everything_else_can_be_granted(ip: str) -> None:
    """Every other address is reached if a network of the policy has it, and refused without one."""
    assert refusal(ip, 80, EVERYTHING) is None
    assert refusal(ip, 80, ()) is not None


@pytest.mark.parametrize(
    ("ip", "reaches"),
    [("::ffff:127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("10.0.0.1", "10.0.0.1"), ("2002:a00:1::", "2002:a00:1::")],
)
def test_one_address_in_two_spellings(ip: str, reaches: str) -> None:
    """A mapped address reaches the IPv4 address in it, and all other forms are addresses of their own (F40)."""
    assert str(parse_address(ip)) == reaches


# IPv6 forms that carry an IPv4 address of another host, the networks of the outer form, and those inside.
TUNNELS = {
    "2002:a01:203::9": ("2002::/16", "10.1.2.3/32"),
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": ("2001::/32", "192.0.2.45/32"),
    "64:ff9b::10.1.2.3": ("64:ff9b::/96", "10.1.2.3/32"),
    "64:ff9b:1::10.1.2.3": ("64:ff9b:1::/48", "10.1.2.3/32"),
    "64:ff9b:1:a:1:203::": ("64:ff9b:1::/48", "10.1.2.3/32", "1.2.3.0/32"),
    "::10.1.2.3": ("::/96", "10.1.2.3/32"),
    "::ffff:0:10.1.2.3": ("::ffff:0:0:0/96", "10.1.2.3/32"),
    "2001:db8::5efe:10.1.2.3": ("2001:db8::/32", "10.1.2.3/32"),
    "2001:db8::200:5efe:10.1.2.3": ("2001:db8::/32", "10.1.2.3/32"),
    "2002:a01:203::5efe:10.4.5.6": ("2002::/16", "10.1.2.3/32", "10.4.5.6/32"),
}


@pytest.mark.parametrize("ip", TUNNELS)
def test_both_ends_of_a_tunnel_must_be_granted(ip: str) -> None:
    """An address in a tunnel needs a grant for the gateway and for the host behind it (F40)."""
    networks = [Network(ip_network(text)) for text in TUNNELS[ip]]
    assert refusal(ip, 80, networks) is None
    for missing in networks:
        assert refusal(ip, 80, [one for one in networks if one != missing]) == f"{ip} port 80 is not granted"
    with_ports = [Network(one.cidr, ((443, 443),)) for one in networks]
    assert refusal(ip, 443, with_ports) is None
    assert refusal(ip, 80, with_ports) is not None


@pytest.mark.parametrize(
    "ip",
    [
        "2002:7f00:1::9",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::127.0.0.1",
        "64:ff9b:1:7f00:0:100::",
        "64:ff9b:1:7f00:0:100:0:1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "2001:db8::5efe:127.0.0.1",
        "64:ff9b:1::",
    ],
)
def test_loopback_inside_of_a_tunnel_is_not_this_host(ip: str) -> None:
    """A loopback address inside of a tunnel is never reached, because it would be that of the gateway (F40)."""
    assert "never reached" in str(refusal(ip, 80, LOOPBACK))
    assert "never reached" in str(refusal(ip, 80, EVERYTHING))


def test_loopback_is_no_door_to_others() -> None:
    """The default network grants this host, and no other address in the form of a mapped one."""
    assert refusal("::ffff:10.0.0.1", 80, LOOPBACK) == "::ffff:10.0.0.1 port 80 is not granted"
    assert refusal("10.0.0.1", None, LOOPBACK) == "10.0.0.1 is in none of the granted networks"
    assert refusal("::ffff:127.0.0.1", 80, LOOPBACK) is None


@pytest.mark.parametrize(
    ("port", "allowed"), [(79, False), (80, True), (81, False), (99, False), (100, True), (110, True)]
)
def test_ports(port: int, allowed: bool) -> None:
    """Both ends of a range of ports belong to it."""
    networks = (Network(ip_network("10.0.0.0/8"), ((80, 80), (100, 110))),)
    assert (refusal("10.0.0.1", port, networks) is None) is allowed
