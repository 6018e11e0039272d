"""Test files below granted roots: reading, following a log, and every way out of the root that must not work."""

import grp
import hashlib
import os
import pwd
import socket
import threading

import pytest

from equus.capabilities import safe_open
from equus.capabilities.calls import CallFailed
from equus.policy.policy import Policy


@pytest.fixture(params=["openat2", "walk"])
def root(request, tmp_path, monkeypatch):
    """Return a folder to grant, once with openat2 and once with the walk that replaces it."""
    if request.param == "walk":

        def missing(folder: int, below: str) -> int:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(safe_open, "_openat2", missing)
    folder = tmp_path / "granted"
    folder.mkdir()
    return folder


@pytest.fixture
def granted(root):
    """Return the policy that grants the folder `root`."""
    return Policy.parse(f'[caps.file]\npaths = ["{root}"]\n'.encode(), None)


def test_stat(call, root, granted):
    """file.stat returns what lstat says, and for a link that of the link itself."""
    (root / "a").write_bytes(b"12345")
    os.chmod(root / "a", 0o640)
    os.symlink("a", root / "link")
    answer = call("file.stat", str(root / "a"), policy=granted)
    assert (answer["type"], answer["size_bytes"], answer["mode"], answer["links"]) == ("file", 5, "0640", 1)
    assert 0 <= answer["age_seconds"] < 60
    assert call("file.stat", str(root / "link"), policy=granted)["type"] == "link"
    assert call("file.stat", str(root), policy=granted)["type"] == "directory"


def test_read(call, root, granted):
    """file.read returns a part or all of a file, as hexadecimal digits or as text with other bytes replaced."""
    (root / "a").write_bytes(b"ab\xffcd")
    path = str(root / "a")
    assert call("file.read", path, policy=granted) == {"text": "ab\ufffdcd", "size_bytes": 5, "truncated": False}
    part = call("file.read", path, {"limit": 2, "offset": 1, "hex": True}, policy=granted)
    assert part == {"text": "62ff", "size_bytes": 5, "truncated": True}


@pytest.mark.adversary(44)
def test_list(call, root, granted):
    """file.list returns the names in order, with strange bytes replaced."""
    for name in (b"b", b"a", b"\xff", b"; rm -rf\n"):
        (root / os.fsdecode(name)).write_bytes(b"")
    assert call("file.list", str(root), policy=granted) == {"names": ["; rm -rf\n", "a", "b", "\ufffd"], "total": 4}


def test_checksum(call, failure, root, granted):
    """file.checksum returns the digest and the size of the whole file, and refuses an unknown algorithm."""
    (root / "a").write_bytes(b"test")
    path = str(root / "a")
    expected = {"algorithm": "sha256", "digest": hashlib.sha256(b"test").hexdigest(), "size_bytes": 4}
    assert call("file.checksum", path, policy=granted) == expected
    assert call("file.checksum", path, "md5", policy=granted)["digest"] == hashlib.md5(b"test").hexdigest()
    assert failure("file.checksum", path, "crc32", policy=granted)[0] == "bad-arguments"


def test_a_checksum_has_a_largest_file(failure, root, granted, monkeypatch):
    """A file above CHECKSUM_LIMIT gets no checksum, because a sparse terabyte would keep a run busy for an hour."""
    monkeypatch.setattr("equus.capabilities.files.CHECKSUM_LIMIT", 1000)
    (root / "a").write_bytes(b"x" * 1001)
    assert failure("file.checksum", str(root / "a"), policy=granted)[0] == "too-large"


def escapes(root):
    """Make ways out of the root, and return their names: each must be denied."""
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


@pytest.mark.adversary(39)
def test_no_way_out(failure, root, granted):
    """Links, pipes and folders beneath the root are denied, and none of them blocks."""
    for name in escapes(root):
        for call in ("file.read", "file.tail", "file.checksum"):
            code, text = failure(call, str(root / name), policy=granted)
            assert (name, call, code) == (name, call, "denied")
            assert "secret" not in text or "folder-link/secret" in text


