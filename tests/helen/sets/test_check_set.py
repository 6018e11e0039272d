"""Tests that a set is whole: its files are a set's, its author has signed all of it, and it is for this API."""

from __future__ import annotations

import pytest
from check_sets import ANN, EVE, a_set, described, signed, unsigned

from equus.capabilities.names import ALWAYS_THERE, CAPABILITY_OF
from equus.sandbox.check_table import FIELDS
from equus_protocol.check_api import API, api_text, read_api
from equus_protocol.manifest import key_id
from helen.sets.check_set import judge_api, read_set, sign_set, version_order
from helen.sets.refused import SetRefused


def test_a_set() -> None:
    found = a_set("1.2")
    assert (found.name, found.version, found.checks, found.least, found.below) == (
        "acme-shop", "1.2", ["shop_orders"], (1, 0), (2, 0))  # fmt: skip
    assert sorted(found.files) == ["lib/acme_shop.lua", "shop_orders.lua", "tests/shop_orders.lua"]
    assert found.key_id == key_id(ANN.public_key())
    assert found.digest == a_set("1.2").digest != a_set("1.3").digest


@pytest.mark.parametrize("name", ["shop_orders.lua", "lib/acme_shop.lua", "tests/shop_orders.lua", "README.md"])
def test_each_byte_is_signed(name: str) -> None:
    files = signed()
    files[name] += b" "
    with pytest.raises(SetRefused, match="the signature is not that of these files"):
        read_set(files)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"1.0"\nsummary', b'"1.1"\nsummary'),
        (b'below = "2.0"', b'below = "9.0"'),
        (b"10.0.0.0/8", b"0.0.0.0/00"),
        (b"ann@", b"eve@"),
        (b"Checks of", b"Checks on"),
    ],
)
def test_each_field_is_signed(old: bytes, new: bytes) -> None:
    files = signed()
    changed = files["set.toml"].replace(old, new)
    assert changed != files["set.toml"]
    with pytest.raises(SetRefused, match="the signature is not that of these files"):
        read_set({**files, "set.toml": changed})


def test_files_and_names_are_signed() -> None:
    """A signature is refused with one file more or less, or with two that change places."""
    files = signed()
    for other in (
        files | {"more.lua": b"return {}", "tests/more.lua": b"return {}"},
        {name: content for name, content in files.items() if name != "README.md"},
        files | {"lib/acme_shop.lua": files["README.md"], "README.md": files["lib/acme_shop.lua"]},
    ):
        with pytest.raises(SetRefused, match="the signature is not that of these files"):
            read_set(other)


def test_a_signature_of_another_key() -> None:
    """A signature of Eve's below Ann's key is none."""
    ann, eve = signed()["set.toml"].splitlines(), signed(key=EVE)["set.toml"].splitlines()
    mixed = b"\n".join([ann[0], eve[1], *ann[2:]])
    with pytest.raises(SetRefused, match="the signature is not that of these files"):
        read_set({**signed(), "set.toml": mixed})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": ""}, "name is 1 to 63 of a-z"),
        ({"name": '"../x"'}, "name is 1 to 63 of a-z"),
        ({"name": "7"}, "name is one line of text"),
        ({"version": "1.0-rc1"}, "version is up to four numbers"),
        ({"summary": '"a\\nb"'}, "summary is one line"),
        ({"api": ""}, "api = . least = .* is needed"),
        ({"api": '"1.0"'}, "api = . least = .* is needed"),
        ({"api": '{ least = "1" }'}, "'1' is no version of the API"),
        ({"api": '{ least = "1.0", most = "2.0" }'}, "api = . least = .* is needed"),
        ({"api": '{ least = "1.0", below = 2 }'}, "'2' is no version of the API"),
        ({"licence": '"MIT"'}, "has a field 'licence'"),
        ({"policy": '"isolation = \\"weak\\""'}, "policy may have caps, plugins, programs, not 'isolation'"),
        ({"policy": '"[shell]"'}, "not 'shell'"),
        ({"policy": '"[upgrade]\\nallow = true"'}, "not 'upgrade'"),
        ({"policy": '"[caps"'}, "policy holds no lines of a policy"),
    ],
)
def test_fields_that_are_wrong(fields: dict[str, str], sentence: str) -> None:
    """The author is told as well, before anything is signed."""
    files = {**unsigned(), "set.toml": described(**fields)}
    with pytest.raises(SetRefused, match=sentence):
        sign_set(files, ANN)
    if "api" not in fields:
        with pytest.raises(SetRefused, match=sentence):
            read_set(files)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"set.toml": None}, "there is no set.toml in it"),
        ({"set.toml": b"\xff"}, "set.toml can't be read"),
        ({"set.toml": b"a = " + b"[" * 30_000}, "set.toml can't be read"),
        ({"set.toml": b"#" * 70_000}, "set.toml has more than 65536 bytes"),
        ({"shop_orders.lua": None}, "there is no check in it"),
        ({"tests/shop_orders.lua": None}, "shop_orders.lua has no tests/shop_orders.lua"),
        ({"post-install.sh": b"#!/bin/sh"}, "post-install.sh is no file of a set"),
        ({".git/config": b""}, ".git/config is no file of a set"),
        ({"sets.json": b""}, "sets.json is no file of a set"),
        ({"assignments.toml": b""}, "assignments.toml is no file of a set"),
        ({"deep/er/x.lua": b""}, "deep/er/x.lua is no file of a set"),
        ({"tests/lib/x.lua": b""}, "tests/lib/x.lua is no file of a set"),
        ({"lib/.x.lua": b""}, "lib/.x.lua is no file of a set"),
        ({"a b.lua": b""}, "a b.lua is no file of a set"),
        ({"Shop_orders.lua": b"", "tests/Shop_orders.lua": b""}, "differ in upper and lower case alone"),
    ],
)
def test_files_that_are_no_sets(changed: dict[str, bytes | None], sentence: str) -> None:
    files = {name: content for name, content in (signed() | changed).items() if content is not None}
    with pytest.raises(SetRefused, match=sentence):
        read_set(files)


