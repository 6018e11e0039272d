"""Read what the files of `helen traps` and `helen zabbix` have in common: addresses, lists of tables, placeholders."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from groundwork.safe_text import safe_line
from helen.files.toml_table import Table

MOST = 1_000  # tables of one list
MOST_NAME = 120  # characters of a host or a check
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
UNSOUND = re.compile(r"[^\w.:+@/-]")  # in a value that becomes part of a name
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def sound_name(text: str) -> str:
    """Return a text as part of the name of a host or check: what may not be in one becomes `_`."""
    return UNSOUND.sub("_", safe_line(text))[:MOST_NAME]


def read_tables(table: Table, name: str) -> Iterable[Table]:
    """Yield the tables of a list, each of which is done with at the next one."""
    table.expect(name)
    listed = table.content.get(name, [])
    if not isinstance(listed, list) or len(listed) > MOST or not all(isinstance(each, dict) for each in listed):
        table.faults.append(f"{name}: write [[{name}]] for each of at most {MOST:,}")
        return
    for at, content in enumerate(listed, 1):
        one = Table(f"[[{name}]] number {at}", content, table.faults)
        yield one
        one.end()


def read_endpoint(text: str, faults: list[str], such_as: str) -> tuple[str, int]:
    """Return address and port of `ADDRESS:PORT`; what is none becomes a fault, with an example of one."""
    host, _, port = text.rpartition(":")
    try:
        if 0 <= int(port) <= 65_535 and port.isdecimal():
            return str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))), int(port)
    except ValueError:
        pass
    faults.append(f"the file: listen is {text!r:.80}: write an address and a port, as {such_as}")
    return "", 0


def read_networks(table: Table) -> tuple[Network, ...]:
    """Return the networks of `address`, of which there must be one."""
    networks: list[Network] = []
    for text in table.strings("address", 'write an address, a network such as "10.0.3.0/24", or some of them'):
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            table.faults.append(f"{table.place}: address: {error}")
    if not networks:
        table.faults.append(f"{table.place}: address is missing: write an address or a network")
    return tuple(networks)
