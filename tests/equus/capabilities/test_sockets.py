"""Test tcp, udp, unix and icmp against servers that behave and servers that do not."""

import os
import socket
import threading
import time

import pytest

from equus.capabilities import icmp
from equus.capabilities.address import Endpoint, literal
from equus.capabilities.calls import CallFailed, KeptConnections
from equus.policy.policy import Policy


def test_tcp_only_connects_when_nothing_is_asked(call, serve):
    """A call that asks for nothing connects and reads no byte, so that a silent server is fine."""
    port = serve(lambda connection: connection.recv(1))
    answer = call("tcp", {"host": "localhost", "port": port})
    assert (answer["address"] in ("127.0.0.1", "::1"), answer["received"], answer["closed"]) == (True, "", False)
    assert 0 <= answer["connect_seconds"] <= answer["seconds"]
    assert "matched" not in answer


def test_tcp_sends_and_reads_until_what_is_expected(call, serve):
    """A call sends its text and reads until the expected one, without waiting for the rest or the end."""

    def talk(connection: socket.socket) -> None:
        assert connection.recv(100) == b"ping\n"
        for piece in (b"po", b"ng", b" more"):
            connection.sendall(piece)
        connection.recv(1)

    answer = call("tcp", {"host": "127.0.0.1", "port": serve(talk), "send": "ping\n", "expect": "pong"})
    assert answer["matched"] is True
    assert answer["received"].startswith("pong")


def test_tcp_holds_a_dialogue(call, serve):
    """Each item of `send` is sent after the server has answered the one before."""
    heard = []

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"220 hi\n")
        heard.append(connection.recv(100))
        connection.sendall(b"250 ok\n")
        heard.append(connection.recv(100))
        connection.sendall(b"221 bye\n")

    fields = {"host": "127.0.0.1", "port": serve(talk), "send": ["EHLO\n", "QUIT\n"], "until": "\n", "expect": "221"}
    answer = call("tcp", fields)
    assert heard == [b"EHLO\n", b"QUIT\n"]
    assert answer["received"] == "220 hi\n250 ok\n221 bye\n"


def test_bytes_travel_as_hexadecimal_digits(call, serve):
    """With `hex`, bytes are given and returned as hexadecimal digits; otherwise bytes that are no UTF-8 are
    replaced.
    """
    port = serve(lambda connection: connection.sendall(connection.recv(4)[::-1]))
    fields = {"host": "127.0.0.1", "port": port, "send": "00ff7f80", "hex": True}
    assert call("tcp", fields)["received"] == "807fff00"
    port = serve(lambda connection: connection.sendall(b"a\xffb"))
    assert call("tcp", {"host": "127.0.0.1", "port": port, "until": "b"})["received"] == "a\ufffdb"


def test_a_server_that_never_stops(call, serve):
    """A server that never stops is cut at the limit."""

    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x" * 65536)

    answer = call("tcp", {"host": "127.0.0.1", "port": serve(flood), "expect": "never", "limit": 100_000})
    assert (len(answer["received"]), answer["matched"]) == (100_000, False)


def test_a_server_that_drips(call, serve):
    """One time limit counts for the whole call, even if the server sends a byte now and then."""

    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b".")
            time.sleep(0.02)

    began = time.monotonic()
    answer = call("tcp", {"host": "127.0.0.1", "port": serve(drip), "expect": "never", "timeout": 0.3})
    assert time.monotonic() - began < 50  # the run has a minute
    assert (answer["matched"], answer["closed"]) == (False, False)


def test_a_server_that_is_silent(failure, serve):
    """A server that sends nothing before the limit gives a timeout."""
    port = serve(lambda connection: connection.recv(1))
    assert failure("tcp", {"host": "127.0.0.1", "port": port, "until": "\n", "timeout": 0.1}) == (
        "timeout",
        f"127.0.0.1:{port} did not answer within 0.1 s",
    )


