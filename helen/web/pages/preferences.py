"""Reads the choices of a reader in the menu of a page: light or dark, and keys on or off.

A cookie brings each choice, so the page comes in its colours. A script could set them only after the first paint, and
a page that asks its browser for what it has stored waits ten milliseconds and more for another process.
"""

from __future__ import annotations

from types import MappingProxyType

from helen.web.request import ApiRequest

CHOICES = MappingProxyType({"theme": ("", "light", "dark"), "keys": ("on", "off")})  # the first: what nobody has chosen


def preferences_of(request: ApiRequest) -> dict[str, str]:
    """Return a value of CHOICES for each name; a cookie `helen-NAME` of another value counts as none."""
    found = dict[str, str]()
    for name, values in CHOICES.items():
        given = (request.getCookie(f"helen-{name}".encode()) or b"").decode("latin-1")
        found[name] = given if given in values else values[0]
    return found