@pytest.mark.parametrize("path", ["{}/../outside/secret", "{}x/secret", "/etc/passwd", "{}/../../etc/passwd"])
def test_not_beneath_the_root(failure, root, granted, path):
    """A path outside of the root is refused, also one with `..` and one whose name begins as the root does."""
    assert failure("file.read", path.format(root), policy=granted)[0] in ("denied", "bad-arguments")


@pytest.mark.adversary(39)
@pytest.mark.parametrize("path", ["/proc/self/mem", "/proc/self/environ", "/proc/1/maps", "/sys/kernel/uevent_helper"])
def test_the_kernels_files_are_no_files(failure, path):
    """Files of the kernel are refused even where /proc and /sys are granted."""
    granted = Policy.parse(b'[caps.file]\npaths = ["/proc", "/sys"]\n', None)
    assert failure("file.read", path, policy=granted)[0] in ("denied", "not-found")


@pytest.mark.parametrize("kind", sorted(safe_open.KERNELS))
def test_a_second_mount_of_a_kernels_filesystem_holds_no_files(call, failure, root, granted, monkeypatch, kind):
    """A file on a filesystem of the kernel is denied below any root, because a container may mount a second /proc
    there.
    """
    (root / "environ").write_text("PASSWORD=x")
    assert call("file.read", str(root / "environ"), policy=granted)["text"] == "PASSWORD=x"
    monkeypatch.setattr(safe_open, "filesystem_type", lambda handle: kind)
    code, text = failure("file.read", str(root / "environ"), policy=granted)
    assert (code, "a file of the kernel" in text) == ("denied", True)


def test_the_type_of_a_filesystem(tmp_path):
    """The type of a filesystem is that of the kernel's own answer, for a path handle as for an open file."""
    for path, kind in (("/proc/self/environ", "proc"), ("/sys/kernel", "sysfs"), (tmp_path, None)):
        handle = os.open(path, os.O_PATH)
        assert safe_open.KERNELS.get(safe_open.filesystem_type(handle)) == kind
        os.close(handle)


@pytest.mark.adversary(39)
def test_a_swap_between_looking_and_reading_gains_nothing(call, root, granted):
    """A file that keeps turning into a link is read as itself or refused, never as the target of the link."""
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


@pytest.mark.adversary(39)
def test_the_agents_own_files_are_never_read(failure, root, granted):
    """The agent's state, its keys and its policy are refused even where the policy grants their folder."""
    (root / "agent.key").write_text("secret")
    (root / "policy.toml").write_text(f'[caps.file]\npaths = ["{root}"]\n')
    path = str(root / "agent.key")
    assert failure("file.read", path, policy=granted, private=(str(root),))[0] == "denied"
    own = Policy.parse(f'[caps.file]\npaths = ["{root}"]\n'.encode(), str(root / "policy.toml"))
    assert failure("file.read", str(root / "policy.toml"), policy=own)[0] == "denied"


def test_a_single_file_can_be_granted(call, failure, root):
    """A policy can grant a single file, and nothing beside it."""
    (root / "a").write_text("yes")
    (root / "b").write_text("no")
    granted = Policy.parse(f'[caps.file]\npaths = ["{root}/a"]\n'.encode(), None)
    assert call("file.read", str(root / "a"), policy=granted)["text"] == "yes"
    assert failure("file.read", str(root / "b"), policy=granted)[0] == "denied"


def test_nothing_is_granted_by_default(failure):
    """Without a grant a file is refused, and the text says what to write into the policy."""
    code, text = failure("file.read", "/etc/hostname")
    assert code == "denied"
    assert "[caps.file]" in text
    assert 'paths = ["/etc/hostname"]' in text


def test_missing(failure, root, granted):
    """A missing file is reported with its path."""
    assert failure("file.read", str(root / "x"), policy=granted) == ("not-found", f"{root}/x does not exist")


# Following a log ---------------------------------------------------------------------------------------------------


def test_tail_gives_whole_new_lines(call, root, granted):
    """file.tail starts at the end, gives each line once, and waits for the end of a line that is half written."""
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
    """A new file under the name of a log, and a log that was cut, are read from their start."""
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


