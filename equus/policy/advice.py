"""Advise operators which line of a policy would grant what a check was refused."""

from __future__ import annotations

from pathlib import Path

from equus.policy.networks import parse_address

# Lines that would grant a capability, as examples that do little harm.
_EXAMPLES = {
    "disk": 'paths = ["/"]',
    "file": 'paths = ["/var/log"]',
    "unix": 'paths = ["/run/docker.sock"]',
    **dict.fromkeys(("systemd", "journal"), 'units = ["nginx.service"]'),
    "plugin": 'names = ["check_ntp"]',
    "program": 'names = ["smartctl"]',
    **dict.fromkeys(("tcp", "udp", "icmp", "tls", "http", "dns"), 'networks = [{ cidr = "10.0.0.0/8" }]'),
}


def advice(where: Path | str, capability: str, setting: str | None = None) -> str:
    """Return the advice to add a line to the policy `where`; without `setting`, an example that does little harm."""
    line = setting or _EXAMPLES.get(capability, "allow = true")
    return f"add to {where}, section [caps.{capability}]: {line}"


def network_line(ip: str, port: int | None) -> str:
    """Return the line that would grant this one address. `port` is None if the protocol has none."""
    address = parse_address(ip)
    bits = 32 if address is not None and address.version == 4 else 128
    ports = "" if port is None else f", ports = [{port}]"
    return f'networks = [{{ cidr = "{address}/{bits}"{ports} }}]'
