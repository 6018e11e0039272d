"""Test connections that a run keeps from one call to the next: what they carry, how they end, and how many there may
be.
"""

import contextlib
import os
import socket
import ssl
import threading
import time

import pytest

from equus.capabilities.calls import MOST_KEPT, CallFailed, Context
from equus.capabilities.registry import CALLS
from equus.policy.policy import Policy

LOOPBACK = Policy.parse(b"", None)


class ARun:
    """Hold one run, whose calls share the connections that they keep."""

    def __init__(self) -> None:
        self.context = Context("test", time.monotonic() + 200)

    def __call__(self, name: str, policy: Policy = LOOPBACK, **fields: object) -> dict:
        return CALLS[name].perform([fields], policy, self.context)

    def fails(self, name: str, policy: Policy = LOOPBACK, **fields: object) -> tuple[str, str]:
        with pytest.raises(CallFailed) as caught:
            self(name, policy, **fields)
        return caught.value.code, caught.value.text


@pytest.fixture
def run():
    one = ARun()
    yield one
    one.context.kept.close()


def echo(connection: socket.socket) -> None:
    while data := connection.recv(100):
        connection.sendall(data.upper())


def test_what_is_sent_next_may_depend_on_what_came(run, serve):
    """Calls of a run use one connection, so that one may send what the other received; the last closes it."""
    ended = threading.Event()

    def talk(connection: socket.socket) -> None:
        echo(connection)
        ended.set()

    port = serve(talk)
    first = run("tcp", host="127.0.0.1", port=port, send="a", some=True, keep=True)
    assert (first["received"], first["closed"], first["address"]) == ("A", False, "127.0.0.1")
    number = first["connection"]
    second = run("tcp", connection=number, send="b" + first["received"], some=True, keep=True)
    assert (second["received"], second["connection"]) == ("BA", number)
    assert "connect_seconds" not in second
    third = run("tcp", connection=number, send="c", some=True)
    assert (third["received"], "connection" in third) == ("C", False)
    assert ended.wait(60)
    assert run.fails("tcp", connection=number, send="d")[0] == "bad-arguments"


def test_some_is_at_least_a_byte_and_at_most_the_limit(run, serve):
    """A call with `some` waits for the first byte, and leaves the bytes above its limit for the next call."""

    def talk(connection: socket.socket) -> None:
        time.sleep(0.05)
        connection.sendall(b"abcdef")
        connection.recv(1)

    first = run("tcp", host="127.0.0.1", port=serve(talk), some=True, limit=2, keep=True)
    assert first["received"] == "ab"
    assert run("tcp", connection=first["connection"], some=True, limit=100)["received"] == "cdef"


def test_nothing_is_read_where_nothing_is_wanted(run, serve):
    """With a limit of 0 a call reads nothing, and an answer that comes waits for the next call."""
    port, began = serve(echo), time.monotonic()
    first = run("tcp", host="127.0.0.1", port=port, send="a", limit=0, keep=True, timeout=60)
    assert (first["received"], first["closed"]) == ("", False)
    assert time.monotonic() - began < 55  # it would wait for the end of the time
    assert run("tcp", connection=first["connection"], some=True)["received"] == "A"


def test_a_peer_that_ends_it(run, serve):
    """A peer that ends the connection leaves none to keep."""
    answer = run("tcp", host="127.0.0.1", port=serve(lambda one: None), some=True, keep=True)
    assert (answer["received"], answer["closed"], "connection" in answer) == ("", True, False)


def test_each_call_has_a_time_limit_of_its_own(run, serve):
    """Each call has a time limit of its own; a call that gets nothing fails and ends the connection."""
    answer = run("tcp", host="127.0.0.1", port=serve(echo), keep=True, timeout=3)
    time.sleep(3.1)
    number = answer["connection"]
    assert run("tcp", connection=number, send="a", some=True, keep=True, timeout=60)["received"] == "A"
    assert run.fails("tcp", connection=number, some=True, keep=True, timeout=0.05)[0] == "timeout"
    assert run.fails("tcp", connection=number, send="a")[0] == "bad-arguments"


def test_the_end_of_the_run_closes_them(run, serve):
    """The end of a run closes the connections that it kept."""
    ended = threading.Event()

    def talk(connection: socket.socket) -> None:
        echo(connection)
        ended.set()

    run("tcp", host="127.0.0.1", port=serve(talk), keep=True)
    run.context.kept.close()
    assert ended.wait(60)


