"""Files below granted roots: reading, following a log, and every way out of the root that must not work."""

import hashlib
import os
import socket
import threading

import pytest

from equus.capabilities import opening
from equus.policy import Policy


@pytest.fixture(params=["openat2", "walk"])
def root(request, tmp_path, monkeypatch):
    """A granted root, opened in both ways that there are."""
    if request.param == "walk":

        def missing(folder: int, below: str) -> int:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(opening, "_openat2", missing)
    folder = tmp_path / "granted"
    folder.mkdir()
    return folder


@pytest.fixture
def granted(root):
    """The policy that grants it."""
    return Policy.parse(f'[caps.file]\npaths = ["{root}"]\n'.encode(), None)


def test_stat(call, root, granted):
    """What lstat says; of a link the link itself."""
    (root / "a").write_bytes(b"12345")
    os.chmod(root / "a", 0o640)
    os.symlink("a", root / "link")
    answer = call("file.stat", str(root / "a"), policy=granted)
    assert (answer["type"], answer["size_bytes"], answer["mode"], answer["links"]) == ("file", 5, "0640", 1)
    assert 0 <= answer["age_seconds"] < 60
    assert call("file.stat", str(root / "link"), policy=granted)["type"] == "link"
    assert call("file.stat", str(root), policy=granted)["type"] == "directory"


def test_read(call, root, granted):
    """A part, all of it, hexadecimal digits, and bytes that are no text."""
    (root / "a").write_bytes(b"ab\xffcd")
    path = str(root / "a")
    assert call("file.read", path, policy=granted) == {"text": "ab\ufffdcd", "size_bytes": 5, "truncated": False}
    part = call("file.read", path, {"limit": 2, "offset": 1, "hex": True}, policy=granted)
    assert part == {"text": "62ff", "size_bytes": 5, "truncated": True}


def test_list(call, root, granted):
    """Names sorted; strange bytes in them are replaced."""
    for name in (b"b", b"a", b"\xff", b"; rm -rf\n"):
        (root / os.fsdecode(name)).write_bytes(b"")
    assert call("file.list", str(root), policy=granted) == {"names": ["; rm -rf\n", "a", "b", "\ufffd"], "total": 4}


def test_checksum(call, failure, root, granted):
    """The digest of all of it."""
    (root / "a").write_bytes(b"test")
    path = str(root / "a")
    expected = {"algorithm": "sha256", "digest": hashlib.sha256(b"test").hexdigest(), "size_bytes": 4}
    assert call("file.checksum", path, policy=granted) == expected
    assert call("file.checksum", path, "md5", policy=granted)["digest"] == hashlib.md5(b"test").hexdigest()
    assert failure("file.checksum", path, "crc32", policy=granted)[0] == "bad-arguments"


def test_a_checksum_has_a_largest_file(failure, root, granted, monkeypatch):
    """A sparse terabyte would keep a run busy for an hour."""
    monkeypatch.setattr("equus.capabilities.files.CHECKSUM_LIMIT", 1000)
    (root / "a").write_bytes(b"x" * 1001)
    assert failure("file.checksum", str(root / "a"), policy=granted)[0] == "too-large"


