"""Test all calls together: their names, capabilities and documentation, and that each fails with CallFailed alone."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equus.capabilities.calls import CODES, CallFailed
from equus.capabilities.names import ALWAYS_THERE, CAPABILITIES, CAPABILITY_OF
from equus.capabilities.registry import CALLS
from equus.policy import policy_text

DOCUMENTATION = (Path(__file__).parents[3] / "docs" / "checks.rst").read_text()
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def test_names_and_calls_are_the_same():
    """Names and capabilities of the linter's list are those of the broker's calls."""
    assert {name: call.capability for name, call in CALLS.items()} == CAPABILITY_OF


def test_capabilities_are_those_of_the_policy():
    """A policy can grant each capability that a check can need."""
    assert set(CAPABILITIES) == set(policy_text.CAPABILITIES)


@pytest.mark.parametrize("name", [*CAPABILITY_OF, *ALWAYS_THERE])
def test_every_call_is_documented(name):
    """Each call of the registry stands in the documentation with its arguments."""
    assert re.search(rf"``host\.{re.escape(name)}[({{]", DOCUMENTATION) or f"``host.{name}(" in DOCUMENTATION


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_documented(code):
    """Each code of a failed call stands in the documentation."""
    assert f"``{code}``" in DOCUMENTATION


@pytest.mark.parametrize("name", sorted(CALLS))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(args=st.lists(PLAIN, max_size=3))
def test_no_arguments_break_a_call(call, name, args):
    """Any arguments from Lua give an answer, or CallFailed with a known code and a text."""
    try:
        call(name, *args, seconds=0.2)
    except CallFailed as failed:
        assert failed.code in CODES
        assert failed.text


@pytest.mark.parametrize("name", ["tcp", "udp", "unix", "icmp", "tls", "http", "dns", "procs", "program", "journal"])
def test_calls_with_named_arguments_take_one_table(failure, name):
    """A call with named arguments refuses a list or a text in the place of the table, and a second argument."""
    for args in (("x",), ([1],), ({}, {})):
        assert failure(name, *args)[0] == "bad-arguments"
