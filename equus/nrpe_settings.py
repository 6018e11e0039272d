"""Check the settings by which an agent answers `check_nrpe`: where it listens, and its certificate."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from attrs import frozen

NAMES = ("nrpe", "nrpe-certificate", "nrpe-key", "nrpe-ca")
_FILES = NAMES[1:]
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):([0-9]{1,5})")


@frozen
class NrpeSettings:
    """Names where to listen, and the files of TLS: certificate, key, and the authorities of clients. None: no TLS."""

    address: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None


def read(merged: Mapping[str, Any]) -> NrpeSettings | None:
    """Return the checked settings, None if the agent is not to answer. Raises ValueError with a sentence."""
    given = [name for name in _FILES if merged.get(name)]
    if not merged.get("nrpe"):
        if given:
            raise ValueError(f"--{given[0]} is for --nrpe ADDRESS:PORT, which is not given.")
        return None
    match = _ADDRESS.fullmatch(merged["nrpe"])
    try:
        address, port = ip_address(match[1] or match[2]) if match else None, int(match[3]) if match else 0
    except ValueError:
        address, port = None, 0
    if address is None or port > 65_535:
        raise ValueError(f"--nrpe {merged['nrpe']!r}: say ADDRESS:PORT, such as 127.0.0.1:5666 or [::]:5666.")
    if given and len(given) < len(_FILES):
        missing = " and ".join(f"--{name}" for name in _FILES if name not in given)
        raise ValueError(f"--{given[0]} alone is not enough: {missing} too, please.")
    if not given and not address.is_loopback:
        raise ValueError(
            f"--nrpe {merged['nrpe']}: other machines get answers by TLS with a certificate of their own only: "
            "give --nrpe-certificate, --nrpe-key and --nrpe-ca."
        )
    files = [Path(os.path.abspath(merged[name])) for name in given]
    return NrpeSettings(str(address), port, *files)
