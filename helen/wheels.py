"""An Equus that goes out with a set of checks: what its wheels must be, judged before they are signed. Pure."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping

from equus_protocol.manifest import MAX_FILE

MAX_WHEELS = 8  # ours, and dependencies that have to come along
_OURS = re.compile(r"helen_equus-(?P<version>[0-9]+(?:\.[0-9]+)*)-py3-none-any\.whl")
_ANY = re.compile(r"[A-Za-z0-9_.]+-[0-9][A-Za-z0-9_.!+]*-py3-none-any\.whl")


class NotAnEquus(Exception):
    """Why these are no wheels that agents can take, as a sentence."""


def version_of(wheels: Mapping[str, bytes]) -> str:
    """The version that they are. Raises NotAnEquus."""
    if not 1 <= len(wheels) <= MAX_WHEELS:
        raise NotAnEquus(f"an Equus comes as 1 to {MAX_WHEELS} wheels")
    for name, content in wheels.items():
        if _ANY.fullmatch(name) is None:
            raise NotAnEquus(f"{name} is no wheel of pure Python (NAME-VERSION-py3-none-any.whl)")
        if len(content) > MAX_FILE:
            raise NotAnEquus(f"{name} has {len(content)} bytes; {MAX_FILE} is the most that fits into one blob")
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise NotAnEquus(f"{name} is no archive")
    ours = [found for found in map(_OURS.fullmatch, wheels) if found is not None]
    if len(ours) != 1:
        raise NotAnEquus("one of the wheels must be helen_equus-VERSION-py3-none-any.whl, VERSION of numbers and dots")
    return ours[0]["version"]
