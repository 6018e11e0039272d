"""Serves the styles and scripts of pages under names that change with what is in them, so that browsers keep them.

An address is /s/BUILD/NAME; BUILD is of the sum over all assets. Imports between scripts stay relative, and an asset
never changes under its address. Scripts that pages load together are served as one file as well (joined_scripts.py).
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from types import MappingProxyType

from attrs import frozen

from helen.web.pages.joined_scripts import joined

STATIC = Path(__file__).parent / "static"
KINDS = MappingProxyType(
    {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
     ".json": "application/json"}
)  # fmt: skip
YEAR = "public, max-age=31536000, immutable"


@frozen
class Asset:
    """Holds one file as it is sent: whole, and packed by gzip."""

    kind: str
    body: bytes
    packed: bytes


@frozen
class Assets:
    """Holds all assets by name, such as `vendor/uplot.js`. `build`: 12 hex digits, the sum over all of them."""

    build: str
    files: MappingProxyType[str, Asset]

    def path(self, name: str) -> str:
        """Return the address of an asset. Raises KeyError if there is none: a template names one that is not there."""
        self.files[name]
        return f"/s/{self.build}/{name}"


@cache
def assets() -> Assets:
    """Return the assets of this installation. Reads and packs some 0.6 MB: call it at start, not in a request.

    Raises NotJoinable if a script is not there, or not as joined_scripts.py wants it.
    """
    found = {
        str(path.relative_to(STATIC)): path.read_bytes()
        for path in sorted(STATIC.rglob("*"))
        if path.suffix in KINDS and path.is_file()
    }
    own = {name: body.decode() for name, body in found.items() if name.endswith(".js") and "/" not in name}
    found |= {name: text.encode() for name, text in joined(own).items()}
    total = hashlib.sha256()
    for name, body in found.items():
        total.update(f"{name} {len(body)}\n".encode() + body)
    files = {
        name: Asset(KINDS[Path(name).suffix], body, gzip.compress(body, 9, mtime=0)) for name, body in found.items()
    }
    return Assets(total.hexdigest()[:12], MappingProxyType(files))