def test_a_server_that_hangs_up(call, serve):
    """A server that hangs up gives the bytes that came, and `closed`."""
    port = serve(lambda connection: connection.sendall(b"bye"))
    answer = call("tcp", {"host": "127.0.0.1", "port": port, "until": "\n"})
    assert (answer["received"], answer["closed"]) == ("bye", True)


def test_nobody_listens(failure, closed_port):
    """A refused connection has the code `refused`, and is no timeout."""
    code, text = failure("tcp", {"host": "127.0.0.1", "port": closed_port})
    assert (code, text) == ("refused", f"127.0.0.1:{closed_port} refused the connection")


@pytest.mark.parametrize(
    "host",
    [
        "192.0.2.1",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "0.0.0.0",
        "224.0.0.1",
        "::ffff:192.0.2.1",
    ],
)
@pytest.mark.parametrize("name", ["tcp", "udp", "tls", "icmp"])
def test_the_policy_judges_the_address(failure, name, host):
    """The policy grants loopback alone by default, and IPv4 inside of IPv6 is judged as IPv4."""
    fields = (
        {"host": host} if name == "icmp" else {"host": host, "port": 80, **({"send": "x"} if name == "udp" else {})}
    )
    assert failure(name, fields)[0] == "denied"


@pytest.mark.adversary(40)
def test_metadata_addresses_are_denied_whatever_is_granted(failure):
    """Metadata addresses are denied, even where all addresses are granted."""
    everything = Policy.parse(b'[caps.tcp]\nnetworks = [{ cidr = "0.0.0.0/0" }, { cidr = "::/0" }]\n', None)
    for host in ("169.254.169.254", "::ffff:a9fe:a9fe", "fe80::1"):
        assert failure("tcp", {"host": host, "port": 80}, policy=everything)[0] == "denied"


NAMED = Policy.parse(b'[caps.tcp]\nnames = ["*.example"]\n', None)  # beside loopback, which is granted by default


@pytest.mark.parametrize("found", ["169.254.169.254", "168.63.129.16", "10.20.30.40", "fd00:ec2::254", "2001:db8::7"])
def test_a_name_is_judged_by_where_it_leads(failure, monkeypatch, found):
    """A name is judged by its address, so that a wrong answer of DNS gains nothing, and no refusal shows the address
    (F41).
    """
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answers)
    code, text = failure("tcp", {"host": "innocent.example", "port": 80}, policy=NAMED)
    assert code == "denied"
    assert text.startswith("innocent.example ")
    assert found not in text


# A call of each capability that takes a host's name.
NAMING = {
    "tcp": lambda host: {"host": host, "port": 443},
    "udp": lambda host: {"host": host, "port": 53, "send": "x"},
    "icmp": lambda host: {"host": host},
    "tls": lambda host: {"host": host, "port": 443},
    "http": lambda host: {"url": f"http://{host}:8080/"},
}


