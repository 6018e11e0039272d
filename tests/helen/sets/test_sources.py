"""Tests where sets come from: archives and repositories of this machine, and how a set stands against its source."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from check_sets import EVE, a_set, signed, unsigned, write_tar

from equus_protocol.manifest import key_id
from helen.sets import git as git_runs
from helen.sets import standing
from helen.sets.check_set import CheckSet
from helen.sets.pins import Pin
from helen.sets.refused import SetRefused
from helen.sets.set_folder import read_folder
from helen.sets.sources import read_source
from helen.sets.standing import standing_of


def git(folder: Path, *words: str) -> None:
    """Run git as somebody without settings of their own."""
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, stdin=subprocess.DEVNULL)


def commit(folder: Path, files: dict[str, bytes], tag: str) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    git(folder, "add", "--all")
    git(folder, "commit", "-m", tag)
    git(folder, "tag", tag)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with versions 1.0, 1.9 and 1.10, with tags of both forms, and one that is none."""
    folder = tmp_path / "acme shop"
    folder.mkdir()
    git(folder, "init")
    for version, tag in (("1.0", "v1.0"), ("1.10", "1.10"), ("1.9", "v1.9"), ("1.0", "rc-99")):
        commit(folder, signed(unsigned(version)), tag)
    return folder


def pinned(found: CheckSet, source: str) -> Pin:
    return Pin.of(found, source)


def test_a_repository(repository: Path) -> None:
    """A set is read at a tag or at what is checked out; the repository's hooks and settings do nothing."""
    marker = repository.parent / "ran"
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    git(repository, "config", "tar.tar.command", f"touch {marker}")
    git(repository, "config", "uploadpack.packObjectsHook", f"touch {marker}")
    source = read_source(f"git+file://{repository}@v1.9")
    assert source.files() == signed(unsigned("1.9"))
    assert read_source(f"git+file://{repository}").files() == signed(unsigned("1.0"))
    assert str(source) == f"git+file://{repository}@v1.9"
    assert [str(each) for each in source.tags_above("1.9")] == [f"git+file://{repository}@1.10"]
    assert not marker.exists()