def escapes(root):
    """Ways out of the root, by name: each must be denied."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    os.symlink(outside / "secret", root / "file-link")
    os.symlink(outside, root / "folder-link")
    os.symlink("../outside/secret", root / "relative-link")
    os.symlink("/proc/self/root/etc/passwd", root / "magic")
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "sock"))
    listener.close()
    return ["file-link", "folder-link/secret", "relative-link", "magic", "fifo", "folder", "sock"]


def test_no_way_out(failure, root, granted):
    """Links, pipes, sockets and folders are no regular files beneath the root; none blocks."""
    for name in escapes(root):
        for call in ("file.read", "file.tail", "file.checksum"):
            code, text = failure(call, str(root / name), policy=granted)
            assert (name, call, code) == (name, call, "denied")
            assert "secret" not in text or "folder-link/secret" in text


@pytest.mark.parametrize("path", ["{}/../outside/secret", "{}x/secret", "/etc/passwd", "{}/../../etc/passwd"])
def test_not_beneath_the_root(failure, root, granted, path):
    """`..` is refused before anything is opened, and a root is no prefix of a name."""
    assert failure("file.read", path.format(root), policy=granted)[0] in ("denied", "bad-arguments")


@pytest.mark.parametrize("path", ["/proc/self/mem", "/proc/self/environ", "/proc/1/maps", "/sys/kernel/uevent_helper"])
def test_the_kernels_files_are_no_files(failure, path):
    """Even where somebody granted /proc and /sys."""
    granted = Policy.parse(b'[caps.file]\npaths = ["/proc", "/sys"]\n', None)
    assert failure("file.read", path, policy=granted)[0] in ("denied", "not-found")


def test_a_swap_between_looking_and_reading_gains_nothing(call, root, granted):
    """A file that keeps turning into a link is read as itself or refused, never as what the link leads to."""
    outside = root.parent / "outside"
    outside.write_text("secret")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "new").write_text("fine")
            os.replace(root / "new", root / "a")
            os.symlink(outside, root / "link")
            os.replace(root / "link", root / "a")

    (root / "a").write_text("fine")
    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(300):
            try:
                seen.add(call("file.read", str(root / "a"), policy=granted)["text"])
            except Exception as failed:
                seen.add(failed.code)
    finally:
        stop.set()
        swapper.join()
    # "" is a file that is still being written.
    assert seen <= {"fine", "", "denied"}


def test_the_agents_own_files_are_never_read(failure, root, granted):
    """Whatever the policy grants: state and keys, and the policy itself."""
    (root / "agent.key").write_text("secret")
    (root / "policy.toml").write_text(f'[caps.file]\npaths = ["{root}"]\n')
    path = str(root / "agent.key")
    assert failure("file.read", path, policy=granted, private=(str(root),))[0] == "denied"
    own = Policy.parse(f'[caps.file]\npaths = ["{root}"]\n'.encode(), str(root / "policy.toml"))
    assert failure("file.read", str(root / "policy.toml"), policy=own)[0] == "denied"


def test_a_single_file_can_be_granted(call, failure, root):
    """And nothing beside it."""
    (root / "a").write_text("yes")
    (root / "b").write_text("no")
    granted = Policy.parse(f'[caps.file]\npaths = ["{root}/a"]\n'.encode(), None)
    assert call("file.read", str(root / "a"), policy=granted)["text"] == "yes"
    assert failure("file.read", str(root / "b"), policy=granted)[0] == "denied"


def test_nothing_is_granted_by_default(failure):
    """The refusal says what to write into the policy."""
    code, text = failure("file.read", "/etc/hostname")
    assert code == "denied"
    assert "[caps.file]" in text
    assert 'paths = ["/etc/hostname"]' in text


def test_missing(failure, root, granted):
    """Said with its path."""
    assert failure("file.read", str(root / "x"), policy=granted) == ("not-found", f"{root}/x does not exist")


# Following a log ---------------------------------------------------------------------------------------------------


def test_tail_gives_whole_new_lines(call, root, granted):
    """It starts at the end, gives each line once, and waits for the end of a half one."""
    log = root / "log"
    log.write_text("old\n")

    def tail(cursor, **options):
        return call("file.tail", str(log), cursor, options, policy=granted)

    first = tail(None)
    assert (first["lines"], first["rotated"], first["skipped_bytes"]) == ([], False, 0)
    with log.open("a") as file:
        file.write("one\r\ntwo\nhal")
    second = tail(first["cursor"])
    assert second["lines"] == ["one", "two"]
    with log.open("a") as file:
        file.write("f\n")
    third = tail(second["cursor"])
    assert third["lines"] == ["half"]
    assert tail(third["cursor"])["lines"] == []
    assert tail(None, **{"from": "start"})["lines"] == ["old", "one", "two", "half"]


def test_tail_after_rotation(call, root, granted):
    """A new file under the name, and a file that was cut, are read from their start."""
    log = root / "log"
    log.write_text("a\nb\n")
    cursor = call("file.tail", str(log), None, policy=granted)["cursor"]
    os.rename(log, root / "log.1")
    log.write_text("new\n")
    renamed = call("file.tail", str(log), cursor, policy=granted)
    assert (renamed["lines"], renamed["rotated"]) == (["new"], True)
    log.write_text("x\n")
    cut = call("file.tail", str(log), renamed["cursor"], policy=granted)
    assert (cut["lines"], cut["rotated"]) == (["x"], True)


def test_tail_skips_what_is_too_much(call, root, granted, monkeypatch):
    """The newest part is read; what was skipped is counted, the rest of the line that was cut into as well."""
    monkeypatch.setattr("equus.capabilities.files.BACKLOG_BYTES", 20)
    log = root / "log"
    log.write_text("".join(f"line {number:03}\n" for number in range(100)))
    answer = call("file.tail", str(log), None, {"from": "start"}, policy=granted)
    assert (answer["lines"], answer["more"]) == (["line 098", "line 099"], False)
    assert answer["skipped_bytes"] == 900 - 18


def test_tail_gives_many_lines_in_turns(call, root, granted, monkeypatch):
    """None is lost between the calls."""
    monkeypatch.setattr("equus.capabilities.files.MOST_LINES", 3)
    log = root / "log"
    log.write_text("".join(f"{number}\n" for number in range(8)))
    seen, cursor, options = [], None, {"from": "start"}
    for _ in range(3):
        answer = call("file.tail", str(log), cursor, options, policy=granted)
        seen += answer["lines"]
        cursor = answer["cursor"]
    assert seen == [str(number) for number in range(8)]


def test_tail_reads_on_from_where_it_stopped(call, root, granted):
    """A limit in bytes loses nothing either, and `more` is true until all is read."""
    log = root / "log"
    log.write_text("".join(f"line {number:03}\n" for number in range(100)))
    seen, cursor, options, turns = [], None, {"from": "start", "limit": 100}, 0
    while True:
        answer = call("file.tail", str(log), cursor, options, policy=granted)
        seen += answer["lines"]
        cursor, turns = answer["cursor"], turns + 1
        if not answer["more"]:
            break
    assert seen == [f"line {number:03}" for number in range(100)]
    assert turns == 10


def test_tail_of_a_line_without_end(call, root, granted):
    """A line as long as the limit comes in pieces instead of never."""
    log = root / "log"
    log.write_text("x" * 50)
    answer = call("file.tail", str(log), None, {"from": "start", "limit": 50}, policy=granted)
    assert answer["lines"] == ["x" * 50]


@pytest.mark.parametrize("cursor", ["", "1:2", "a:b:c", "1:2:-3", "1:2:3:4", 7, "\u0661:2:3", "9" * 90])
def test_a_cursor_that_is_none(failure, root, granted, cursor):
    """It has been through a check's hands."""
    assert failure("file.tail", str(root / "log"), cursor, policy=granted)[0] == "bad-arguments"


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": 1_048_577}, {"offset": -1}, {"hex": 1}, {"lines": 3}, "x", [1]]
)
def test_options_out_of_range(failure, root, granted, options):
    """One mebibyte is the most that is read at once; an unknown option is refused."""
    assert failure("file.read", str(root / "a"), options, policy=granted)[0] == "bad-arguments"
