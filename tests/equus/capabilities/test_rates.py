"""Test rates over a window: the sampler, and the calls that use it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus.capabilities.cpu import FIELDS, shares
from equus.capabilities.sampler import KEPT_READINGS, LONGEST_WAIT_SECONDS, SPACING_SECONDS, Sampler


class Clock:
    """Stand in for a clock that only moves when `sleep` is called."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def sampler_of(clock: Clock) -> Sampler:
    return Sampler(lambda: clock.now, clock.sleep)


def test_the_first_call_waits_and_later_ones_do_not():
    """The first call waits for its window; a check that runs each minute then gets that minute's mean without
    waiting.
    """
    clock = Clock()
    sampler = sampler_of(clock)
    assert sampler.over("x", lambda: clock.now, 1.0, 10.0) == (1.0, 1000.0, 1001.0)
    clock.now = 1061.0
    assert sampler.over("x", lambda: clock.now, 1.0, 10.0) == (61.0, 1000.0, 1061.0)
    assert clock.slept == [1.0]


def test_the_newest_reading_that_is_old_enough_counts():
    """The newest reading that is old enough is used, so that a short window is not stretched to the oldest one."""
    clock = Clock()
    sampler = sampler_of(clock)
    for _ in range(10):
        sampler.over("x", lambda: clock.now, 1.0, 10.0)
        clock.now += SPACING_SECONDS
    window, before, now = sampler.over("x", lambda: clock.now, 10.0, 10.0)
    assert 10.0 <= window < 10.0 + 2 * SPACING_SECONDS
    assert now - before == window


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 600), st.floats(0.0, 30.0)), max_size=40),
    st.floats(0.1, 10),
)
def test_a_window_is_never_empty_and_waits_are_bounded(calls, patience):
    """Any order of calls gives a positive window, true readings and no wait beyond the patience."""
    clock = Clock()
    sampler = sampler_of(clock)
    for seconds, pause in calls:
        window, before, now = sampler.over("x", lambda: clock.now, seconds, patience)
        assert window > 0
        assert now - before == pytest.approx(window, abs=0.06)
        clock.now += pause
    assert all(wait <= min(max(patience, 0.05), LONGEST_WAIT_SECONDS) for wait in clock.slept)
    assert len(sampler._kept.get("x", ())) <= KEPT_READINGS


def test_checks_share_readings_but_calls_do_not():
    """Readings are shared under one key, and those of other keys are kept apart."""
    clock = Clock()
    sampler = sampler_of(clock)
    sampler.over("x", lambda: 1, 1.0, 10.0)
    clock.now += 100
    sampler.over("y", lambda: 2, 1.0, 10.0)
    assert sampler.over("x", lambda: 3, 1.0, 10.0)[1:] == (1, 3)
    assert clock.slept == [1.0, 1.0]


def seconds_of(**spent: float) -> dict[str, float]:
    return dict.fromkeys(FIELDS, 0.0) | spent


def test_shares_add_up_without_guest():
    """Shares add up with guest time inside of user time, and iowait and idle are not busy."""
    found = shares(seconds_of(), seconds_of(user=30.0, system=10.0, idle=50.0, iowait=10.0, guest=30.0))
    assert found["busy_percent"] == 40.0
    assert found["user_percent"] == 30.0
    assert found["guest_percent"] == 30.0


def test_iowait_that_runs_backwards_counts_as_nothing():
    """An iowait that runs backwards, which the kernel allows, counts as 0."""
    found = shares(seconds_of(iowait=5.0), seconds_of(iowait=4.0, user=1.0))
    assert (found["iowait_percent"], found["user_percent"]) == (0.0, 100.0)


def test_no_time_is_no_share():
    """Two equal readings give shares of 0, and no division by zero."""
    assert set(shares(seconds_of(), seconds_of()).values()) == {0.0}


STAT = """cpu  9000 100 2000 80000 300 0 50 0 0 0
cpu0 4500 50 1000 40000 150 0 25 0 0 0
cpu1 4500 50 1000 40000 150 0 25 0 0 0
ctxt 4711000
processes 6424
procs_running 2
procs_blocked 1
"""


def test_cpu_over_a_window(call, plant, tmp_path):
    """Rates of processors come from two readings of /proc/stat, counters from the newer one."""
    clock = Clock()
    root = plant({"/proc/stat": STAT})

    def work(seconds: float) -> None:
        clock.sleep(seconds)
        (tmp_path / "root/proc/stat").write_text(STAT.replace("cpu  9000 100 2000 80000", "cpu  9100 100 2000 80100"))

    answer = call("cpu", 2, root=root, sampler=Sampler(lambda: clock.now, work))
    assert answer["window_seconds"] == 2.0
    assert answer["busy_percent"] == 50.0
    assert answer["counters"]["user"] == 91.0
    assert {
        key: answer[key] for key in ("cpus", "context_switches", "forks", "processes_running", "processes_blocked")
    } == {
        "cpus": 2,
        "context_switches": 4711000,
        "forks": 6424,
        "processes_running": 2,
        "processes_blocked": 1,
    }


