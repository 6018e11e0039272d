"""Perform host.kernel.bonds: read the bonded network interfaces from /proc/net/bonding."""

from typing import Any

from equus.capabilities.calls import Context, Perform, positional
from equus.capabilities.kernel.entries import required_names, whole

FOLDER = "/proc/net/bonding"
_KEYS = {
    "Bonding Mode": "mode", "Primary Slave": "primary", "Currently Active Slave": "active", "MII Status": "status",
    "Speed": "speed", "Duplex": "duplex", "Link Failure Count": "failures", "Aggregator ID": "aggregator",
}  # fmt: skip
_OF_BOND = ("mode", "primary", "active", "status")
_OF_MEMBER = ("status", "speed", "duplex", "failures", "aggregator")


def parse_bond(name: str, text: str) -> dict[str, Any]:
    """Parse one file of /proc/net/bonding: lines of the bond, then a block for each member."""
    bond: dict[str, Any] = {"name": name, "mode": "", "status": "", "members": []}
    place, keys = bond, _OF_BOND
    for line in text.splitlines():
        # Details of LACP are indented, and have keys of their own.
        if line.startswith((" ", "\t")):
            continue
        key, _, value = line.partition(": ")
        if key == "Slave Interface":
            place, keys = {"name": value.strip(), "status": ""}, _OF_MEMBER
            bond["members"].append(place)
        elif (ours := _KEYS.get(key)) in keys:
            number = whole(value) if ours in ("failures", "aggregator") else None
            place[str(ours)] = value.strip() if number is None else number
    bond["working"] = sum(member["status"] == "up" for member in bond["members"])
    return bond


def bonds(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Return the bonds of this host. Raises CallFailed("unsupported") if it has none."""
    positional("host.kernel.bonds", args)
    names = required_names(context, FOLDER, "bonded interfaces")
    return [parse_bond(name, context.read_some(f"{FOLDER}/{name}")) for name in names]


CALLS: dict[str, Perform] = {"kernel.bonds": bonds}
