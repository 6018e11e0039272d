"""Test that commands in sequence reach the agent without a delay, whatever the sender's socket does."""

from __future__ import annotations

import socket

from equus.link.connection import acknowledge_at_once, raw_socket


def test_a_socket_acknowledges_at_once_until_the_kernel_forgets_it() -> None:
    """The option is set on a real connection, can be set again, and a closed socket is no fault."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        with theirs:
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 0
            acknowledge_at_once(ours)
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
            ours.close()
            acknowledge_at_once(ours)


def test_a_transport_without_a_socket() -> None:
    """A transport without a socket, or one that has ended, needs no option."""
    assert raw_socket(object()) is None
    acknowledge_at_once(None)