@pytest.mark.parametrize("seconds", [0, 0.05, 601, -1, "1", True, float("nan")])
def test_a_window_out_of_range(failure, seconds):
    """A window is refused if it is too short to measure or longer than readings are kept."""
    assert failure("cpu", seconds) == ("bad-arguments", "host.cpu: seconds must be a number from 0.1 to 600")


def test_a_run_without_time_left(failure):
    """The deadline of the run counts before the window, so that a run without time left is a timeout."""
    assert failure("cpu", 1, seconds=-1)[0] == "timeout"


DISKSTATS = """   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
   7       1 loop1 5 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0
 254       0 vda 100 4904 2000 500 50 14182 4000 250 1 600 10715 3317 130 43672 869 100 67
 254       1 vda1 100 4904 2000 500 50 14182 4000 250 1 600 10715
"""


def test_disk_io(call, plant, tmp_path):
    """Only whole devices are listed, with sectors as bytes, milliseconds as seconds, and rates over the window."""
    clock = Clock()
    blocks = {f"/sys/block/{name}/size": "" for name in ("loop0", "loop1", "vda")}
    root = plant({"/proc/diskstats": DISKSTATS, **blocks})

    def work(seconds: float) -> None:
        clock.sleep(seconds)
        newer = DISKSTATS.replace(
            "vda 100 4904 2000 500 50 14182 4000 250 1 600", "vda 120 4904 2200 540 70 14182 4400 350 3 1100"
        )
        (tmp_path / "root/proc/diskstats").write_text(newer)

    answer = call("disk_io", 1, root=root, sampler=Sampler(lambda: clock.now, work))
    assert [one["device"] for one in answer] == ["loop1", "vda"]
    assert answer[1] == {
        "device": "vda",
        "reads": 120,
        "writes": 70,
        "read_bytes": 2200 * 512,
        "written_bytes": 4400 * 512,
        "read_seconds": 0.54,
        "write_seconds": 0.35,
        "busy_seconds": 1.1,
        "in_flight": 3,
        "window_seconds": 1.0,
        "reads_per_second": 20.0,
        "writes_per_second": 20.0,
        "read_bytes_per_second": 102400.0,
        "written_bytes_per_second": 204800.0,
        "busy_percent": 50.0,
        "wait_seconds": 0.0035,
    }


NET_DEV = """Inter-|   Receive |  Transmit
 face |bytes packets errs drop|bytes packets errs drop
    lo: 3193 29 0 0 0 0 0 0 3193 29 0 0 0 0 0 0
  eth0: 1000 10    1    2    0     0          0         0   2000    20    3    4    0     0       0          0
"""


def test_net_io(call, plant, tmp_path):
    """An interface has counters, rates and properties of its link, and a counter that was reset counts from 0."""
    clock = Clock()
    link = {"flags": "0x1003\n", "carrier": "1\n", "speed": "1000\n", "mtu": "1500\n", "address": "02:00:00:00:00:01\n"}
    root = plant({"/proc/net/dev": NET_DEV, **{f"/sys/class/net/eth0/{name}": text for name, text in link.items()}})

    def work(seconds: float) -> None:
        clock.sleep(seconds)
        (tmp_path / "root/proc/net/dev").write_text(
            NET_DEV.replace("eth0: 1000 10", "eth0: 600 10").replace("2000    20", "2512    20")
        )

    lo, eth0 = sorted(
        call("net_io", 1, root=root, sampler=Sampler(lambda: clock.now, work)), key=lambda one: -len(one["interface"])
    )[::-1]
    assert eth0 == {
        "interface": "eth0",
        "received_bytes": 600,
        "sent_bytes": 2512,
        "received_packets": 10,
        "sent_packets": 20,
        "receive_errors": 1,
        "send_errors": 3,
        "receive_dropped": 2,
        "send_dropped": 4,
        "window_seconds": 1.0,
        "received_bytes_per_second": 600.0,
        "sent_bytes_per_second": 512.0,
        "up": True,
        "carrier": True,
        "speed_bits_per_second": 1_000_000_000,
        "mtu": 1500,
        "address": "02:00:00:00:00:01",
    }
    assert (lo["interface"], lo["up"], "carrier" in lo) == ("lo", False, False)
