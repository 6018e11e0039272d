"""Names what an agent runs for a target: on the wire, in its spool, and in the history. Pure.

A target is a thing without an agent. The agent that looks at it reports under an id of its own, and the history has the
result under the target's name, with the agent's name in front of its spool: a space stands in no spool of an agent.
"""

from __future__ import annotations

PREFIX = "equus:target/"  # of ids on the wire; ids that begin with `equus:` are no checks of the agent itself
MOST_ID = 178  # bytes of a check's id: with the prefix and the longest name it fits into 255 on the wire


def wire_id(target: str, check_id: str) -> str:
    """Return the id under which an agent runs and reports a check of a target."""
    return f"{PREFIX}{target}/{check_id}"


def parsed(wire: str) -> tuple[str, str] | None:
    """Return the target and the check of an id on the wire; None if it is none of a target."""
    if not wire.startswith(PREFIX):
        return None
    target, slash, check_id = wire.removeprefix(PREFIX).partition("/")
    return (target, check_id) if target and slash and check_id else None


def kept_spool(agent: str, spool: str) -> str:
    """Return the spool of a target's result as the history has it."""
    return f"{agent} {spool}"


def source_of(name: str, spool: str) -> tuple[str, str]:
    """Return the agent that ran what the history has under `name`, and its spool: those of a target's result differ."""
    agent, space, own = spool.partition(" ")
    return (agent, own) if space else (name, spool)
