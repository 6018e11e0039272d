"""Makes a wheel with the agent alone from the wheel of the whole product. Pure.

The product's wheel holds the server as well, which is more than half of it. Hosts need none of that, and an agent of
version 0.1 takes wheels up to 1 MiB only.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile

from helen.library.agent_wheels import NotAnEquus

PACKAGES = ("equus", "equus_protocol", "groundwork", "helen_checks")  # what `equus` imports of this product


def agent_only(content: bytes) -> bytes:
    """Return the wheel without all other packages. Raises NotAnEquus if these bytes are no wheel of the product."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as product:
            kept = {entry: product.read(entry) for entry in product.infolist() if _belongs(entry.filename)}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise NotAnEquus(f"this is no wheel that can be read: {error}") from error
    names = [entry.filename for entry in kept]
    records = [name for name in names if name.endswith(".dist-info/RECORD")]
    missing = [package for package in PACKAGES if not any(name.startswith(f"{package}/") for name in names)]
    if len(records) != 1 or missing:
        raise NotAnEquus(f"this is no wheel of helen-equus: it lacks {', '.join(missing) or 'one RECORD'}")
    return _written({entry: data for entry, data in kept.items() if entry.filename != records[0]}, records[0])


def _belongs(name: str) -> bool:
    folder = name.partition("/")[0]
    return folder in PACKAGES or folder.endswith(".dist-info")


def _written(kept: dict[zipfile.ZipInfo, bytes], record: str) -> bytes:
    held, rows = io.BytesIO(), io.StringIO()
    listing = csv.writer(rows, lineterminator="\n")
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for entry, data in kept.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            listing.writerow([entry.filename, f"sha256={digest}", len(data)])
            copied = zipfile.ZipInfo(entry.filename, entry.date_time)
            copied.external_attr, copied.compress_type = entry.external_attr, zipfile.ZIP_DEFLATED
            made.writestr(copied, data)
        listing.writerow([record, "", ""])
        made.writestr(zipfile.ZipInfo(record, next(iter(kept)).date_time), rows.getvalue())
    return held.getvalue()
