"""Counts messages that wait for the wire: those kept while a pipe is full, and large ones inside libzmq. Pure."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

HELD_MESSAGES = 10_000  # per socket; as much again as the pipe of one peer holds
HELD_BYTES = 64 << 20  # per socket; eight of the largest messages
LARGE = 64 << 10  # bytes of a frame from which on libzmq counts messages too generously: 10,000 of them are 80 GB
UNREAD_BYTES = 64 << 20  # in large frames that one peer has not taken; smaller ones are at most 640 MB
LARGE_PEERS = 1_000  # peers with large frames under way; beyond that those that received theirs are forgotten


class Sent(enum.Enum):
    """Tells the outcome of sending a message."""

    OK = "ok"
    FULL = "full"  # the peer does not read; nothing of the message was sent
    GONE = "gone"  # no peer has this routing id


class HeldMessages:
    """Keeps messages that met a full pipe, in order for each key, until there is room again."""

    def __init__(self) -> None:
        self._queues: dict[bytes, deque[Sequence[bytes]]] = {}
        self.count = 0
        self.bytes = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._queues

    def add(self, key: bytes, frames: Sequence[bytes]) -> bool:
        """Keep one message; return False if that would exceed HELD_MESSAGES or HELD_BYTES."""
        size = sum(map(len, frames))
        if self.count >= HELD_MESSAGES or self.bytes + size > HELD_BYTES:
            return False
        self._queues.setdefault(key, deque()).append(frames)
        self.count += 1
        self.bytes += size
        return True

    def flush(self, send: Callable[[Sequence[bytes]], Sent]) -> bool:
        """Send what is kept, each key as far as its pipe takes it; return True if anything left.

        Messages to a peer that has gone are dropped.
        """
        before = self.count
        for key, queue in list(self._queues.items()):
            while queue:
                outcome = send(queue[0])
                if outcome is Sent.FULL:
                    break
                for frames in [queue.popleft()] if outcome is Sent.OK else list(queue):
                    self.count -= 1
                    self.bytes -= sum(map(len, frames))
                if outcome is Sent.GONE:
                    queue.clear()
            if not queue:
                del self._queues[key]
        return self.count < before

    def clear(self) -> None:
        """Drop everything, as the socket is closed."""
        self._queues.clear()
        self.count = self.bytes = 0


class LargeFrames:
    """Tracks the large frames that libzmq holds for each peer, by the trackers that it gives for them."""

    def __init__(self) -> None:
        self._by_peer: dict[bytes, deque[tuple[Any, int]]] = {}

    def waiting(self, key: bytes) -> int:
        """Return the bytes under way to this peer; libzmq lets go of frames in the order in which they were sent."""
        frames = self._by_peer.get(key)
        if frames is None:
            return 0
        while frames and frames[0][0].done:
            frames.popleft()
        return sum(size for _, size in frames)

    def add(self, key: bytes, tracker: Any, size: int) -> None:
        """Note a frame that was given to libzmq."""
        self._by_peer.setdefault(key, deque()).append((tracker, size))

    def forget_delivered(self) -> None:
        """Drop the peers that received all their frames, once there are many peers."""
        if len(self._by_peer) > LARGE_PEERS:
            self._by_peer = {key: frames for key, frames in self._by_peer.items() if self.waiting(key)}

    def clear(self) -> None:
        """Drop everything, as the socket is closed."""
        self._by_peer.clear()