@pytest.fixture
def asked(monkeypatch):
    """Return the names that the system's resolver is asked for; each is at an address that no policy here grants."""
    names = []

    def answer(host: str, *args: object, **kwargs: object) -> list:
        names.append(host)
        return [(socket.AF_INET, 1, 6, "", ("10.9.8.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return names


@pytest.mark.parametrize("call_name", sorted(NAMING))
@pytest.mark.parametrize(
    ("settings", "host", "is_asked"),
    [
        ("", "c2VjcmV0.evil.example", False),
        ('networks = [{ cidr = "127.0.0.0/8" }, { cidr = "::1/128" }]', "a.example", False),
        ("networks = []", "a.example", False),
        ('networks = [{ cidr = "192.0.2.0/24" }]', "a.example", True),
        ('names = ["a.example"]', "A.Example", True),
        ('names = ["a.example"]', "a.example.", True),
        ('names = ["a.example"]', "b.a.example", False),
        ('names = ["*.a.example"]', "b.a.example", True),
        ('names = ["*.a.example"]', "a.example", False),
        ('names = ["*.a.example"]', "eva.example", False),
        ('networks = [{ cidr = "192.0.2.0/24" }]\nnames = ["a.example"]', "b.example", False),
    ],
)
def test_names_are_looked_up_only_where_an_answer_could_be_granted(failure, asked, call_name, settings, host, is_asked):
    """A name is looked up only where an answer could be granted, because the question itself leaves the host (F41)."""
    granted = Policy.parse(f"[caps.{call_name}]\n{settings}\n".encode(), None)
    code, text = failure(call_name, NAMING[call_name](host), policy=granted)
    assert (code, bool(asked)) == ("denied", is_asked)
    assert "10.9.8.7" not in text
    assert f"[caps.{call_name}]" in text


def test_a_redirect_is_looked_up_by_the_same_rule(call, failure, serve, asked):
    """A redirect to a name that may not be looked up is denied without a question to DNS (F41)."""

    def away(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(
            b"HTTP/1.1 302 Found\r\nLocation: http://c2VjcmV0.evil.example/\r\nContent-Length: 0\r\n\r\n"
        )

    code, text = failure("http", {"url": f"http://127.0.0.1:{serve(away)}/"})
    assert (code, asked) == ("denied", [])
    assert text.startswith("c2vjcmv0.evil.example is not looked up")


@pytest.mark.parametrize(
    ("hosts", "host", "reached"),
    [
        (None, "localhost", True),
        (None, "db.localhost", True),
        ("127.0.0.1 me me.example # mine\n", "me.example", True),
        ("::1 x\n127.0.0.1 me\n", "ME", True),
        ("10.0.0.1 me\n", "me", False),
        ("# 127.0.0.1 me\n", "me", False),
    ],
)
def test_names_of_this_host_need_no_name_server(call, failure, serve, plant, asked, hosts, host, reached):
    """A name in the host's own file is reached without a question to DNS (F41)."""
    port = serve(lambda connection: connection.recv(1))
    where = {"root": plant({"/etc/hosts": hosts} if hosts else {"/etc/other": ""})}
    if reached:
        assert call("tcp", {"host": host, "port": port}, **where)["address"] == "127.0.0.1"
    else:
        assert failure("tcp", {"host": host, "port": port}, **where)[0] == "denied"
    assert asked == []


def test_a_kept_connection_that_is_no_longer_granted_tells_no_address(call, serve, monkeypatch):
    """A kept connection that the policy no longer grants fails without its address in the text (F41)."""
    answers = [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answers)
    kept, port = KeptConnections(), serve(lambda connection: connection.recv(1))
    number = call("tcp", {"host": "db.example", "port": port, "keep": True}, policy=NAMED, kept=kept)["connection"]
    other = Policy.parse(b'[caps.tcp]\nnetworks = [{ cidr = "192.0.2.0/24" }]\n', None)
    with pytest.raises(CallFailed, match=r"^db\.example port \d+ has no address that is granted to tcp") as caught:
        call("tcp", {"connection": number, "send": "x"}, policy=other, kept=kept)
    assert "127.0.0.1" not in caught.value.text


@pytest.mark.adversary(40)
def test_the_connection_goes_to_the_address_that_was_judged(call, serve, monkeypatch):
    """A name is looked up once, and the connection goes to the address that was judged."""
    asked = []

    def changing(host: str, *args: object, **kwargs: object) -> list:
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    port = serve(lambda connection: connection.recv(1))
    monkeypatch.setattr(socket, "getaddrinfo", changing)
    assert call("tcp", {"host": "rebinding.example", "port": port}, policy=NAMED)["address"] == "127.0.0.1"
    assert asked == ["rebinding.example"]


def test_only_the_allowed_of_several_addresses_are_tried(call, serve, monkeypatch):
    """Denied addresses of a name are passed over, and an allowed one is tried."""
    answers = [(socket.AF_INET, 1, 6, "", (address, 0)) for address in ("192.0.2.1", "127.0.0.1")]
    port = serve(lambda connection: connection.recv(1))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answers)
    assert call("tcp", {"host": "two.example", "port": port}, policy=NAMED)["address"] == "127.0.0.1"


def test_ports_are_part_of_the_grant(failure, call, serve):
    """A port that is not granted is denied, even on a granted host."""
    port = serve(lambda connection: connection.recv(1))
    policy = Policy.parse(f'[caps.tcp]\nnetworks = [{{ cidr = "127.0.0.1/32", ports = [{port}] }}]\n'.encode(), None)
    call("tcp", {"host": "127.0.0.1", "port": port}, policy=policy)
    assert failure("tcp", {"host": "127.0.0.1", "port": port + 1}, policy=policy)[0] == "denied"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": None}, "port"),
        ({"port": 1.5}, "port"),
        ({"host": ""}, "host"),
        ({"host": "a b"}, "host"),
        ({"host": "-x"}, "host"),
        ({"host": "x\0y"}, "host"),
        ({"host": "x" * 300}, "host"),
        ({"timeout": 61}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"limit": 1_048_577}, "limit"),
        ({"send": 7}, "send"),
        ({"send": "zz", "hex": True}, "send"),
        ({"send": ["a", "b"]}, "until"),
        ({"send": "x" * 65_537}, "send"),
        ({"sned": "x"}, "sned"),
    ],
)
def test_arguments_are_checked(failure, change, word):
    """A wrong argument is refused, and the text names it."""
    code, text = failure("tcp", {"host": "127.0.0.1", "port": 1, **change})
    assert code == "bad-arguments"
    assert word in text


