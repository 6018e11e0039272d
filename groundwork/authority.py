"""Decides what a caller may do: one function for every entry, whatever transport a caller came by.

    MAY_PUSH = Action("push", "push", FLEET)
    decide(caller, MAY_PUSH, Target(agent="web-1", labels={"team": "db"}))      None, or the Refusal

An action has one name, in whichever entry it can be asked for, and the scope that it takes. A caller has scopes: those
of its token, of its key's roles, or of the file that only it can open. It may be limited to some agents. Each package
lists its own actions; the entries of all of them are compared with these lists by tests/test_actions.py. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from groundwork.globs import fits_glob

# What a caller may be given. `read`: look. `operate`: acknowledge, silence, ask agents. `push`: publish checks.
# `metrics`: /metrics alone, for Prometheus. `admin`: everything of an operator, other tokens and certificates included.
INCLUDES: dict[str, frozenset[str]] = {
    "metrics": frozenset(("metrics",)),
    "read": frozenset(("read", "metrics")),
    "operate": frozenset(("operate", "read", "metrics")),
    "push": frozenset(("push", "read", "metrics")),
    "admin": frozenset(("admin", "push", "operate", "read", "metrics")),
}
SCOPES = tuple(INCLUDES)
# What only programs have, by their keys. `helen`: answer for agents, and change what Helens share. `zerotask`: be the
# task broker of the network.
OF_PROGRAMS: dict[str, frozenset[str]] = {
    "helen": frozenset(("helen", "zerotask", "read", "metrics")),
    "zerotask": frozenset(("zerotask",)),
}
ROLES: dict[str, frozenset[str]] = INCLUDES | OF_PROGRAMS
ALL = (*SCOPES, *OF_PROGRAMS)

NOTHING, AGENTS, FLEET = "nothing", "agents", "fleet"  # what an action touches


def including(scopes: Iterable[str]) -> frozenset[str]:
    """Return all scopes that these amount to, each with those that it includes."""
    return frozenset().union(*(ROLES[scope] for scope in scopes))


@frozen
class Action:
    """Names something that can be asked for. `scope` None: every caller that an entry lets in may do it.

    `touches`: AGENTS, each of which is a target of its own; FLEET, which a caller that is limited to some agents may
    not touch; or NOTHING of either.
    """

    name: str
    scope: str | None
    touches: str = NOTHING


@frozen
class Target:
    """Names the agent that an action touches, with its labels; without one, all of them or none."""

    agent: str = ""
    labels: Mapping[str, str] = field(factory=dict)


@frozen
class Caller:
    """Describes a caller that an entry has let in. `actor` is its name in the audit.

    `entry` is where it came in, `key` the name of its CURVE key. `on` limits it to agents that fit one of these
    patterns (`web-*`, `team=db`); None: to none in particular.
    """

    actor: str
    scopes: frozenset[str] = field(converter=including)
    token: str | None = None  # the name of the token that was shown, if it has one
    entry: str = ""
    key: str = ""
    on: tuple[str, ...] | None = None

    @property
    def share(self) -> str:
        """Return the name under which what the caller may have of something is counted: of its token, or its own.

        All sessions of a token have one share with it, so that no token takes the room of others.
        """
        return self.actor if self.token is None else f"token:{self.token}"

    def may(self, scope: str | None) -> bool:
        """Return True if the caller has this scope; None is the scope of what is open to all."""
        return scope is None or scope in self.scopes

    def touches(self, target: Target) -> bool:
        """Return True if the caller's limit leaves it this agent."""
        return self.on is None or any(fits(pattern, target) for pattern in self.on)


@frozen
class Refusal:
    """Says why an action is refused: `scope` is the one that the caller lacks, empty where its limit is in the way."""

    why: str
    scope: str = ""


def fits(pattern: str, target: Target) -> bool:
    """Return True if an agent fits a pattern of its name, or `KEY=PATTERN` of one of its labels."""
    key, is_label, value = pattern.partition("=")
    if not is_label:
        return bool(target.agent) and fits_glob(target.agent, pattern)
    return key in target.labels and fits_glob(target.labels[key], value)


def decide(caller: Caller, action: Action, target: Target = Target()) -> Refusal | None:  # it is frozen
    """Return None if the caller may do this, else the Refusal.

    A target without an agent passes for AGENTS: the entry asks again for each agent that it finds.
    """
    if not caller.may(action.scope):
        assert action.scope is not None
        return Refusal(f"{caller.actor} may not {action.name}: that takes `{action.scope}`", action.scope)
    if caller.on is not None and action.touches == FLEET:
        return Refusal(f"{caller.actor} is limited to {', '.join(caller.on)}, and {action.name} touches every agent")
    if action.touches == AGENTS and target.agent and not caller.touches(target):
        return Refusal(f"{caller.actor} is limited to {', '.join(caller.on or ())}: {target.agent} is not among them")
    return None
