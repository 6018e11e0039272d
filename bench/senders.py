"""Agents of version 2 in asyncio, for benchmarks that steer each of them; bench/floor.c has those that cost little."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from meter import DOCUMENT as BLOB

from helen.cli.local.processes import Local


class Identities:
    """Contexts with a client certificate each."""

    def __init__(self, local: Local, folder: Path) -> None:
        self._local, self._folder = local, folder

    def context(self, name: str) -> ssl.SSLContext:
        certificate, key, ca = (self._folder / f"{name}.{end}" for end in ("pem", "key", "ca"))
        if not key.exists():
            secret = ec.generate_private_key(ec.SECP256R1())
            csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(secret, hashes.SHA256())
            body = {"name": name, "csr": csr.public_bytes(Encoding.PEM).decode()}
            issued = self._local.client.post("/api/v1/certificates", body)
            key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            certificate.write_text(issued["certificate"])
            ca.write_text(issued["ca"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
        return context


class Sender:
    """Speaks as one agent of version 2: it reports as fast as acks come back."""

    def __init__(self, name: str, window: int) -> None:
        self.name, self.window = name, window
        self.acked = 0

    async def connect(self, port: int, context: ssl.SSLContext, hello: bool) -> None:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost" if hello else None
        )
        self._sequences = itertools.count(1)
        if hello:
            self.writer.write(b"hello 2 bench\n")
            await self.read_message()

    async def read_message(self) -> list[bytes]:
        words = (await self.reader.readline()).split()
        if words and words[0] in (b"schedule", b"manifest", b"file"):
            await self.reader.readexactly(int(words[-1]) + 1)
        if words and words[0] == b"ping":
            self.writer.write(b"pong " + words[1] + b"\n")
        return words

    def say(self, count: int) -> None:
        """Make one write, as an agent joins what is ready in a turn."""
        frames = [b"report s %d disk %d\n%b\n" % (next(self._sequences), len(BLOB), BLOB) for _ in range(count)]
        self.writer.write(b"".join(frames))

    async def report(self, count: int) -> None:
        sent = 0
        while self.acked < count:
            more = min(self.window - (sent - self.acked), count - sent)
            if more > 0:
                self.say(more)
                sent += more
                await self.writer.drain()
            words = await self.read_message()
            if not words:
                raise SystemExit(f"{self.name}: Helen hung up")
            if words[0] == b"ack":
                self.acked = int(words[2])


async def listen(agent: Sender) -> None:
    """Answer pings until Helen hangs up."""
    while await agent.read_message():
        pass
