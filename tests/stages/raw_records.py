"""Writes records of TLS by hand, as a peer of ours may that keeps to no habit of a library.

`recorded` has the secrets of a connection written down while the standard library shakes hands; RawRecords goes on
from there with records of any kind in TLS 1.3, OldRecords in TLS 1.2.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

ALERT, HANDSHAKE, DATA = 21, 22, 23
OURS = {False: "CLIENT_TRAFFIC_SECRET_0", True: "SERVER_TRAFFIC_SECRET_0"}  # by whether we are the server


def recorded(context: ssl.SSLContext, log: Path) -> ssl.SSLContext:
    """Return the context, which writes its secrets into `log` from now on."""
    log.unlink(missing_ok=True)
    context.keylog_filename = str(log)
    return context


class RawRecords:
    """Is the writing end of one connection whose handshake is done; `cipher` is its name in the library."""

    def __init__(self, log: Path, cipher: str, is_server: bool = False) -> None:
        words = [line.split() for line in log.read_text().splitlines()]
        (self._secret,) = [bytes.fromhex(found[2]) for found in words if found[0] == OURS[is_server]]
        self._hash = hashlib.sha384 if "SHA384" in cipher else hashlib.sha256
        self._kind = ChaCha20Poly1305 if "CHACHA" in cipher else AESGCM
        self._size = 16 if "AES_128" in cipher else 32
        self._begin()

    def _expanded(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
        return hmac.digest(self._secret, info + b"\x01", self._hash)[:size]

    def _begin(self) -> None:
        self._key = self._kind(self._expanded(b"key", self._size))
        self._iv, self._number = int.from_bytes(self._expanded(b"iv", 12), "big"), 0

    def record(self, data: bytes, kind: int = DATA) -> bytes:
        """Return one record, of data if nothing else is said."""
        head = b"\x17\x03\x03" + (len(data) + 17).to_bytes(2, "big")
        sealed = self._key.encrypt((self._iv ^ self._number).to_bytes(12, "big"), data + bytes([kind]), head)
        self._number += 1
        return head + sealed

    def key_update(self, asks: bool = True) -> bytes:
        """Return a change of our keys, which asks the peer to change its own as well."""
        made = self.record(b"\x18\0\0\x01" + bytes([asks]), HANDSHAKE)
        self._secret = self._expanded(b"traffic upd", self._hash().digest_size)
        self._begin()
        return made


class OldRecords:
    """Is the client's writing end in TLS 1.2 with AES-GCM; `heard` is what the server has sent in the handshake."""

    def __init__(self, log: Path, cipher: str, heard: bytes) -> None:
        words = [line.split() for line in log.read_text().splitlines()]
        (found,) = [each for each in words if each[0] == "CLIENT_RANDOM"]
        client, master, server = bytes.fromhex(found[1]), bytes.fromhex(found[2]), heard[11:43]
        assert "GCM" in cipher and heard[0] == HANDSHAKE and heard[5] == 2  # its first message says server's random
        kind, size = (hashlib.sha384, 32) if "SHA384" in cipher else (hashlib.sha256, 16)
        seed = chain = b"key expansion" + server + client
        block = b""
        while len(block) < 2 * size + 8:
            chain = hmac.digest(master, chain, kind)
            block += hmac.digest(master, chain + seed, kind)
        self._key, self._salt = AESGCM(block[:size]), block[2 * size : 2 * size + 4]
        self._number = 1  # the end of the handshake was sealed, too

    def record(self, data: bytes, kind: int = DATA) -> bytes:
        """Return one record, of data if nothing else is said."""
        number = self._number.to_bytes(8, "big")
        head = bytes([kind, 3, 3])
        sealed = self._key.encrypt(self._salt + number, data, number + head + len(data).to_bytes(2, "big"))
        self._number += 1
        return head + (len(sealed) + 8).to_bytes(2, "big") + number + sealed
