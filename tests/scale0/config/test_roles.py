"""Tests roles in the files of authorized keys; files that name none are plain peers, as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.authority import ROLES
from scale0.config.keys import AuthorizedKeys, KeyEntry, KeyFault, Pair, stated_identity, text_of, write_pair
from scale0.wire.zap import Origin

KEY = "k" * 40


def folder(tmp_path: Path, metadata: str) -> AuthorizedKeys:
    head = f"metadata\n{metadata}" if metadata else ""
    (tmp_path / "h1.key").write_text(f'{head}curve\n    public-key = "{KEY}"\n')
    return AuthorizedKeys(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "entry"),
    [
        ("", KeyEntry("h1")),
        ('    identity = "x"\n', KeyEntry("x")),
        ('    role = "peer"\n', KeyEntry("h1")),
        ('    role = "helen"\n', KeyEntry("h1", ("helen",))),
        ('    role = operate\n    role = push\n', KeyEntry("h1", ("operate", "push"))),
        ('    role = "helen"\n    offers = "helen*"\n    offers = "equus.web-*"\n',
         KeyEntry("h1", ("helen",), ("helen*", "equus.web-*"))),
    ],
)  # fmt: skip
def test_a_file_says_what_its_key_may_do(tmp_path: Path, metadata: str, entry: KeyEntry) -> None:
    found = folder(tmp_path, metadata)
    assert (found.entry_of(KEY), found.faults) == (entry, [])
    assert found.entry_of("o" * 40) is None and found.names == {KEY: entry.identity}


@pytest.mark.parametrize("role", ["Helen", "root", "", "*", "helen,push"])
def test_a_role_that_there_is_not_is_a_fault(tmp_path: Path, role: str) -> None:
    """A key with an unknown role is not authorized, which is safer than a peer that may less than was meant; its file
    is named.
    """
    found = folder(tmp_path, f'    role = "{role}"\n    identity = "h1"\n')
    assert found.entry_of(KEY) is None and not found.is_authorized(KEY)
    assert "h1.key" in found.faults[0] and "the roles are peer, metrics" in found.faults[0]


@pytest.mark.parametrize("role", ROLES)
def test_what_keygen_writes_is_read(tmp_path: Path, role: str) -> None:
    pair = Pair(KEY, "s" * 40)
    public = write_pair(tmp_path / "h1.secret", pair, "h1", (role,))
    assert AuthorizedKeys(tmp_path).entry_of(KEY) == KeyEntry("h1", (role,))
    assert stated_identity(tmp_path / "h1.secret") == stated_identity(public) == "h1"
    assert "role" not in text_of(pair, "h1", with_secret=True)


def test_a_change_of_roles_counts_from_the_next_read(tmp_path: Path) -> None:
    found = folder(tmp_path, '    role = "helen"\n')
    folder(tmp_path, "")
    found.reload()
    assert found.entry_of(KEY) == KeyEntry("h1")


@pytest.mark.parametrize(
    ("address", "user"),
    [("localhost:1000:1000:77", 1000), ("localhost:0:0:1", 0), ("localhost", None), ("", None), ("127.0.0.1", None),
     ("localhost:x:0:1", None), ("localhost:0:0:1:2", None), ("nlocalhost:0:0:1", None)],
)  # fmt: skip
def test_only_the_kernel_tells_a_user(address: str, user: int | None) -> None:
    """Only a peer on a socket of the file system has a user, as the kernel tells none over TCP."""
    assert Origin(address, "").user == user


def test_a_key_is_found_by_the_identity_of_its_file(tmp_path: Path) -> None:
    """The keys of two files are not mixed up, and a name without a file is told which one is missing."""
    for name, key in (("a", "a" * 40), ("b", "b" * 40)):
        (tmp_path / f"{name}.key").write_text(f'curve\n    public-key = "{key}"\n')
    found = AuthorizedKeys(tmp_path)
    for call in (found.key_of, found.read_key_of):
        assert (call("a"), call("b")) == ("a" * 40, "b" * 40)
    assert (found.bound_to("a" * 40), found.bound_to("c" * 40)) == ("a", "")
    assert found.is_authorized("b" * 40) and not found.is_authorized("c" * 40)
    for call in (found.key_of, found.read_key_of):
        with pytest.raises(KeyFault, match=r"holds no key of c: c\.key has to be there"):
            call("c")
