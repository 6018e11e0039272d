"""Test the users of workers and plugins, for an agent that runs as root and for one that does not."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from equus.capabilities.calls import CallFailed, Context
from equus.capabilities.programs.plugin import plugin
from equus.policy.policy import Policy
from equus.processes import accounts
from equus.processes.accounts import plugin_user, run_as_root, worker_user
from equus.sandbox.blocking import Sandbox


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this a host with these accounts beside root and nobody, whose agent has the user `me`."""

    def is_one(me: int = 0, **users: int) -> None:
        every = {"root": 0, "nobody": 65_534, **{name.replace("_", "-"): number for name, number in users.items()}}
        by_name = {
            name: pwd.struct_passwd((name, "x", uid, uid + 1, "", "/", "/bin/sh")) for name, uid in every.items()
        }
        by_number = {entry.pw_uid: entry for entry in by_name.values()}
        monkeypatch.setattr(pwd, "getpwnam", by_name.__getitem__)
        monkeypatch.setattr(pwd, "getpwuid", by_number.__getitem__)
        monkeypatch.setattr(os, "geteuid", lambda: me)

    return is_one


def test_workers_have_a_user_of_their_own(host: Callable[..., None]) -> None:
    """Workers run as their account, or as a number that no account has; never as nobody, never as root (F74)."""
    host()
    assert worker_user() == (65_530, 65_530)
    host(other=65_530, another=65_529)
    assert worker_user() == (65_528, 65_528)
    host(equus_worker=990)
    assert worker_user() == (990, 991)
    host(equus_worker=0)
    assert worker_user() == (65_530, 65_530)


def test_plugins_have_a_user_of_their_own(host: Callable[..., None]) -> None:
    """A plugin runs as the user that the policy names, or as that of the account, or else as the agent's (F74)."""
    host()
    assert [plugin_user(name) for name in ("nobody", None, "root")] == [65_534, None, None]
    host(equus_plugins=991)
    assert [plugin_user(name) for name in ("nobody", None, "root")] == [65_534, 991, None]
    host(me=1000, equus_plugins=991, me_too=1000)
    assert [plugin_user(name) for name in ("nobody", None, "me-too")] == [65_534, None, None]
    with pytest.raises(KeyError):
        plugin_user("stranger")


def test_no_plugin_has_the_user_of_the_workers(host: Callable[..., None]) -> None:
    """A plugin never runs as the user of the workers, because it could signal and inspect them (F74)."""
    host(equus_worker=990, same=990)
    policy = Policy.parse(b'[plugins.p]\ncommand = ["/bin/true"]\nuser = "same"\n', None)
    with pytest.raises(CallFailed, match=r"plugin p is never run like this: user .* is that of the workers") as caught:
        plugin(["p"], policy, Context("c", 1e12))
    assert caught.value.code == "denied"
    host(me=1000, equus_worker=990)
    assert plugin_user("equus-worker") == 990  # the kernel refuses it then: only root changes users


def test_a_plugin_as_root_is_told(host: Callable[..., None]) -> None:
    """A plugin as root is reported, unless each plugin has a user or the account exists (F74)."""
    host()
    assert [run_as_root(users) for users in ([], ["nobody"], ["nobody", None])] == [False, False, True]
    host(equus_plugins=991)
    assert run_as_root([None]) is False
    host(me=1000)
    assert run_as_root([None]) is False


def test_spare_numbers_are_in_no_range_that_is_given_out() -> None:
    """Spare numbers of users lie between systemd's DynamicUser, which ends at 65519, and nobody, 65534 (F74)."""
    assert (max(accounts.SPARE), min(accounts.SPARE), len(accounts.SPARE)) == (65_530, 65_520, 11)


def test_the_zygote_has_it(sandbox: Sandbox) -> None:
    """The kernel shows the workers' user for the zygote of an agent that runs as root, and the agent's own otherwise
    (F74).
    """
    zygote = sandbox.processes.zygote.pid
    [line] = [line for line in Path(f"/proc/{zygote}/status").read_text().splitlines() if line.startswith("Uid:")]
    expected = worker_user()[0] if os.geteuid() == 0 else os.geteuid()
    assert set(line.split()[1:]) == {str(expected)}
    assert expected != pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Start a real sandbox, and yield it once it is ready."""
    with Sandbox() as running:
        running.loop.until(lambda: running.runner.ready, 60)
        yield running
