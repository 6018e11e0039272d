"""Test digests, HMAC, derived keys and random bytes: published vectors, bytes that are no text, limits on both
sides.
"""

import hashlib
import time

import pytest
from cryptography.exceptions import UnsupportedAlgorithm

from equus.capabilities import crypto


def test_digests(call):
    """Digests are those of FIPS 180 and of RFC 1321 for "abc"."""
    assert call("crypto.digest", "md5", "abc") == "900150983cd24fb0d6963f7d28e17f72"
    assert call("crypto.digest", "sha1", "abc") == "a9993e364706816aba3e25717850c26c9cd0d89d"
    assert call("crypto.digest", "sha256", "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert call("crypto.digest", "sha512", "") == hashlib.sha512().hexdigest()


def test_bytes_that_are_no_text(call):
    """Bytes that are no text come from Lua as escaped bytes, and are hashed as themselves."""
    raw = bytes(range(256))
    assert call("crypto.digest", "sha256", raw.decode("utf-8", "surrogateescape")) == hashlib.sha256(raw).hexdigest()


def test_keyed_sum(call):
    """HMAC with SHA-256 gives the sum of case 1 in RFC 4231."""
    assert call("crypto.hmac", "sha256", "\x0b" * 20, "Hi There") == (
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    )


def test_derived_key(call):
    """Derived keys are those of RFC 7914, section 11, and of RFC 6070 with SHA-1."""
    assert call("crypto.pbkdf2", "sha256", "passwd", "salt", 1) == (
        "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"
    )
    assert call("crypto.pbkdf2", "sha1", "password", "salt", 1) == "0c60c80f961f0e71f3a9b524af6012062fe037a6"


def test_repeated_data(call):
    """Repeated data gives the sums of RFC 3414 A.3, also for a length that cuts a repetition or the data itself."""
    assert call("crypto.digest", "md5", "maplesyrup", 1_048_576) == "9faf3283884e92834ebc9847d8edd963"
    assert call("crypto.digest", "sha1", "maplesyrup", 1_048_576) == "9fb5cc0381497b3793528939ff788d5d79145211"
    for length, text in ((1, "a"), (2, "ab"), (3, "aba"), (4, "abab")):
        assert call("crypto.digest", "sha256", "ab", length) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("cipher", "key", "iv", "plain", "secret"),
    [  # NIST SP 800-38A, F.3.13 and F.3.17; the third is FIPS 81's example of CBC
        ("aes-cfb", "2b7e151628aed2a6abf7158809cf4f3c", "000102030405060708090a0b0c0d0e0f",
         "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
         "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b"),
        ("aes-cfb", "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
         "000102030405060708090a0b0c0d0e0f", "6bc1bee22e409f96e93d7e117393172a", "dc7e84bfda79164b7ecd8486985d3860"),
        ("des-cbc", "0123456789abcdef", "1234567890abcdef", "4e6f77206973207468652074696d6520666f7220616c6c20",
         "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6"),
    ],
)  # fmt: skip
def test_ciphers(call, cipher, key, iv, plain, secret):
    """Each cipher encrypts and decrypts published vectors."""

    def text(digits: str) -> str:
        return bytes.fromhex(digits).decode("utf-8", "surrogateescape")

    assert call("crypto.encrypt", cipher, text(key), text(iv), text(plain)) == secret
    assert call("crypto.decrypt", cipher, text(key), text(iv), text(secret)) == plain


def test_a_part_of_a_block(call):
    """CFB encrypts and decrypts texts of any length, also an empty one."""
    for length in (0, 1, 15, 17):
        secret = call("crypto.encrypt", "aes-cfb", "k" * 16, "i" * 16, "x" * length)
        back = call(
            "crypto.decrypt", "aes-cfb", "k" * 16, "i" * 16, bytes.fromhex(secret).decode("utf-8", "surrogateescape")
        )
        assert (len(secret), bytes.fromhex(back)) == (2 * length, b"x" * length)


def test_a_cipher_that_the_host_lacks(failure, monkeypatch):
    """A cipher that the host's OpenSSL lacks, such as DES in FIPS mode, is reported as unsupported."""

    def refuse(*_args: object) -> None:
        raise UnsupportedAlgorithm("no")

    monkeypatch.setattr(crypto.Cipher, "encryptor", refuse)
    code, text = failure("crypto.encrypt", "des-cbc", "k" * 8, "i" * 8, "")
    assert (code, text) == ("unsupported", "the OpenSSL of this host does not have the cipher des-cbc")


def test_random_bytes(call):
    """Random bytes are as many as asked for, and differ from call to call."""
    found = {call("crypto.random", 18) for _ in range(50)}
    assert len(found) == 50
    assert {len(one) for one in found} == {36}


def test_limits_on_the_good_side(call):
    """The largest data, the most rounds and the most random bytes are accepted."""
    call("crypto.digest", "md5", "x" * crypto.MOST_BYTES)
    call("crypto.digest", "md5", "x", crypto.MOST_REPEATED)
    assert len(call("crypto.encrypt", "aes-cfb", "k" * 32, "i" * 16, "x" * crypto.MOST_BYTES)) == 2 * crypto.MOST_BYTES
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
        ("crypto.digest", ("md5", "x", "y"), "length"),
        ("crypto.digest", ("md5", "x", 0), "length"),
        ("crypto.digest", ("md5", "x", crypto.MOST_REPEATED + 1), "length"),
        ("crypto.digest", ("md5", "", 5), "empty"),
        ("crypto.digest", ("md5", "x", 5, 6), "takes 3"),
        ("crypto.encrypt", ("rot13", "k" * 16, "i" * 16, "x"), "one of aes-cfb, des-cbc"),
        ("crypto.encrypt", ([1], "k" * 16, "i" * 16, "x"), "cipher"),
        ("crypto.encrypt", ("aes-cfb", "k" * 15, "i" * 16, "x"), "16 or 24 or 32 bytes for aes-cfb, not 15"),
        ("crypto.decrypt", ("aes-cfb", "k" * 16, "i" * 8, "x"), "iv must have 16"),
        ("crypto.decrypt", ("aes-cfb", "k" * 16, "i" * 16), "data"),
        ("crypto.decrypt", ("aes-cfb", "k" * 16, "i" * 16, "x" * (crypto.MOST_BYTES + 1)), "data"),
        ("crypto.encrypt", ("des-cbc", "k" * 16, "i" * 8, "x" * 8), "key must have 8"),
        ("crypto.decrypt", ("des-cbc", "k" * 8, "i" * 8, "x" * 9), "whole blocks of 8 bytes"),
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
    """A wrong argument is refused, and the text names it."""
    code, text = failure(name, *args)
    assert code == "bad-arguments"
    assert word in text
