"""Makes packets of NRPE by hand: good ones, and with any fault in them."""

from __future__ import annotations

import struct
import zlib


def packet(version: int, text: bytes, length: int | None = None, kind: int = 1, crc: int | None = None) -> bytes:
    if version == 2:
        data = struct.pack("!hhIh", version, kind, 0, 0) + text.ljust(1_024, b"\0") + b"RV"
    else:
        length = len(text) + 1 if length is None else length
        data = struct.pack("!hhIhhi", version, kind, 0, 0, 0, length) + text.ljust(length, b"\0")
        data += bytes(3 if version == 3 else 0)
    crc = zlib.crc32(data) if crc is None else crc
    return data[:4] + struct.pack("!I", crc) + data[8:]
