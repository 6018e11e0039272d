"""Test the calls for processes, RAID arrays and mail queues."""

import os

import pytest

from equus.capabilities.processes import parse_stat
from equus.capabilities.raid import parse_mdstat
from equus.policy.policy import Policy

COMMANDS = Policy.parse(b"[caps.procs]\ncommand_lines = true\n", None)


def stat_of(pid: int, name: str, state: str = "S", resident: int = 10, started: int = 1000) -> str:
    before = (
        f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 {started} 1000000 {resident}"
    )
    return before + " 18446744073709551615" + " 0" * 27 + "\n"


def tree(plant) -> str:
    files: dict[str, str] = {"/proc/uptime": "5000.0 1.0\n", "/proc/meminfo": ""}
    for pid, name, state, uid in (
        (1, "init", "S", 0),
        (20, "web (1) x", "R", 33),
        (21, "web (1) x", "D", 33),
        (30, "dead", "Z", 0),
    ):
        files[f"/proc/{pid}/stat"] = stat_of(pid, name, state, resident=pid)
        files[f"/proc/{pid}/status"] = f"Name:\tx\nUmask:\t0022\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        files[f"/proc/{pid}/cmdline"] = f"/bin/{name}\0--key\0secret-{pid}\0"
    return plant(files)


@pytest.mark.adversary(44)
def test_a_name_may_hold_anything(plant):
    """Brackets, blanks and line ends in the name of a process do not shift the fields."""
    for name in ("sh", "; rm -rf /", "a) S 1 (b", "line\nbreak", "", ")"):
        process = parse_stat(stat_of(7, name))
        assert (process.pid, process.name, process.state, process.threads) == (7, name, "S", 3)
        assert process.cpu_seconds == 300 / os.sysconf("SC_CLK_TCK")


def test_all_processes(call, plant):
    """All processes are counted by state, and the largest are listed first, as many as asked for."""
    answer = call("procs", {"limit": 2}, root=tree(plant))
    assert (answer["count"], answer["threads"]) == (4, 12)
    assert answer["by_state"] == {"R": 1, "S": 1, "D": 1, "Z": 1, "T": 0, "I": 0}
    assert [one["pid"] for one in answer["list"]] == [30, 21]
    assert answer["list"][0]["age_seconds"] == pytest.approx(5000 - 1000 / os.sysconf("SC_CLK_TCK"), abs=1)
    assert "command" not in answer["list"][0]


@pytest.mark.parametrize(("number", "limit"), [(260, 200), (23, 20), (5, 0), (0, 20)])
def test_sums_are_made_over_all_that_match(call, plant, number, limit):
    """The list has the largest processes only, and memory, processor time and the youngest are those of all (F22)."""
    files = {"/proc/uptime": "5000.0 1.0\n", "/proc/9000/stat": stat_of(9000, "other", resident=7)}
    for pid in range(1, number + 1):
        files[f"/proc/{pid}/stat"] = stat_of(pid, "web", resident=pid, started=100 + 100 * (pid == 1) * 3000)
    answer = call("procs", {"name": "web", "limit": limit}, root=plant(files))
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert (answer["count"], len(answer["list"])) == (number, min(number, limit))
    assert answer["resident_bytes"] == sum(range(1, number + 1)) * page
    assert answer["cpu_seconds"] == pytest.approx(number * 300 / tick)
    if number:
        assert answer["youngest_age_seconds"] == pytest.approx(5000 - 300_100 / tick, abs=1)
    else:
        assert "youngest_age_seconds" not in answer


@pytest.mark.parametrize(
    ("filters", "pids"),
    [
        ({"name": "web (1) x"}, {20, 21}),
        ({"user": "33"}, {20, 21}),
        ({"user": "root"}, {1, 30}),
        ({"state": "Z"}, {30}),
        ({"name": "web (1) x", "state": "R"}, {20}),
        ({"name": "web"}, set()),
    ],
)
def test_filters(call, plant, filters, pids):
    """A filter compares names exactly, and several filters must all hold."""
    answer = call("procs", filters, root=tree(plant))
    assert {one["pid"] for one in answer["list"]} == pids
    assert answer["count"] == len(pids)


def test_command_lines_need_a_grant(call, failure, plant):
    """Without a grant, command lines are neither shown nor searched, because they hold secrets."""
    root = tree(plant)
    assert failure("procs", {"command": "secret-20"}, root=root)[0] == "denied"
    answer = call("procs", {"command": "secret-20"}, root=root, policy=COMMANDS)
    assert [one["command"] for one in answer["list"]] == ["/bin/web (1) x --key secret-20"]


def test_a_user_that_does_not_exist(failure, plant):
    """An unknown user is reported as not found, since zero processes would be a wrong answer to a misspelt name."""
    assert failure("procs", {"user": "no-such-user"}, root=tree(plant)) == (
        "not-found",
        "this host has no user no-such-user",
    )


def test_this_very_process_is_found(call):
    """The process of this test is found in the real /proc."""
    with open("/proc/self/comm") as file:
        name = file.read().strip()
    answer = call("procs", {"name": name, "limit": 200})
    mine = [one for one in answer["list"] if one["pid"] == os.getpid()]
    assert mine[0]["uid"] == os.getuid()
    assert mine[0]["resident_bytes"] > 1_000_000