def test_no_more_than_a_few(run, serve):
    """A run keeps at most MOST_KEPT connections: the next is refused and closed, and a closed one makes room."""
    port, before = serve(echo), len(os.listdir("/proc/self/fd"))
    numbers = [run("tcp", host="127.0.0.1", port=port, keep=True)["connection"] for _ in range(MOST_KEPT)]
    assert len(set(numbers)) == MOST_KEPT
    code, text = run.fails("tcp", host="127.0.0.1", port=port, keep=True)
    assert (code, str(MOST_KEPT) in text) == ("budget", True)
    run("tcp", connection=numbers[0])
    assert run("tcp", host="127.0.0.1", port=port, keep=True)["connection"] not in numbers
    run.context.kept.close()
    until = time.monotonic() + 60
    while len(os.listdir("/proc/self/fd")) > before:  # the server's ends are closed by its threads
        assert time.monotonic() < until
        time.sleep(0.01)


def test_numbers_mean_nothing_to_another_run(run, serve):
    """A number of a connection means nothing to another run or to another kind of socket."""
    number = run("tcp", host="127.0.0.1", port=serve(echo), keep=True)["connection"]
    assert ARun().fails("tcp", connection=number, send="a")[0] == "bad-arguments"
    assert run.fails("unix", connection=number, send="a")[0] == "bad-arguments"
    for wrong in (7, "1", 1.5, [1]):
        assert run.fails("tcp", connection=wrong, send="a")[0] == "bad-arguments"


def test_a_policy_that_changes_meanwhile(run, serve):
    """The policy is asked again for each call, and a denied connection is closed."""
    number = run("tcp", host="127.0.0.1", port=serve(echo), keep=True)["connection"]
    nothing = Policy.parse(b'[caps.tcp]\nnetworks = [{ cidr = "192.0.2.0/24" }]\n', None)
    assert run.fails("tcp", nothing, connection=number, send="a")[0] == "denied"
    assert run.fails("tcp", connection=number, send="a")[0] == "bad-arguments"


def test_over_a_socket_of_this_host(run, tmp_path):
    """The call `unix` keeps connections as `tcp` does."""
    path = str(tmp_path / "s")
    policy = Policy.parse(f'[caps.unix]\npaths = ["{path}"]\n'.encode(), None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def accept() -> None:
            with listener.accept()[0] as connection:
                echo(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        number = run("unix", policy, path=path, keep=True)["connection"]
        assert run("unix", policy, connection=number, send="a", some=True, keep=True)["received"] == "A"
        assert run.fails("unix", connection=number, send="a")[0] == "denied"  # the default grants no socket
        thread.join(5)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"some": True, "until": "x"}, "some"),
        ({"some": True, "expect": "x"}, "some"),
        ({"some": True, "send": ["a", "b"]}, "some"),
        ({"some": 1}, "some"),
        ({"keep": "yes"}, "keep"),
        ({"verify": True}, "tls"),
        ({"ca": "PEM"}, "tls"),
        ({"connection": 1}, "host"),
    ],
)
def test_arguments_are_checked(run, fields, word):
    """A wrong argument is refused, and the text names it."""
    code, text = run.fails("tcp", host="127.0.0.1", port=1, **fields)
    assert code == "bad-arguments"
    assert word in text


def test_a_server_without_a_certificate(run, serve):
    """Only `anonymous` reaches a server without a certificate; with verification or without TLS it is refused."""
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.maximum_version = ssl.TLSVersion.TLSv1_2
    settings.set_ciphers("AECDH:@SECLEVEL=0")

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError, OSError), settings.wrap_socket(connection, server_side=True) as wrapped:
            echo(wrapped)

    port = serve(talk)
    answer = run("tcp", host="127.0.0.1", port=port, send="a", some=True, tls=True, anonymous=True)
    assert answer["received"] == "A"
    code, text = run.fails("tcp", host="127.0.0.1", port=port, send="a", some=True, tls=True)
    assert (code, "handshake failure" in text) == ("tls", True)
    for more, why in (({"tls": True, "verify": True}, "nothing can be verified"), ({}, "are for tls = true")):
        code, text = run.fails("tcp", host="127.0.0.1", port=port, anonymous=True, **more)
        assert (code, why in text) == ("bad-arguments", True)
