"""Sums, keyed sums, derived keys, random bytes: published vectors, bytes that are no text, limits on both sides."""

import hashlib
import time

import pytest

from equus.capabilities import crypto


def test_digests(call):
    """FIPS 180 and RFC 1321's "abc"."""
    assert call("crypto.digest", "md5", "abc") == "900150983cd24fb0d6963f7d28e17f72"
    assert call("crypto.digest", "sha1", "abc") == "a9993e364706816aba3e25717850c26c9cd0d89d"
    assert call("crypto.digest", "sha256", "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert call("crypto.digest", "sha512", "") == hashlib.sha512().hexdigest()


def test_bytes_that_are_no_text(call):
    """They come from Lua as escaped bytes, and count as themselves."""
    raw = bytes(range(256))
    assert call("crypto.digest", "sha256", raw.decode("utf-8", "surrogateescape")) == hashlib.sha256(raw).hexdigest()


def test_keyed_sum(call):
    """RFC 4231, case 1."""
    assert call("crypto.hmac", "sha256", "\x0b" * 20, "Hi There") == (
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    )


def test_derived_key(call):
    """RFC 7914, section 11, and RFC 6070's first with SHA-1."""
    assert call("crypto.pbkdf2", "sha256", "passwd", "salt", 1) == (
        "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"
    )
    assert call("crypto.pbkdf2", "sha1", "password", "salt", 1) == "0c60c80f961f0e71f3a9b524af6012062fe037a6"


def test_random_bytes(call):
    """As many as asked for, never the same."""
    found = {call("crypto.random", 18) for _ in range(50)}
    assert len(found) == 50
    assert {len(one) for one in found} == {36}


def test_limits_on_the_good_side(call):
    """The largest data, the most rounds within a second, the most random bytes."""
    call("crypto.digest", "md5", "x" * crypto.MOST_BYTES)
    began = time.thread_time()  # of CPU, which a busy machine does not lengthen
    call("crypto.pbkdf2", "sha256", "x", "y", crypto.MOST_ROUNDS)
    assert time.thread_time() - began < 5
    assert len(call("crypto.random", crypto.MOST_RANDOM)) == 2 * crypto.MOST_RANDOM


@pytest.mark.parametrize(
    ("name", "args", "word"),
    [
        ("crypto.digest", ("sha3", "x"), "algorithm"),
        ("crypto.digest", (None, "x"), "algorithm"),
        ("crypto.digest", ("md5",), "data"),
        ("crypto.digest", ("md5", 7), "data"),
        ("crypto.digest", ("md5", "x" * (crypto.MOST_BYTES + 1)), "data"),
        ("crypto.digest", ("md5", "\ud800"), "data"),
        ("crypto.digest", ("md5", "x", "y"), "takes 2"),
        ("crypto.hmac", ("sha256", None, "x"), "key"),
        ("crypto.pbkdf2", ("sha256", "x", "y"), "rounds"),
        ("crypto.pbkdf2", ("sha256", "x", "y", 0), "rounds"),
        ("crypto.pbkdf2", ("sha256", "x", "y", crypto.MOST_ROUNDS + 1), "rounds"),
        ("crypto.random", (0,), "count"),
        ("crypto.random", (crypto.MOST_RANDOM + 1,), "count"),
        ("crypto.random", (1.5,), "count"),
    ],
)
def test_arguments_are_checked(failure, name, args, word):
    """The refusal names the argument."""
    code, text = failure(name, *args)
    assert code == "bad-arguments"
    assert word in text