@pytest.mark.parametrize("old", ["a\nb\nc\n", "x" * 9000 + "\n", "2024 one\n2024 two\n"])
@pytest.mark.parametrize("remake", ["cut", "anew"])
def test_a_log_that_was_cut_and_filled_beyond_the_cursor_is_read_from_its_start(call, root, granted, old, remake):
    """A log that was cut and filled beyond the cursor is read from its start (F25). Name, inode and a greater length do
    not tell it from an append, the bytes before the cursor do.
    """
    log = root / "log"
    log.write_text(old)
    cursor = call("file.tail", str(log), None, policy=granted)["cursor"]
    inode, new = log.stat().st_ino, ["ERROR first", *(f"{number} longer than before" for number in range(1000))]
    if remake == "anew":  # what a filesystem does that gives a number out again
        log.unlink()
    log.write_text("\n".join(new) + "\n")
    cursor = ":".join(str(log.stat().st_ino) if part == str(inode) else part for part in cursor.split(":"))
    answer = call("file.tail", str(log), cursor, policy=granted)
    assert (answer["lines"], answer["rotated"], answer["incomplete"]) == (new, True, True)
    after = call("file.tail", str(log), answer["cursor"], policy=granted)
    assert (after["lines"], after["rotated"], after["incomplete"]) == ([], False, False)


@pytest.mark.parametrize("name", ["log.1", "log-20240229", "log.old", "older.log", "2024"])
@pytest.mark.parametrize("ended", ["\n", ""])
def test_the_rest_of_a_moved_log_is_read_under_its_new_name(call, root, granted, name, ended):
    """The lines between the last look and the move of a log are read, also one without a line end (F25)."""
    log = root / "log"
    log.write_text("one\n")
    cursor = call("file.tail", str(log), None, policy=granted)["cursor"]
    with log.open("a") as file:
        file.write("ERROR two\nthree" + ended)
    os.rename(log, root / name)
    log.write_text("four\nfi")
    answer = call("file.tail", str(log), cursor, policy=granted)
    assert answer["lines"] == ["ERROR two", "three", "four"]
    assert (answer["rotated"], answer["incomplete"], answer["more"]) == (True, False, False)
    with log.open("a") as file:
        file.write("ve\n")
    assert call("file.tail", str(log), answer["cursor"], policy=granted)["lines"] == ["five"]


def test_the_rest_of_a_log_that_was_copied_and_cut_is_read_from_the_copy(call, root, granted):
    """The rest of a log that was copied and cut is read from the copy, which begins with the lines read before
    (F25).
    """
    log = root / "log"
    log.write_text("one\ntwo\n")
    cursor = call("file.tail", str(log), None, policy=granted)["cursor"]
    (root / "log.1").write_text("one\ntwo\nERROR three\n")
    (root / "log.2").write_text("zero\nyes\nlong before\n")
    (root / "log.3").symlink_to(root.parent / "outside")
    log.write_text("four\n")
    answer = call("file.tail", str(log), cursor, policy=granted)
    assert (answer["lines"], answer["rotated"]) == (["ERROR three", "four"], True)


def test_a_moved_log_is_read_in_turns(call, root, granted, monkeypatch):
    """Limits of bytes and of lines lose no line at the step from the old file to the new one (F25)."""
    log = root / "log"
    log.write_text("begin\n")
    first = call("file.tail", str(log), None, policy=granted)["cursor"]
    with log.open("a") as file:
        file.writelines(f"old {number}\n" for number in range(20))
    os.rename(log, root / "log.1")
    log.write_text("".join(f"new {number}\n" for number in range(20)))
    expected = [f"{kind} {number}" for kind in ("old", "new") for number in range(20)]
    for limit, most in ((262_144, 10_000), (10, 10_000), (23, 10_000), (262_144, 3), (40, 7), (140, 10_000), (145, 20)):
        monkeypatch.setattr("equus.capabilities.files.MOST_LINES", most)
        seen, cursor, more = [], first, True
        while more:
            answer = call("file.tail", str(log), cursor, {"limit": limit}, policy=granted)
            seen, cursor, more = seen + answer["lines"], answer["cursor"], answer["more"]
        assert (limit, most, seen) == (limit, most, expected)


