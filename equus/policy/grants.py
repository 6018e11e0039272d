"""Describe what a capability that was granted may touch."""

from __future__ import annotations

from attrs import frozen

from equus.policy.networks import Network
from equus.policy.plugin_templates import is_beneath


@frozen
class Grant:
    """Holds settings of a granted capability: what it may touch.

    Settings that the capability does not have stay empty.
    """

    paths: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    units: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of plugins and programs; of hosts that may be looked up, beside `networks`
    command_lines: bool = False
    owners: tuple[str, ...] = ()  # users and groups that may change the granted folders, beside root and the agent's

    def root_above(self, path: str) -> str | None:
        """Return the granted folder that holds a path, or is it; None if there is none. No link is followed."""
        return next((root for root in self.paths if is_beneath(path, root)), None)

    def covers_unit(self, unit: str) -> bool:
        """Return True if a unit is granted by its name, or by a pattern that ends in `*`."""
        return any(unit == known or (known.endswith("*") and unit.startswith(known[:-1])) for known in self.units)

    def covers_name(self, name: str) -> bool:
        """Return True if a plugin or program is granted; without names all are."""
        return not self.names or name in self.names


NOTHING = Grant()  # the grant of a capability that is not granted: it has no paths, units or networks
