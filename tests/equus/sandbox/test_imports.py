"""Test that each process of the agent loads only the modules that it needs: others cost memory, time and trust."""

import subprocess
import sys

import pytest

# The readers of Lua source and the authors' commands run in `equus lint`, `equus test` and `equus run` alone.
AUTHORS = ("equus.lua", "equus.authoring")


# Each brings hundreds of KiB of which no worker uses anything, and each fork of the zygote would copy them.
LARGE = ("attr", "inspect", "ast", "dis", "decimal", "pathlib", "urllib.parse", "ipaddress", "platform", "subprocess",
         "logging", "unicodedata", "equus_protocol.results", "equus_protocol.result_fields")  # fmt: skip


def loaded_by(module: str, before: str = "pass") -> list[str]:
    """Return the names of all modules that a new interpreter holds after it has imported this one.

    before: what it runs first.
    """
    code = f"import sys; {before}; import {module}; print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def below(modules: list[str], *packages: str) -> list[str]:
    """Return the modules that are one of these packages or lie in one."""
    return [
        name for name in modules if name.startswith(tuple(f"{package}." for package in packages)) or name in packages
    ]


@pytest.mark.parametrize("module", ["equus.tap", "equus.agent"])
def test_the_running_agent_reads_no_lua(module):
    """The agent imports neither Lua nor capabilities, because other processes run checks and host calls."""
    assert below(loaded_by(module), *AUTHORS, "equus.capabilities", "h11", "lupa") == []


@pytest.mark.parametrize("module", ["equus.sandbox.zygote", "equus.sandbox.worker"])
def test_a_worker_carries_no_capability(module):
    """A worker imports neither capabilities nor h11, which the broker reads HTTP with."""
    assert below(loaded_by(module), *AUTHORS, "equus.capabilities", "h11", "twisted") == []


def test_the_zygote_is_small():
    """The zygote stays without large modules, which the same imports in another process load by way of attrs."""
    modules = loaded_by("equus.sandbox.zygote", "from equus.processes.forking import prepare; prepare()")
    assert below(modules, *LARGE) == []
    assert below(loaded_by("equus.sandbox.zygote"), "attr", "inspect")


def test_the_broker_reads_no_lua():
    """The broker imports no Lua, because it performs calls alone."""
    assert below(loaded_by("equus.capabilities.registry"), *AUTHORS, "lupa", "twisted") == []


def test_this_rule_can_fail():
    """The linter imports Lua, so that the tests above can fail."""
    assert below(loaded_by("equus.authoring.lint"), *AUTHORS)
