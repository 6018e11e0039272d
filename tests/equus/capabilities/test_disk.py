"""Test the call for filesystems: space, inodes, the mount table, and filesystems that hang."""

import errno
import os
import socket
import threading
import time

import pytest

from equus.capabilities import address, time_limit
from equus.capabilities.calls import CallFailed
from equus.policy.policy import Policy

MOUNTS = r"""proc /proc proc rw,relatime 0 0
/dev/vda / ext4 rw,relatime 0 0
/dev/vdb /srv/two\040words xfs ro,noatime 0 0
tmpfs /run tmpfs rw 0 0
/dev/vdc /run ext4 rw 0 0
"""


def test_mounts_are_read_with_their_escapes_and_the_last_on_a_path_counts(call, plant):
    """Mounts are read with their escapes, and a mount over another one hides it."""
    assert call("mounts", root=plant({"/proc/self/mounts": MOUNTS})) == [
        {"path": "/proc", "device": "proc", "type": "proc", "options": ["rw", "relatime"], "pseudo": True},
        {"path": "/", "device": "/dev/vda", "type": "ext4", "options": ["rw", "relatime"], "pseudo": False},
        {"path": "/srv/two words", "device": "/dev/vdb", "type": "xfs", "options": ["ro", "noatime"], "pseudo": False},
        {"path": "/run", "device": "/dev/vdc", "type": "ext4", "options": ["rw"], "pseudo": False},
    ]


def test_space_is_what_df_says(call, tmp_path):
    """Space is that of df: the used percentage counts against the space that an ordinary user may still take."""
    figures = os.statvfs(tmp_path)
    answer = call("disk", str(tmp_path))
    used = figures.f_blocks - figures.f_bfree
    assert answer["total_bytes"] == figures.f_blocks * figures.f_frsize
    assert answer["used_percent"] == pytest.approx(100 * used / (used + figures.f_bavail), abs=0.5)
    assert answer["inodes_total"] == figures.f_files
    assert answer["path"] == str(tmp_path)


def test_the_mount_is_the_longest_that_leads_to_the_path(call, plant):
    """The mount is the longest path that leads to the file, also through a symbolic link, whose target is measured."""
    root = plant({"/proc/self/mounts": MOUNTS, "/srv/two words/deep/file": "", "/elsewhere": ""})
    os.symlink("two words/deep", f"{root}/srv/link")
    answer = call("disk", "/srv/link", root=root)
    assert (answer["mount"], answer["device"], answer["type"]) == ("/srv/two words", "/dev/vdb", "xfs")
    assert call("disk", "/elsewhere", root=root)["mount"] == "/"


MOUNTINFO = r"""21 1 254:0 / / ro,relatime - ext4 /dev/vda rw,errors=remount-ro
22 21 254:16 / /srv/two\040words ro,noatime shared:7 master:1 - xfs /dev/vdb ro,attr2
23 21 254:32 / /run ro - ext4 /dev/vdc rw,emergency_ro
"""


@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        ("/", "rw,relatime", False),
        ("/", "ro,relatime", False),  # ProtectSystem=strict of the agent's unit: the kernel still writes to it
        ("/srv/two words", "ro,noatime", True),
        ("/run", "rw,emergency_ro", True),
    ],
)
def test_a_filesystem_that_the_kernel_made_read_only_is_told_from_a_view_of_the_agent(
    call, plant, path, options, expected
):
    """The options of the filesystem itself decide if it is read-only, and those of the mount do not (F13)."""
    table = f"/dev/x {path.replace(' ', chr(92) + '040')} ext4 {options} 0 0\n"
    root = plant({"/proc/self/mounts": table, "/proc/self/mountinfo": MOUNTINFO, "/run/x": "", "/srv/two words/x": ""})
    assert call("disk", path, root=root)["filesystem_read_only"] is expected


@pytest.mark.parametrize("options", ["rw,relatime,emergency_ro", "emergency_ro,rw", "ro,emergency_ro"])
def test_a_kernel_without_mountinfo_still_tells_of_its_emergency(call, plant, options):
    """Without mountinfo the emergency of a filesystem is read from the mount table, which has the option, too (F13)."""
    answer = call("disk", "/", root=plant({"/proc/self/mounts": f"/dev/vda / ext4 {options} 0 0\n"}))
    assert (answer["read_only"], answer["filesystem_read_only"]) == (True, True)


def test_without_mountinfo_nothing_is_claimed(call, plant):
    """Without mountinfo the answer does not say if the filesystem is read-only, and a check uses the mount's
    options.
    """
    assert "filesystem_read_only" not in call("disk", "/", root=plant({"/proc/self/mounts": MOUNTS}))


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EIO, "failed"),
        (errno.ESTALE, "failed"),
        (errno.ENOTCONN, "failed"),
        (errno.EACCES, "denied"),
        (errno.ENOENT, "not-found"),
    ],
)
def test_faults_of_a_filesystem_are_told_from_what_the_agent_may_not_see(failure, monkeypatch, number, code):
    """A fault of the filesystem has another code than a folder that is closed to the agent's user (F12)."""

    def broken(path):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "statvfs", broken)
    assert failure("disk", "/") == (code, f"/: {os.strerror(number)}")


@pytest.mark.parametrize("path", ["relative", "", None, 7, "with\0nul"])
def test_a_path_must_be_one(failure, path):
    """A path that is relative, empty or no text is refused as a bad argument."""
    assert failure("disk", path)[0] == "bad-arguments"