def test_a_log_that_was_moved_twice_says_that_lines_are_missing(call, root, granted):
    """The answer after two moves says that lines are missing, because the file in between was never read (F25)."""
    log = root / "log"
    log.write_text("one\n")
    cursor = call("file.tail", str(log), None, policy=granted)["cursor"]
    for name, seconds in (("log.2", 100), ("log.1", 200)):
        os.rename(log, root / name)
        os.utime(root / name, (seconds, seconds))
        log.write_text(f"after {name}\n")
    answer = call("file.tail", str(log), cursor, policy=granted)
    assert (answer["lines"], answer["rotated"], answer["incomplete"]) == (["after log.1"], True, True)


def test_a_grant_of_one_file_is_none_of_its_predecessor(call, root):
    """A grant of one file does not cover its predecessor: the answer says that lines may be missing (F25)."""
    log = root / "log"
    log.write_text("one\n")
    alone = Policy.parse(f'[caps.file]\npaths = ["{log}"]\n'.encode(), None)
    cursor = call("file.tail", str(log), None, policy=alone)["cursor"]
    with log.open("a") as file:
        file.write("ERROR two\n")
    os.rename(log, root / "log.1")
    log.write_text("three\n")
    answer = call("file.tail", str(log), cursor, policy=alone)
    assert (answer["lines"], answer["rotated"], answer["incomplete"]) == (["three"], True, True)


def test_a_cursor_of_an_earlier_agent_goes_on(call, root, granted):
    """A cursor of an earlier agent, which has no mark, goes on by device, inode and length."""
    log = root / "log"
    log.write_text("one\n")
    cursor = call("file.tail", str(log), None, policy=granted)["cursor"].rpartition(":")[0]
    with log.open("a") as file:
        file.write("two\n")
    answer = call("file.tail", str(log), cursor, policy=granted)
    assert (answer["lines"], answer["rotated"]) == (["two"], False)


def test_a_log_on_a_filesystem_that_was_mounted_anew_is_not_read_again(call, root, granted):
    """A log on a filesystem that was mounted anew, with another device number, is not read again."""
    log = root / "log"
    log.write_text("one\n")
    device, rest = call("file.tail", str(log), None, policy=granted)["cursor"].split(":", 1)
    answer = call("file.tail", str(log), f"{int(device) + 1}:{rest}", policy=granted)
    assert (answer["lines"], answer["rotated"]) == ([], False)


def test_tail_skips_what_is_too_much(call, root, granted, monkeypatch):
    """A backlog that is too long is cut to its newest lines, and the bytes that were skipped are counted."""
    monkeypatch.setattr("equus.capabilities.files.BACKLOG_BYTES", 20)
    log = root / "log"
    log.write_text("".join(f"line {number:03}\n" for number in range(100)))
    answer = call("file.tail", str(log), None, {"from": "start"}, policy=granted)
    assert (answer["lines"], answer["more"]) == (["line 098", "line 099"], False)
    assert answer["skipped_bytes"] == 900 - 18


def test_tail_gives_many_lines_in_turns(call, root, granted, monkeypatch):
    """file.tail gives many lines in several calls, and loses none between them."""
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
    """A limit of bytes loses no line, and `more` is true until all is read."""
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
    """A line as long as the limit is given in pieces, instead of never."""
    log = root / "log"
    log.write_text("x" * 50)
    answer = call("file.tail", str(log), None, {"from": "start", "limit": 50}, policy=granted)
    assert answer["lines"] == ["x" * 50]


@pytest.mark.parametrize("cursor", ["", "1:2", "a:b:c", "1:2:-3", "1:2:3:4", 7, "\u0661:2:3", "9" * 90])
def test_a_cursor_that_is_none(failure, root, granted, cursor):
    """A malformed cursor is refused as a bad argument, since a check may have changed it."""
    assert failure("file.tail", str(root / "log"), cursor, policy=granted)[0] == "bad-arguments"


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": 1_048_577}, {"offset": -1}, {"hex": 1}, {"lines": 3}, "x", [1]]
)
def test_options_out_of_range(failure, root, granted, options):
    """Options out of range and unknown options are refused, and one mebibyte is the most that is read at once."""
    assert failure("file.read", str(root / "a"), options, policy=granted)[0] == "bad-arguments"


