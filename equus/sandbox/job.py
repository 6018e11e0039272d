"""Define the Job that the agent gives to the sandbox: one check to run, or one file to read."""

from __future__ import annotations

from attrs import field, frozen

# A blob of the Equus protocol is at most this long, so neither a .lua file nor a check's arguments can be longer.
BLOB_LIMIT = 1_048_576
# All libraries of one job together. A worker has 64 MiB; compiled Lua takes about ten times its text.
LIBRARIES_LIMIT = 2 * 1_048_576
# Seconds. A shorter timeout would pass before the worker has read its job.
SHORTEST_TIMEOUT = 0.05


@frozen
class Job:
    """Describes one run of one check.

    timeout: seconds, or None for the check's own (10 s when it names none); never more than the policy's `timeout_max`.
    code: the SHA-256 of `source`, in hexadecimal; the result names it.
    state_key: names the `host.state` of this run; runs of one schedule entry share it.
    keeps_state: if false, the `host.state` of this run begins empty and ends with the run.
    secrets: values in `args` that must not be shown: the broker keeps them out of its audit, its log, and argv.
    bound: the destinations of each of these secrets that has some; the run connects to nothing else.
    pushed: true if the code came over the network. Such code needs strong isolation (docs/sandbox.rst).
    """

    check: str
    source: bytes = field(repr=False)
    libraries: dict[str, bytes] = field(factory=dict, repr=False)
    args: bytes = field(default=b"", repr=False)
    timeout: float | None = None
    code: str = ""
    state_key: str = ""
    keeps_state: bool = True
    pushed: bool = True
    secrets: tuple[str, ...] = field(default=(), repr=False)
    bound: tuple[tuple[str, ...], ...] = ()


def timeout_in_force(asked: float, most: float) -> float:
    """Return the seconds that a run has: as many as were asked for, at most `most`, and SHORTEST_TIMEOUT at least."""
    return max(SHORTEST_TIMEOUT, min(asked, most))


def too_late(timeout: float) -> str:
    """Return the summary of a run that gave no result within its time, in seconds."""
    return f"no result within {timeout:g} s"