MDSTAT = """Personalities : [raid1] [raid6] [raid5] [raid4]
md1 : active raid5 sdd1[3] sdc1[2](F) sdb1[1] sda1[0]
      2929890816 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/2] [UU_]
      [==>..................]  recovery = 12.6% (37043392/292945152) finish=127.5min speed=33440K/sec
      bitmap: 0/8 pages [0KB], 65536KB chunk

md0 : active (auto-read-only) raid1 nvme0n1p1[0] nvme1n1p1[1]
      1047552 blocks super 1.2 [2/2] [UU]
        resync=PENDING

md127 : inactive sde1[0](S)
      976759808 blocks super 1.2

unused devices: <none>
"""


def test_mdstat():
    """mdstat is read with levels, members, failures, rebuilds, and arrays that did not start."""
    md1, md0, md127 = parse_mdstat(MDSTAT)
    assert md1 == {
        "name": "md1",
        "level": "raid5",
        "active": True,
        "read_only": False,
        "members": 3,
        "working": 2,
        "failed": ["sdc1"],
        "spares": [],
        "degraded": True,
        "action": "recovery",
        "progress_percent": 12.6,
    }
    assert md0 == {
        "name": "md0",
        "level": "raid1",
        "active": True,
        "read_only": True,
        "members": 2,
        "working": 2,
        "failed": [],
        "spares": [],
        "degraded": False,
        "action": "resync",
        "progress_percent": 0.0,
    }
    assert (md127["name"], md127["active"], md127["level"], md127["spares"]) == ("md127", False, "", ["sde1"])


@pytest.mark.parametrize("word", ["broken", "broken (read-only)", "frozen", "half-open", "suspended (auto-read-only)"])
def test_an_array_in_any_other_state_is_there_and_keeps_its_own_details(word):
    """An array in any other state is listed, and its detail line does not change the array before it (F15)."""
    text = f"""md1 : active raid1 sdf[1] sde[0]
      1047552 blocks super 1.2 [2/2] [UU]

md0 : {word} raid5 sdd[4](F) sdc[2](F) sdb[1] sda[0](F)
      3139584 blocks super 1.2 level 5, 512k chunk, algorithm 2 [4/1] [_U__]
"""
    md1, md0 = parse_mdstat(text)
    assert (md1["members"], md1["working"], md1["degraded"], "state" in md1) == (2, 2, False, False)
    assert (md0["name"], md0["level"], md0["active"], md0["state"]) == ("md0", "raid5", False, word.split()[0])
    assert (md0["members"], md0["working"], md0["failed"]) == (4, 1, ["sdd", "sdc", "sda"])
    assert md0["read_only"] is ("read-only" in word)


def test_a_line_that_is_no_array_takes_the_details_below_it():
    """Details below a line that is no array belong to no array."""
    text = "md1 : active raid1 sdf[1] sde[0]\n      8 blocks [2/2] [UU]\nmd2 :\n      8 blocks [2/1] [U_]\n"
    assert [(one["name"], one["degraded"]) for one in parse_mdstat(text)] == [("md1", False)]


@pytest.mark.parametrize("kind", ["imsm", "ddf"])
def test_containers_are_marked_and_their_member_arrays_are_not(kind):
    """A container of firmware RAID is marked and never active, and its members are arrays as others (F15)."""
    text = f"""md126 : active raid1 sda[1] sdb[0]
      976759808 blocks super external:/md127/0 [2/2] [UU]

md125 : inactive sda[1] sdb[0]
      976759808 blocks super external:/md127/1

md127 : inactive sdb[1](S) sda[0](S)
      5288 blocks super external:{kind}
"""
    assert [(one["name"], one["active"], one.get("container", False)) for one in parse_mdstat(text)] == [
        ("md126", True, False),
        ("md125", False, False),
        ("md127", False, True),
    ]


def test_mdstat_without_arrays(call, plant):
    """A kernel with RAID and no array gives an empty list."""
    assert call("raid", root=plant({"/proc/mdstat": "Personalities : [raid1]\nunused devices: <none>\n"})) == []


def test_postfix(call, plant):
    """Each file below the queues of Postfix is a message, also in hashed folders."""
    spool = "/var/spool/postfix"
    files = {f"{spool}/deferred/{name[0]}/{name}": "" for name in ("A1", "A2", "B1")}
    root = plant({**files, f"{spool}/active/C1": "", f"{spool}/maildrop/D1": ""})
    assert call("mail_queue", root=root) == {
        "program": "postfix",
        "queued": 4,
        "incoming": 0,
        "active": 1,
        "deferred": 3,
        "hold": 0,
        "capped": False,
    }


def test_exim(call, plant):
    """Two files of Exim are one message."""
    root = plant({f"/var/spool/exim4/input/{name}": "" for name in ("1a-H", "1a-D", "x/2b-H", "x/2b-D")})
    assert call("mail_queue", root=root)["queued"] == 2


def test_a_queue_is_not_counted_for_ever(call, plant, monkeypatch):
    """A queue is counted up to a cap, above which the answer says that there is more."""
    monkeypatch.setattr("equus.capabilities.mail_queue.MOST_COUNTED", 3)
    root = plant({f"/var/spool/postfix/deferred/{number}": "" for number in range(5)})
    answer = call("mail_queue", root=root)
    assert (answer["deferred"], answer["capped"]) == (3, True)