@pytest.mark.parametrize("line", ['key = "AAAA"', 'key = "' + "A" * 400 + '"', 'key = "#"', "key = 7", ""])
def test_keys_that_are_none(line: str) -> None:
    lines = [line.encode(), *signed()["set.toml"].splitlines()[1:]]
    with pytest.raises(SetRefused, match=r"key is base64 of 32 bytes|key is one line|has no signature"):
        read_set({**signed(), "set.toml": b"\n".join(lines)})


def test_signed_again() -> None:
    """A second signature takes the place of the first; a set that nobody has signed says what its author runs."""
    again = sign_set(signed(), EVE)
    assert read_set({**signed(), "set.toml": again}).key_id == key_id(EVE.public_key())
    assert again.count(b"signature = ") == 1
    with pytest.raises(SetRefused, match="`helen checks sign`"):
        read_set(unsigned())


@pytest.mark.parametrize(
    ("bounds", "ours", "sentence"),
    [
        ('{ least = "1.0" }', (1, 0), ""),
        ('{ least = "1.0" }', (7, 3), ""),
        ('{ least = "1.2", below = "2.0" }', (1, 10), ""),
        ('{ least = "1.2" }', (1, 1), r"needs the API of checks 1\.2, and this Helen has 1\.1: upgrade Helen"),
        (
            '{ least = "1.2", below = "2.0" }',
            (2, 0),
            r"API of checks below 2\.0, and this Helen has 2\.0: ask its author",
        ),
    ],
)
def test_bounds_of_the_api(bounds: str, ours: tuple[int, int], sentence: str) -> None:
    found = a_set(api=bounds)
    if not sentence:
        judge_api(found, ours)
        return
    with pytest.raises(SetRefused, match=sentence):
        judge_api(found, ours)


def test_versions() -> None:
    assert version_order("1.10") > version_order("1.9") > version_order("1")
    assert version_order("1.0") == version_order("1")
    assert read_api(api_text()) == API
    for text in ("1", "1.0.0", "v1.0", "1.-1", "\u0661.0 "):
        with pytest.raises(ValueError, match="no version of the API"):
            read_api(text)


def test_this_api_takes_nothing_away() -> None:
    """Sets were written for API 1.0: while the first number is 1, its calls and fields stay. Newer ones are free."""
    if API[0] == 1:
        assert set(OF_1_0) <= {*CAPABILITY_OF, *ALWAYS_THERE, *FIELDS}


OF_1_0 = (
    "info uptime users clock swap raid mail_queue certificate disk mounts file.stat file.list file.read file.tail"
    " file.checksum systemd systemd_failed systemd_running crypto.digest crypto.hmac crypto.pbkdf2 crypto.random"
    " crypto.encrypt crypto.decrypt cpu mem load disk_io net_io procs tcp udp unix icmp tls http dns plugin program"
    " journal kernel.pressure kernel.vmstat kernel.files kernel.conntrack kernel.sockets kernel.listeners"
    " kernel.sensors kernel.bonds kernel.reboot_required kernel.zfs kernel.btrfs metric log now state.get state.put"
    " summary needs every timeout args run attempts runbook owner notes"
).split()
