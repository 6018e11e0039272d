"""Looks up the calls of OpenSSL that a record costs, without the checks and copies that pyOpenSSL makes around each.

A record that comes and one that leaves cost 10.5 us by pyOpenSSL's methods and 5.2 us by these. Handshakes,
certificates and the end of TLS use pyOpenSSL's public methods. The names here are private to pyOpenSSL and may go with
a version: `MISSING` says which are not there, and then TLS is Twisted's own (helen/sessions/listener.py).
"""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL, _util

_CALLS = ("SSL_read", "SSL_write", "SSL_get_error", "BIO_read", "BIO_write", "ERR_clear_error")
_CODES = ("SSL_ERROR_WANT_READ", "SSL_ERROR_WANT_WRITE", "SSL_ERROR_ZERO_RETURN", "SSL_ERROR_SSL")
_PARTS = ("_ssl", "_into_ssl", "_from_ssl")  # of a connection, set when it is made
CHUNK = 65_536  # bytes read from the kernel at once: what Twisted's own transports read
RECORD = 16_384  # bytes of plaintext that one record holds at most
SEALED = 2 * RECORD  # bytes of one record as it leaves, with room for an answer to the peer's TLS


def missing(lib: Any, ffi: Any, connection: Any) -> tuple[str, ...]:
    """Return the names that these are lacking; none: the calls of this module work."""
    absent = [name for name in (*_CALLS, *_CODES) if not hasattr(lib, name)]
    absent += [name for name in ("from_buffer", "buffer", "new") if not hasattr(ffi, name)]
    return (*absent, *(name for name in _PARTS if not hasattr(connection, name)))


_lib: Any = getattr(_util, "lib", None)
_ffi: Any = getattr(_util, "ffi", None)
MISSING = missing(_lib, _ffi, SSL.Connection(SSL.Context(SSL.TLS_SERVER_METHOD), None))

if not MISSING:
    ssl_read, ssl_write, ssl_get_error = _lib.SSL_read, _lib.SSL_write, _lib.SSL_get_error
    bio_read, bio_write, clear_errors = _lib.BIO_read, _lib.BIO_write, _lib.ERR_clear_error
    WAITING = (_lib.SSL_ERROR_WANT_READ, _lib.SSL_ERROR_WANT_WRITE)
    ENDED, FAULT = _lib.SSL_ERROR_ZERO_RETURN, _lib.SSL_ERROR_SSL
    # Shared by all connections: each is empty again before a call of the reactor's thread ends. A buffer each would be
    # 110 KiB for an agent that sends 500 bytes in a minute.
    received = bytearray(CHUNK)
    received_at = _ffi.from_buffer(received)
    plain_at = _ffi.new("char[]", CHUNK)
    plain = memoryview(_ffi.buffer(plain_at))
    sealed_at = _ffi.new("char[]", SEALED)
    sealed = memoryview(_ffi.buffer(sealed_at))