# ---------------------------------------------------------------------------------------------------- the root itself

READING = {"file.read": "text", "file.tail": "lines", "file.checksum": "digest", "file.list": "names"}


@pytest.mark.parametrize("replaced", ["app/logs", "app"])
@pytest.mark.parametrize("call_name", sorted(READING))
def test_a_granted_root_or_its_parent_may_be_no_link(failure, root, call_name, replaced):
    """A granted root, or its parent, that is a link is denied, because its owner would choose what is read (F47)."""
    (root / "app" / "logs").mkdir(parents=True)
    elsewhere = root / "elsewhere"
    (elsewhere / "logs").mkdir(parents=True)
    for folder in (elsewhere, elsewhere / "logs"):
        (folder / "shadow").write_text("secret\n")
    granted = Policy.parse(f'[caps.file]\npaths = ["{root}/app/logs"]\n'.encode(), None)
    os.rename(root / replaced, root / "before")
    os.symlink(elsewhere, root / replaced)
    path = str(root / "app" / "logs" / ("" if call_name == "file.list" else "shadow"))
    code, text = failure(call_name, path, policy=granted)
    assert code == "denied"
    assert text.startswith(f"{root}/{replaced} is a symbolic link, and none is followed on the way to a granted path")


def test_a_granted_file_may_be_no_link(failure, call, root):
    """A granted file that is a link is denied, and file.stat shows that it is one (F47)."""
    (root / "secret").write_text("secret")
    os.symlink(root / "secret", root / "one.log")
    granted = Policy.parse(f'[caps.file]\npaths = ["{root}/one.log"]\n'.encode(), None)
    assert failure("file.read", str(root / "one.log"), policy=granted)[0] == "denied"
    assert call("file.stat", str(root / "one.log"), policy=granted)["type"] == "link"
    os.unlink(root / "one.log")
    (root / "one.log").write_text("mine")
    assert call("file.read", str(root / "one.log"), policy=granted)["text"] == "mine"
    assert failure("file.read", str(root / "one.log" / "x"), policy=granted)[0] == "not-found"


@pytest.mark.parametrize("wrong", ["", "app", "app/logs"])
@pytest.mark.parametrize("how", ["others may write", "the group may write", "of another user"])
def test_root_and_parents_belong_to_trusted_users(call, failure, root, belongs, wrong, how):
    """A granted root and its parents must belong to trusted users, as a plugin's program must; `owners` names more of
    them (F47).
    """
    (root / "app" / "logs").mkdir(parents=True)
    (root / "app" / "logs" / "a").write_text("fine")
    granted = f'[caps.file]\npaths = ["{root}/app/logs"]\n'
    judged, path = root / wrong, str(root / "app" / "logs" / "a")
    names = Policy.parse(f'{granted}owners = ["daemon"]\n'.encode(), None)
    if how == "of another user":
        belongs(judged, uid=pwd.getpwnam("daemon").pw_uid)
    elif how == "others may write":
        judged.chmod(0o777)
    else:
        belongs(judged, gid=grp.getgrnam("daemon").gr_gid)
        judged.chmod(0o775)
    code, text = failure("file.read", path, policy=Policy.parse(granted.encode(), None))
    assert code == "denied"
    assert text.startswith(f"{judged} ")
    assert "owners = [...] in [caps.file]" in text
    if how == "others may write":
        assert failure("file.read", path, policy=names)[0] == "denied"
        judged.chmod(0o1777)  # as /tmp: users replace only their own files
    assert call("file.read", path, policy=names)["text"] == "fine"