def test_udp(call, failure, policy):
    """A datagram is sent and the answer read, and one of another sender is not taken for it."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        server.bind(("127.0.0.1", 0))
        server.settimeout(60)
        port = server.getsockname()[1]

        def answer() -> None:
            data, sender = server.recvfrom(100)
            stranger.sendto(b"forged", sender)
            server.sendto(data[::-1], sender)

        thread = threading.Thread(target=answer)
        thread.start()
        got = call("udp", {"host": "127.0.0.1", "port": port, "send": "0102", "hex": True})
        thread.join()
        assert (got["received"], got["address"]) == ("0201", "127.0.0.1")
        assert failure("udp", {"host": "127.0.0.1", "port": port, "send": "x", "timeout": 0.1})[0] == "timeout"


def test_unix(call, failure, tmp_path):
    """Only a socket whose path is granted is connected to."""
    path = str(tmp_path / "s")
    granted = Policy.parse(f'[caps.unix]\npaths = ["{path}"]\n'.encode(), None)
    assert failure("unix", {"path": path}, policy=granted)[0] in ("failed", "refused")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(connection.recv(10).upper())

        thread = threading.Thread(target=answer)
        thread.start()
        got = call("unix", {"path": path, "send": "abc", "expect": "ABC"}, policy=granted)
        thread.join()
    assert (got["received"], got["matched"]) == ("ABC", True)
    assert failure("unix", {"path": path + "x"}, policy=granted)[0] == "denied"
    assert failure("unix", {"path": path})[0] == "denied"


@pytest.fixture
def two_sockets(tmp_path):
    """Return a folder with the granted socket `app/s` and another one, which greet with their names, and the policy."""
    (tmp_path / "app").mkdir()
    listeners = []
    for name in ("app/s", "other"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / name))
        listener.listen()
        listeners.append(listener)
    yield tmp_path, Policy.parse(f'[caps.unix]\npaths = ["{tmp_path}/app/s"]\n'.encode(), None)
    for listener in listeners:
        listener.close()


def test_a_granted_socket_may_be_reached_over_a_link_of_root(call, two_sockets):
    """A granted socket may be reached over a link of root, as /var/run is on every host."""
    folder, policy = two_sockets
    os.rename(folder / "app", folder / "really")
    os.symlink("really", folder / "app")
    assert call("unix", {"path": f"{folder}/app/s"}, policy=policy)["closed"] is False


@pytest.mark.parametrize("spoil", ["owner of the link", "folder of the link", "loop"])
def test_a_granted_socket_is_reached_over_no_other_link(failure, two_sockets, belongs, spoil):
    """A granted socket that is a link of another owner is denied, because it could lead to another program's socket
    (F47).
    """
    folder, policy = two_sockets
    os.unlink(folder / "app" / "s")
    os.symlink("s" if spoil == "loop" else folder / "other", folder / "app" / "s")
    if spoil == "owner of the link":
        belongs(folder / "app" / "s", uid=1)
    elif spoil == "folder of the link":
        belongs(folder / "app", uid=1)
    code, text = failure("unix", {"path": f"{folder}/app/s"}, policy=policy)
    assert code == "denied"
    assert text.startswith(f"{folder}/app/s leads over a link that is not followed: ")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::FFFF:10.0.0.1", "10.0.0.1"),
        ("2001:DB8::0", "2001:db8::"),
        ("127.1", None),
        ("0x7f.1", None),
        ("2130706433", None),
        ("0177.0.0.1", None),
        ("fe80::1%eth0", None),
        ("localhost", None),
    ],
)
def test_what_is_an_address(text, address):
    """Only forms of addresses that all programs read alike are accepted."""
    assert literal(text) == address


def test_a_name_that_does_not_exist(failure, monkeypatch):
    """A name that does not exist fails as not found, and the text names it."""

    def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    expected = ("not-found", "no.example: Name or service not known")
    assert failure("tcp", {"host": "no.example", "port": 1}, policy=NAMED) == expected


class EchoSocket:
    """Stand in for a ping socket of icmp: answer the sequence numbers that it is told to."""

    def __init__(self, answered: set[int]) -> None:
        self.answered = answered
        self.waiting: list[bytes] = []

    def __enter__(self) -> "EchoSocket":
        return self

    def __exit__(self, *fault: object) -> None:
        pass

    def connect(self, address: object) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        pass

    def send(self, packet: bytes) -> None:
        sequence = int.from_bytes(packet[6:8], "big")
        self.waiting = [b"\0" * 8 + b"somebody else", packet] if sequence in self.answered else []

    def recv(self, limit: int) -> bytes:
        if not self.waiting:
            raise TimeoutError
        return self.waiting.pop(0)


def test_ping_counts_what_comes_back(call, monkeypatch):
    """Answers to the right sequence numbers count, and the loss is in percent."""
    monkeypatch.setattr(icmp, "_ping_socket", lambda endpoint: EchoSocket({1, 3}))
    answer = call("icmp", {"host": "127.0.0.1", "count": 4, "interval": 0.05})
    assert (answer["sent"], answer["received"], answer["lost_percent"]) == (4, 2, 50.0)
    assert 0 <= answer["minimum_seconds"] <= answer["average_seconds"] <= answer["maximum_seconds"]


def test_ping_without_any_answer_has_no_times(call, monkeypatch):
    """A ping without any answer has no times, instead of times of zero."""
    monkeypatch.setattr(icmp, "_ping_socket", lambda endpoint: EchoSocket(set()))
    answer = call("icmp", {"host": "127.0.0.1", "count": 1})
    assert answer == {"address": "127.0.0.1", "sent": 1, "received": 0, "lost_percent": 100.0}


def test_ping_where_the_kernel_forbids_it(monkeypatch):
    """Where the kernel forbids a ping, the text names the setting to change."""

    def forbidden(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(socket, "socket", forbidden)
    with pytest.raises(CallFailed, match=r"net\.ipv4\.ping_group_range") as caught:
        icmp._ping_socket(Endpoint("127.0.0.1", 0))
    assert caught.value.code == "unsupported"