def test_a_repository_that_steers_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own environment may name another repository: it is not used."""
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_WORK_TREE", "/nonexistent")
    assert read_source(f"git+file://{repository}@v1.0").files() == signed(unsigned("1.0"))


def test_settings_of_the_operator(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line endings, filters and attributes of the operator change nothing, and run nothing."""
    home, marker = tmp_path / "home", tmp_path / "ran"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "attributes").write_text("*.lua text eol=crlf filter=x\n")
    (home / ".gitconfig").write_text(
        f'[core]\nautocrlf = true\neol = crlf\n[filter "x"]\nsmudge = "touch {marker}; cat"\n[tar]\numask = 077\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (repository / ".gitattributes").write_text("*.md filter=x\nlib/* text\n")
    git(repository, "-c", "core.autocrlf=false", "add", ".gitattributes")
    git(repository, "-c", "core.autocrlf=false", "commit", "-m", "attributes")
    found = read_source(f"git+file://{repository}").files()
    assert found.pop(".gitattributes") == b"*.md filter=x\nlib/* text\n"
    assert found == signed(unsigned("1.0"))
    assert not marker.exists()


def test_repositories_that_the_operator_calls_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Safe folders are passed on and no other setting: git refuses a repository of another person that nobody has
    named.
    """
    (tmp_path / ".gitconfig").write_text(
        '[safe]\ndirectory = "/srv/a \\"b\\" \\\\c"\ndirectory = /srv/d\n[user]\nname = Ann\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    seen = git_runs.git(["config", "--global", "--list"], 1000).decode().splitlines()
    expected = ["core.attributesfile=/dev/null", 'safe.directory=/srv/a "b" \\c', "safe.directory=/srv/d"]
    assert [line for line in seen if line in expected] == expected
    assert not [line for line in seen if not line.startswith(("core.attributesfile=", "safe.directory="))]


def test_a_link_in_a_repository(repository: Path) -> None:
    (repository / "lib" / "evil.lua").symlink_to("/etc/shadow")
    git(repository, "add", "--all")
    git(repository, "commit", "-m", "evil")
    with pytest.raises(SetRefused, match=r"lib/evil\.lua is a symbolic link"):
        read_source(f"git+file://{repository}").files()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("git+file:///nonexistent/shop@v1", "git can't read it: "),
        ("git+https://git.example.org/shop@v1", "can't be fetched: give FILE.tar"),
        ("https://example.org/shop.tar", "can't be fetched"),
        ("git+file://shop@v1", "can't be fetched"),
        ("git+file:///srv/shop@--upload-pack=touch", "can't be fetched"),
        ("git+file:///srv/shop@", "can't be fetched"),
        ("git+ssh://host/shop", "can't be fetched"),
        ("/nonexistent/shop.tar", "can't be read: No such file or directory"),
        ("/", "can't be read: Is a directory"),
        ("/dev/zero", "is no archive of at most"),
    ],
)
def test_sources_that_are_none(text: str, sentence: str) -> None:
    with pytest.raises(SetRefused, match=sentence):
        read_source(text).files()


def test_a_tag_that_is_not_there(repository: Path) -> None:
    with pytest.raises(SetRefused, match=r"git can't read it: .*v7"):
        read_source(f"git+file://{repository}@v7").files()


def test_a_fifo_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "shop.tar")
    with pytest.raises(SetRefused, match=r"no tar archive|no archive"):
        read_source(str(tmp_path / "shop.tar")).files()


def test_git_that_writes_too_much(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel stops it at the bound."""
    monkeypatch.setattr(git_runs, "MOST_DISK", 512)
    with pytest.raises(SetRefused, match="git can't read it"):
        read_source(f"git+file://{repository}@v1.0").files()


def test_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(SetRefused, match=r"there is no git on this machine: make FILE\.tar"):
        read_source(f"git+file://{repository}").files()


# ---------------------------------------------------------------------------------------------- standing


def test_how_a_set_of_a_repository_stands(repository: Path) -> None:
    """1.10 is newer than 1.9, though it stands before it in the alphabet."""
    found = standing_of("acme-shop", pinned(a_set("1.9"), f"git+file://{repository}@v1.9"))
    command = f"`helen checks add git+file://{repository}@1.10`"
    assert (found.newest, found.is_current, found.words) == ("1.10", False, command)
    assert standing_of("acme-shop", pinned(a_set("1.10"), f"git+file://{repository}@1.10")).is_current


def test_a_branch_is_followed_itself(repository: Path) -> None:
    """A branch is another line of work than its tags: 1.10 is neither newer nor older than what stands there."""
    commit(repository, signed(unsigned("1.11")), "rc-100")
    for ref in ("main", "rc-100"):
        assert read_source(f"git+file://{repository}@{ref}").tags_above("0.1") == []
        found = standing_of("acme-shop", pinned(a_set("1.10"), f"git+file://{repository}@{ref}"))
        assert (found.newest, found.words) == ("1.11", f"`helen checks add git+file://{repository}@{ref}`")
        assert standing_of("acme-shop", pinned(a_set("1.11"), f"git+file://{repository}@{ref}")).is_current
    git(repository, "branch", "1.12", "v1.0")
    found = standing_of("acme-shop", pinned(a_set("1.9"), f"git+file://{repository}@1.12"))
    assert (found.is_current, found.words) == (False, "only 1.0 is there, older than yours")


def test_a_tag_that_is_no_version_of_the_set(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The year of a release, and a tag without a set, neither hide what is newer, nor stand for ever."""
    git(repository, "tag", "2024", "v1.9")
    git(repository, "rm", "-q", "set.toml")
    git(repository, "commit", "-m", "no set")
    git(repository, "tag", "2025")
    new = f"`helen checks add git+file://{repository}@1.10`"
    for ref in ("v1.9", "2024"):
        found = standing_of("acme-shop", pinned(a_set("1.9"), f"git+file://{repository}@{ref}"))
        assert (found.newest, found.is_current, found.words) == ("1.10", False, new)
    assert standing_of("acme-shop", pinned(a_set("1.10"), f"git+file://{repository}@1.10")).is_current
    monkeypatch.setattr(standing, "MOST_TAGS", 2)
    found = standing_of("acme-shop", pinned(a_set("1.9"), f"git+file://{repository}@v1.9"))
    assert (found.newest, found.is_current) == (None, False)
    assert "the 2 highest tags have sets of other versions: ask its author" in found.words


def test_how_a_set_of_an_archive_stands(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "shop.tar", signed(unsigned("1.1")))
    assert standing_of("acme-shop", pinned(a_set("1.1"), str(path))).words == "current"
    older = standing_of("acme-shop", pinned(a_set("1.2"), str(path)))
    assert (older.newest, older.is_current, older.words) == ("1.1", False, "only 1.1 is there, older than yours")
    assert standing_of("acme-shop", pinned(a_set("1.0"), str(path))).words == f"`helen checks add {path}`"


@pytest.mark.parametrize(
    ("there", "newest", "words"),
    [
        (signed(unsigned("1.0", warn=5)), "1.0", "its bytes were changed there: ask its author"),
        (signed(unsigned("2.0"), EVE), "2.0", f"signed by another key, {key_id(EVE.public_key())}: "),
        (signed(unsigned("2.0", name='"other"')), None, "holds another set now, other"),
        (signed(unsigned("2.0", api='{ least = "99.0" }')), None, "upgrade Helen"),
        ({**signed(), "shop_orders.lua": b""}, None, "the signature is not that of these files"),
        (None, None, "can't be read: No such file"),
    ],
)
def test_sources_that_turned_bad(
    tmp_path: Path, there: dict[str, bytes] | None, newest: str | None, words: str
) -> None:
    path = tmp_path / "shop.tar"
    if there is not None:
        write_tar(path, there)
    found = standing_of("acme-shop", pinned(a_set("1.0"), str(path)))
    assert (found.newest, found.is_current) == (newest, False)
    assert words in found.words


# ---------------------------------------------------------------------------------------------- an author's folder


def test_an_authors_folder(tmp_path: Path) -> None:
    """Hidden files and definitions for editors are no part of it."""
    for name, content in {**unsigned(), ".git/config": b"", ".luarc.json": b"", "lua-meta/host.lua": b""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert read_folder(tmp_path) == unsigned()
    (tmp_path / "tests" / "x.lua").symlink_to("/etc/shadow")
    with pytest.raises(SetRefused, match=r"tests/x\.lua is no regular file"):
        read_folder(tmp_path)