def test_a_swap_of_the_root_at_any_moment_gains_nothing(failure, root, monkeypatch):
    """A parent that becomes a link for a moment before any open never leads to the other file (F47)."""
    for top in ("app", "evil"):
        (root / top / "logs").mkdir(parents=True)
        (root / top / "logs" / "a").write_text(top)
    granted = Policy.parse(f'[caps.file]\npaths = ["{root}/app/logs"]\n'.encode(), None)
    place = safe_open.Place(f"{root}/app/logs", "a")
    really_open, seen = os.open, set()
    for moment in range(len(place.path.split("/")) + 3):
        for back in (False, True):
            count = 0

            def swapping(path, flags, *args, at=moment, returns=back, **options):
                nonlocal count
                count += 1
                swapped = count == at + 1
                if swapped:
                    os.rename(root / "app", root / "kept")
                    os.symlink(root / "evil", root / "app")
                try:
                    return really_open(path, flags, *args, **options)
                finally:
                    if swapped and returns:
                        os.unlink(root / "app")
                        os.rename(root / "kept", root / "app")

            monkeypatch.setattr(safe_open.os, "open", swapping)
            try:
                descriptor = safe_open.regular_file(place)
                seen.add(os.read(descriptor, 10))
                os.close(descriptor)
            except (OSError, CallFailed):
                seen.add(b"refused")
            finally:
                monkeypatch.setattr(safe_open.os, "open", really_open)
            if (root / "kept").exists():
                os.unlink(root / "app")
                os.rename(root / "kept", root / "app")
    assert seen == {b"app", b"refused"}
    assert failure("file.read", f"{root}/evil/logs/a", policy=granted)[0] == "denied"


def test_the_whole_host_may_be_granted(call, tmp_path):
    """A policy can grant `/` as a root like others."""
    (tmp_path / "a").write_text("x")
    granted = Policy.parse(b'[caps.file]\npaths = ["/"]\n', None)
    assert call("file.stat", "/", policy=granted)["type"] == "directory"
    assert call("file.read", str(tmp_path / "a"), policy=granted)["text"] == "x"


# ---------------------------------------------------------------------------------------------------- late lines


def tailing(call, root, granted, **options):
    """Follows the log `log` of a folder: each call returns the new lines."""
    cursor = call("file.tail", str(root / "log"), None, policy=granted)["cursor"]

    def more():
        nonlocal cursor
        answer = call("file.tail", str(root / "log"), cursor, options or None, policy=granted)
        cursor = answer["cursor"]
        return answer["lines"]

    return more


def test_lines_that_come_late_to_a_moved_log_are_read(call, root, granted):
    """Lines that a program writes to a log after it was moved are read, since it keeps the old file open."""
    log = root / "log"
    log.write_text("")
    more = tailing(call, root, granted)
    with open(log, "a", buffering=1) as old:
        old.write("one\n")
        os.rename(log, root / "log.1")
        log.write_text("")
        assert more() == ["one"]
        old.write("two\n")
        assert more() == ["two"]
        assert more() == []
        old.write("three\nhalf")
        with open(log, "a") as new:
            new.write("new\n")
        assert more() == ["three", "new"]
        old.write(" a line\n")
        assert more() == ["half a line"]
        os.rename(root / "log.1", root / "log.2")  # its name may change again
        old.write("four\n")
        assert more() == ["four"]
        os.unlink(root / "log.2")
        old.write("nobody reads this\n")
        assert more() == []


def test_late_lines_are_read_in_turns(call, root, granted):
    """Late lines of a moved log are read in several calls, and none of them or of the new file is lost."""
    log = root / "log"
    log.write_text("")
    more = tailing(call, root, granted, limit=20)
    with open(log, "a", buffering=1) as old:
        os.rename(log, root / "log.1")
        log.write_text("".join(f"new {number}\n" for number in range(9)))
        seen = more()
        old.write("".join(f"late {number}\n" for number in range(9)))
        for _ in range(20):
            seen += more()
    for kind in ("new", "late"):
        assert [line for line in seen if line.startswith(kind)] == [f"{kind} {number}" for number in range(9)]
    assert len(seen) == 18


@pytest.mark.parametrize("cursor", ["1:2:3+", "1:2:3+x", "1:2:3+1:2:3+1:2:3", "+1:2:3", "1:2:3:0123456789abcdef+1:2"])
def test_what_is_no_cursor_with_an_earlier_file(failure, root, granted, cursor):
    """A malformed cursor with an earlier file is refused, since a check may have changed it."""
    (root / "log").write_text("x\n")
    assert failure("file.tail", str(root / "log"), cursor, policy=granted)[0] == "bad-arguments"
