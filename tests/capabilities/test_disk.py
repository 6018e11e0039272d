"""Filesystems: space, inodes, the mount table, and what hangs."""

import os
import threading

import pytest

from equus.capabilities import bounded
from equus.capabilities.calls import CallFailed
from equus.policy import Policy

MOUNTS = r"""proc /proc proc rw,relatime 0 0
/dev/vda / ext4 rw,relatime 0 0
/dev/vdb /srv/two\040words xfs ro,noatime 0 0
tmpfs /run tmpfs rw 0 0
/dev/vdc /run ext4 rw 0 0
"""


def test_mounts_are_read_with_their_escapes_and_the_last_on_a_path_counts(call, plant):
    """What is mounted over something else hides it."""
    assert call("mounts", root=plant({"/proc/self/mounts": MOUNTS})) == [
        {"path": "/proc", "device": "proc", "type": "proc", "options": ["rw", "relatime"], "pseudo": True},
        {"path": "/", "device": "/dev/vda", "type": "ext4", "options": ["rw", "relatime"], "pseudo": False},
        {"path": "/srv/two words", "device": "/dev/vdb", "type": "xfs", "options": ["ro", "noatime"], "pseudo": False},
        {"path": "/run", "device": "/dev/vdc", "type": "ext4", "options": ["rw"], "pseudo": False},
    ]


def test_space_is_what_df_says(call, tmp_path):
    """Used percent counts against what an ordinary user may still take."""
    figures = os.statvfs(tmp_path)
    answer = call("disk", str(tmp_path))
    used = figures.f_blocks - figures.f_bfree
    assert answer["total_bytes"] == figures.f_blocks * figures.f_frsize
    assert answer["used_percent"] == pytest.approx(100 * used / (used + figures.f_bavail), abs=0.5)
    assert answer["inodes_total"] == figures.f_files
    assert answer["path"] == str(tmp_path)


def test_the_mount_is_the_longest_that_leads_to_the_path(call, plant):
    """Also through a symbolic link, whose target is what is measured."""
    root = plant({"/proc/self/mounts": MOUNTS, "/srv/two words/deep/file": "", "/elsewhere": ""})
    os.symlink("two words/deep", f"{root}/srv/link")
    answer = call("disk", "/srv/link", root=root)
    assert (answer["mount"], answer["device"], answer["type"]) == ("/srv/two words", "/dev/vdb", "xfs")
    assert call("disk", "/elsewhere", root=root)["mount"] == "/"


@pytest.mark.parametrize("path", ["relative", "", None, 7, "with\0nul"])
def test_a_path_must_be_one(failure, path):
    """Anything else is the check's mistake."""
    assert failure("disk", path)[0] == "bad-arguments"


def test_a_missing_path(failure):
    """Said with its name."""
    code, text = failure("disk", "/does/not/exist")
    assert code == "not-found"
    assert text == "/does/not/exist: No such file or directory"


@pytest.mark.parametrize("path", ["/", "/srv2", "/srv/../etc"])
def test_the_policy_names_the_disks(failure, path):
    """A path that climbs out of a grant is judged by where it leads."""
    code, text = failure("disk", path, policy=Policy.parse(b'[caps.disk]\npaths = ["/srv"]\n', None))
    assert code == "denied"
    assert "is not granted" in text


def test_a_filesystem_that_hangs_is_a_timeout_and_is_not_asked_again():
    """The thread is left behind; no second one follows it; when it comes back all is as before."""
    gate = threading.Event()
    with pytest.raises(CallFailed, match=r"dead did not answer within 0\.05 s") as caught:
        bounded.within(0.05, "dead", gate.wait)
    assert caught.value.code == "timeout"
    with pytest.raises(CallFailed, match="did not answer an earlier call yet"):
        bounded.within(5.0, "dead", lambda: 1)
    gate.set()
    for thread in threading.enumerate():
        if thread.name == "bounded call":
            thread.join(5)
    assert bounded.within(5.0, "dead", lambda: 1) == 1


def test_the_number_of_hung_threads_is_bounded():
    """Sixteen dead things, and the seventeenth is not even tried."""
    gate = threading.Event()
    try:
        for number in range(bounded.MOST_THREADS):
            with pytest.raises(CallFailed):
                bounded.within(0.001, f"dead {number}", gate.wait)
        with pytest.raises(CallFailed, match="earlier call"):
            bounded.within(5.0, "alive", lambda: 1)
    finally:
        gate.set()
        for thread in threading.enumerate():
            if thread.name == "bounded call":
                thread.join(5)
    assert bounded.within(5.0, "alive", lambda: 1) == 1


def test_what_the_act_raises_is_raised():
    """The bounded thread hides nothing."""
    with pytest.raises(ZeroDivisionError):
        bounded.within(5.0, "sum", lambda: 1 // 0)
