"""Sets of checks as an author makes them, and archives as an attacker does."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from helen.sets.check_set import CheckSet, read_set, sign_set

ANN = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
EVE = Ed25519PrivateKey.from_private_bytes(b"e" * 32)

CHECK = """local shop = require "acme_shop"
local check = {{ summary = "Orders that wait", needs = {{ "tcp" }}, args = {{ host = {{ type = "string" }} }} }}
function check.run(args, host)
  local answer, code, text = host.tcp {{ host = args.host, port = 8099, ["until"] = "\\n" }}
  if not answer then return "critical", text end
  host.metric("orders", shop.number(answer.received), {{ unit = "orders", warn = "{warn}" }})
end
return check
"""
LIBRARY = """local words = require "words"
return { number = function(text) return words.number(text:match("%d+") or "") or 0 end }
"""
TESTS = """return {
  { name = "few", host = { tcp = { value = { received = "7 orders" } } },
    expect = { status = "ok", metrics = { orders = 7 } } },
  { name = "many", host = { tcp = { value = { received = "900 orders" } } }, expect = { status = "warning" } },
}
"""
POLICY = '[caps.tcp]\nnetworks = ["10.0.0.0/8"]\n'


def described(version: str = "1.0", **fields: str) -> bytes:
    """Return a set.toml without a signature. A field is given as it stands in TOML; "" leaves it out."""
    given = {
        "name": '"acme-shop"', "version": f'"{version}"', "summary": '"Checks of the shop"',
        "author": '"Ann <ann@example.org>"', "api": '{ least = "1.0", below = "2.0" }', "policy": f"'''\n{POLICY}'''",
    } | fields  # fmt: skip
    return "".join(f"{name} = {value}\n" for name, value in given.items() if value).encode()


def unsigned(version: str = "1.0", warn: int = 100, **fields: str) -> dict[str, bytes]:
    """Return the files of a set with one check and a library."""
    return {
        "set.toml": described(version, **fields), "shop_orders.lua": CHECK.format(warn=warn).encode(),
        "lib/acme_shop.lua": LIBRARY.encode(), "tests/shop_orders.lua": TESTS.encode(), "README.md": b"# A shop\n",
    }  # fmt: skip


def signed(files: Mapping[str, bytes] | None = None, key: Ed25519PrivateKey = ANN) -> dict[str, bytes]:
    """Return the files with the signature of this key."""
    found = dict(unsigned() if files is None else files)
    return {**found, "set.toml": sign_set(found, key)}


def a_set(version: str = "1.0", key: Ed25519PrivateKey = ANN, warn: int = 100, **fields: str) -> CheckSet:
    return read_set(signed(unsigned(version, warn, **fields), key))


def entry(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", link: str = "") -> tarfile.TarInfo:
    """Return the header of one entry of an archive, whatever its name."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(content), link
    return info


def archive(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    """Return an archive of these entries, as Python's tarfile writes it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def packed(files: Mapping[str, bytes], top: str = "acme-shop/", form: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a plain archive of files below one folder."""
    return archive(*((entry(top + name, content=each), each) for name, each in files.items()), form=form)


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    path.write_bytes(packed(files))
    return path
