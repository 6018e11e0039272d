"""Test `[shell]`: without it no login is allowed, each half of it is refused, and other policies keep their digest."""

from __future__ import annotations

import pytest

from equus.policy.policy import Policy, PolicyError
from equus.policy.shell import ShellPolicy

GOOD = '[shell]\nallow = true\nusers = ["ops"]\nauthorized_keys = "/etc/equus/keys"\n'


def shell(text: str) -> ShellPolicy | None:
    return Policy.parse(text.encode(), "/etc/equus/policy.toml").shell


@pytest.mark.parametrize("text", [
    "", "[shell]\n", '[shell]\nusers = ["root"]\nauthorized_keys = "/k"\n', GOOD.replace("true", "false"),
])  # fmt: skip
def test_nobody_is_let_in_unless_it_is_said(text: str) -> None:
    """Only `allow = true` lets a login in, and without it [shell] counts for nothing."""
    assert shell(text) is None


def test_all_settings() -> None:
    """A setting that is left out has the default of docs/shell.rst."""
    assert shell(GOOD) == ShellPolicy(
        ("ops",), "/etc/equus/keys", None, False, (), 2, 900.0, 28_800.0, False, 2_592_000.0, 1024
    )
    more = 'trusted_user_ca = "/etc/equus/ca.pub"\nforward = true\ncommand = ["/usr/bin/uptime", "-p"]\nsessions = 8\n'
    more += 'idle = "1m"\nmax = "7d"\nrecord = true\nkeep = "1d"\nrecord_mib = 16\nauditors = "/etc/equus/auditors"\n'
    assert shell(GOOD + more) == ShellPolicy(
        ("ops",),
        "/etc/equus/keys",
        "/etc/equus/ca.pub",
        True,
        ("/usr/bin/uptime", "-p"),
        8,
        60.0,
        604_800.0,
        True,
        86_400.0,
        16,
        "/etc/equus/auditors",
    )


@pytest.mark.parametrize(("text", "words"), [
    ("[shell]\nallow = true\n", "shell.allow needs users beside it"),
    ('[shell]\nallow = true\nusers = []\nauthorized_keys = "/k"\n', "shell.allow needs users"),
    ('[shell]\nallow = true\nusers = ["ops"]\n', "shell.allow needs authorized_keys or trusted_user_ca"),
    (GOOD + "sessions = 9\n", "shell.sessions"),
    (GOOD + "sessions = 0\n", "shell.sessions"),
    (GOOD + 'max = "8d"\n', "shell.max"),
    (GOOD + 'idle = "1s"\n', "shell.idle"),
    (GOOD + 'command = ["uptime"]\n', "shell.command must begin with the absolute path"),
    (GOOD.replace("/etc/equus/keys", "keys"), "shell.authorized_keys"),
    (GOOD + "allow_root = true\n", "shell.allow_root is not a setting; allowed here: allow, users, authorized_keys"),
    (GOOD + 'forward = "yes"\n', "shell.forward"),
    (GOOD + "record_mib = 15\n", "shell.record_mib"),
    (GOOD + 'keep = "1s"\n', "shell.keep"),
    (GOOD.replace("ops", "recordings"), "shell.users can't name recordings"),
])  # fmt: skip
def test_faults(text: str, words: str) -> None:
    """Each fault names the key, because half a grant must not look like a whole one."""
    with pytest.raises(PolicyError) as error:
        shell(text)
    assert words in str(error.value)


def test_hosts_that_let_nobody_in_keep_their_digest() -> None:
    """A policy without [shell] keeps the digest that it had before [shell] existed, and each other [shell]
    changes it.
    """
    none = Policy.parse(b"", None)
    assert none.digest == Policy.parse(b"[shell]\nallow = false\n", None).digest
    assert none.digest != Policy.parse(GOOD.encode(), None).digest
    assert Policy.parse(GOOD.encode(), None).digest != Policy.parse(f"{GOOD}forward = true\n".encode(), None).digest