def test_a_missing_path(failure):
    """A missing path is reported with its name."""
    code, text = failure("disk", "/does/not/exist")
    assert code == "not-found"
    assert text == "/does/not/exist: No such file or directory"


@pytest.mark.parametrize("path", ["/", "/srv2", "/srv/../etc"])
def test_the_policy_names_the_disks(failure, path):
    """A path outside of the granted disks is denied, also one that climbs out of a grant."""
    code, text = failure("disk", path, policy=Policy.parse(b'[caps.disk]\npaths = ["/srv"]\n', None))
    assert code == "denied"
    assert "is not granted" in text


def _let_go(gate):
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("bounded call"):
            thread.join(60)


def _hang(pool, gate, what, entry):
    with pytest.raises(CallFailed):
        time_limit.within(pool, 0.001, what, entry, gate.wait)


def test_a_filesystem_that_hangs_is_a_timeout_and_is_not_asked_again():
    """A filesystem that hangs is a timeout and is not asked again until the call comes back."""
    pool, gate = time_limit.Pool("things"), threading.Event()
    with pytest.raises(CallFailed, match=r"dead did not answer within 0\.05 s") as caught:
        time_limit.within(pool, 0.05, "dead", "a", gate.wait)
    assert caught.value.code == "timeout"
    with pytest.raises(CallFailed, match="did not answer an earlier call yet"):
        time_limit.within(pool, 60.0, "dead", "b", lambda: 1)
    _let_go(gate)
    assert time_limit.within(pool, 60.0, "dead", "a", lambda: 1) == 1


def test_the_number_of_hung_threads_is_bounded():
    """Sixteen calls may hang; the seventeenth is not tried, and its text says nothing about the disk (F54)."""
    pool, gate = time_limit.Pool("things"), threading.Event()
    try:
        for number in range(time_limit.MOST_THREADS):
            _hang(pool, gate, f"dead {number}", f"entry {number}")
        with pytest.raises(CallFailed, match="alive was not tried: 16 things hang") as caught:
            time_limit.within(pool, 60.0, "alive", "another", lambda: 1)
        assert caught.value.code == "failed"
    finally:
        _let_go(gate)
    assert time_limit.within(pool, 60.0, "alive", "another", lambda: 1) == 1


def test_an_entry_takes_two_places_at_most():
    """A check whose calls hang takes two places at most, and leaves the others free (F54)."""
    pool, gate = time_limit.Pool("things"), threading.Event()
    try:
        for number in range(2):
            _hang(pool, gate, f"dead {number}", "hungry")
        with pytest.raises(CallFailed, match="alive was not tried: 2 things of this check hang"):
            time_limit.within(pool, 60.0, "alive", "hungry", lambda: 1)
        assert time_limit.within(pool, 60.0, "alive", "honest", lambda: 1) == 1
    finally:
        _let_go(gate)
    assert time_limit.within(pool, 60.0, "alive", "hungry", lambda: 1) == 1


def test_look_ups_that_hang_take_nothing_from_disks_and_files(call, failure, tmp_path, monkeypatch):
    """Look-ups that hang take up no place of disk and file calls, even if all their own places are taken (F54)."""
    gate = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: gate.wait() and [])
    (tmp_path / "a").write_text("text")
    granted = Policy.parse(f'[caps.tcp]\nnames = ["*.example"]\n[caps.file]\npaths = ["{tmp_path}"]\n'.encode(), None)
    try:
        for number in range(time_limit.MOST_THREADS + 1):
            host, entry = f"n{number}.example", f"entry {number}"
            code, text = failure("tcp", {"host": host, "port": 1}, policy=granted, seconds=0.02, entry=entry)
            assert code == ("timeout" if number < time_limit.MOST_THREADS else "failed"), text
        assert call("disk", str(tmp_path), policy=granted)["total_bytes"] > 0
        assert call("file.read", str(tmp_path / "a"), policy=granted)["text"] == "text"
    finally:
        _let_go(gate)


def test_a_look_up_has_a_deadline_of_its_own(failure, monkeypatch):
    """A look-up ends at the call's deadline or the resolver's, whichever is sooner, however long the run may last
    (F54).
    """
    gate = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: gate.wait() and [])
    granted = Policy.parse(b'[caps.tcp]\nnames = ["slow.example"]\n[caps.http]\nnames = ["slow.example"]\n', None)
    expected = ("timeout", "looking up slow.example did not answer within 0.05 s")
    began = time.monotonic()
    try:
        monkeypatch.setattr(address, "RESOLVE_SECONDS", 100.0)
        where = {"host": "slow.example", "port": 1, "timeout": 0.05}
        assert failure("tcp", where, policy=granted, seconds=200.0) == expected
        monkeypatch.setattr(address, "RESOLVE_SECONDS", 0.05)
        monkeypatch.setattr(address, "LOOK_UPS", time_limit.Pool("look-ups"))
        assert failure("http", {"url": "http://slow.example/"}, policy=granted, seconds=200.0) == expected
    finally:
        _let_go(gate)
    assert time.monotonic() - began < 60


def test_what_the_act_raises_is_raised():
    """An error of the bounded call is raised to its caller."""
    with pytest.raises(ZeroDivisionError):
        time_limit.within(time_limit.Pool("sums"), 60.0, "sum", "a", lambda: 1 // 0)
