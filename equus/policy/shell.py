"""Hold the part of a policy that lets people in: `[shell]`. Nothing is let in without it."""

from __future__ import annotations

from attrs import frozen

AUDITOR = "recordings"  # the user as whom recordings are read: no account


@frozen
class ShellPolicy:
    """Says who may log in through the agent's connection, and what a session may do. Times are in seconds."""

    users: tuple[str, ...]
    authorized_keys: str | None = None  # a file, `%u` in it stands for the user
    trusted_user_ca: str | None = None  # a file with public keys of CAs
    forward: bool = False  # TCP connections from this host, as `ssh -L` asks for them
    command: tuple[str, ...] = ()  # runs instead of whatever is asked for
    sessions: int = 2  # connections at once
    idle: float = 900.0  # without a byte in either direction
    most: float = 28_800.0  # of one connection
    record: bool = False  # each session, on this host
    keep: float = 30 * 86_400.0  # of recordings
    record_mib: int = 1024  # of all recordings together; one connection may take a sixteenth
    auditors: str | None = None  # a file of keys that may read recordings, over SSH
