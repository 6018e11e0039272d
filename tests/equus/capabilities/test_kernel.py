"""Test figures of the kernel from recorded files of real machines, and from files that are empty or hold something
else.
"""

import errno
import os
import re

import pytest

from equus.capabilities.calls import CallFailed
from equus.capabilities.kernel import sensors
from equus.policy.policy import Policy

PRESSURE = "some avg10=1.50 avg60=0.25 avg300=0.00 total=2500000\nfull avg10=0.10 avg60=0.00 avg300=0.00 total=1000\n"


def test_pressure(call, plant):
    """Pressure is read with and without `full` for processors, which kernels before 5.13 lack."""
    root = plant({"/proc/pressure/cpu": PRESSURE.splitlines()[0] + "\n", "/proc/pressure/io": PRESSURE})
    some = {"percent_10s": 1.5, "percent_60s": 0.25, "percent_300s": 0.0, "seconds": 2.5}
    full = {"percent_10s": 0.1, "percent_60s": 0.0, "percent_300s": 0.0, "seconds": 0.001}
    assert call("kernel.pressure", root=root) == {"cpu": {"some": some}, "io": {"some": some, "full": full}}


def test_vmstat(call, plant):
    """Each counter of vmstat has its own name, and a line that is none is passed over."""
    root = plant({"/proc/vmstat": "pgmajfault 52\noom_kill 3\nstrange\nnr_x 1 2\nwide 18446744073709551615\n"})
    assert call("kernel.vmstat", root=root) == {"pgmajfault": 52, "oom_kill": 3, "wide": 18446744073709551615}


def test_files(call, plant):
    """Handles that are allocated but unused count as free."""
    files = {"file-nr": "3636\t36\t2466170\n", "inode-nr": "447399\t478\n", "nr_open": "1048576\n"}
    root = plant({f"/proc/sys/fs/{name}": text for name, text in files.items()})
    expected = {"open": 3600, "most": 2466170, "most_of_process": 1048576, "inodes": 447399, "inodes_free": 478}
    assert call("kernel.files", root=root) == expected


STAT = """entries  clashres found new invalid ignore delete delete_list insert insert_failed drop early_drop restart
000000ff  00000000 00000000 00000000 0000000a 00000000 00000000 00000000 00000000 00000001 00000002 00000003 00000000
000000ff  00000000 00000000 00000000 00000006 00000000 00000000 00000000 00000000 00000001 00000010 00000000 0000001f
"""


@pytest.mark.parametrize(
    ("stat", "lost"),
    [
        (STAT, {"drop": 18, "early_drop": 3, "insert_failed": 2, "invalid": 16}),
        (None, {}),
        ("drop early_drop\nxyz 1\n", {}),
        ("drop early_drop\n1\n", {}),
        ("", {}),
    ],
)
def test_conntrack(call, plant, stat, lost):
    """The figures of conntrack are sums over all processors, which the kernel writes as hexadecimal digits."""
    files = {
        f"/proc/sys/net/netfilter/nf_conntrack_{name}": text for name, text in (("count", "50\n"), ("max", "262144\n"))
    }
    root = plant(files | ({} if stat is None else {"/proc/net/stat/nf_conntrack": stat}))
    assert call("kernel.conntrack", root=root) == {"count": 50, "most": 262144, **lost}


SOCKSTAT = """sockets: used 157
TCP: inuse 37 orphan 1 tw 102 alloc 61 mem 2
UDP: inuse 3 mem 1
UDPLITE: inuse 0
FRAG: inuse 0 memory 4096
"""
NETSTAT = "TcpExt: Other ListenOverflows ListenDrops\nTcpExt: 1 7 9\nIpExt: ListenDrops\nIpExt: 4\n"


def test_sockets(call, plant):
    """Memory of sockets is given in bytes, beside the limits and the counts of losses."""
    root = plant(
        {
            "/proc/net/sockstat": SOCKSTAT,
            "/proc/net/sockstat6": "TCP6: inuse 24\n",
            "/proc/sys/net/ipv4/tcp_max_orphans": "131072\n",
            "/proc/sys/net/ipv4/tcp_mem": "10 20 30\n",
            "/proc/net/netstat": NETSTAT,
            "/proc/net/snmp": "Tcp: MaxConn CurrEstab RetransSegs\nTcp: -1 34 28\n",
        }
    )
    answer = call("kernel.sockets", root=root)
    page = answer["tcp"]["memory_bytes"] // 2
    assert page in (4096, 16384, 65536)
    assert answer == {
        "used": 157,
        "tcp": {"in_use": 37, "orphans": 1, "time_wait": 102, "allocated": 61, "memory_bytes": 2 * page},
        "tcp6": {"in_use": 24},
        "udp": {"in_use": 3, "memory_bytes": page},
        "frag": {"in_use": 0, "memory_bytes": 4096},
        "tcp_most_orphans": 131072,
        "tcp_most_memory_bytes": 30 * page,
        "listen_overflows": 7,
        "listen_drops": 9,
        "established": 34,
        "retransmitted": 28,
    }


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REST = "00000000:00000000 00:00000000 00000000"


def test_listeners(call, plant, monkeypatch):
    """The call lists sockets that listen, of IPv4 and IPv6, and neither connections nor UDP clients."""
    monkeypatch.setattr("equus.capabilities.kernel.network._LITTLE", True)
    tcp6 = "0" * 24 + "01000000"
    mapped = "0000000000000000FFFF00000100007F"
    root = plant(
        {
            "/proc/net/tcp": HEAD
            + f"   0: 0100007F:1538 00000000:0000 0A {REST}   108        0 1\n"
            + f"   1: 0100007F:1538 0100007F:9C40 01 {REST}   108        0 1\n"
            + f"   2: 00000000:0016 00000000:0000 0A {REST}     0        0 1\n"
            + f"   3: nonsense 00000000:0000 0A {REST}     0        0 1\n   4: cut\n",
            "/proc/net/tcp6": HEAD
            + f"   0: {tcp6}:0050 {'0' * 32}:0000 0A {REST}    33        0 1\n"
            + f"   1: {mapped}:1538 {'0' * 32}:0000 0A {REST}   108        0 1\n",
            "/proc/net/udp": HEAD
            + f"   0: 0A00000A:0035 00000000:0000 07 {REST}   101        0 1\n"
            + f"   1: 0A00000A:D431 08080808:0035 01 {REST}   101        0 1\n"
            + f"   2: 0A00000A:D432 08080808:0035 07 {REST}   101        0 1\n",
        }
    )
    assert call("kernel.listeners", root=root) == {
        "list": [
            {"protocol": "tcp", "port": 22, "address": "0.0.0.0", "uid": 0},
            {"protocol": "tcp", "port": 80, "address": "::1", "uid": 33},
            {"protocol": "tcp", "port": 5432, "address": "127.0.0.1", "uid": 108},
            {"protocol": "udp", "port": 53, "address": "10.0.0.10", "uid": 101},
        ],
        "total": 4,
    }


def test_a_listener_of_this_machine(call, closed_port, serve):
    """The table of this machine has the port of a server that runs, and not a port that has closed."""
    port = serve(lambda connection: None)
    found = {one["port"] for one in call("kernel.listeners")["list"] if one["address"] == "127.0.0.1"}
    assert port in found
    assert closed_port not in found


def hwmon(chip: str, **files: str) -> dict[str, str]:
    """Return the files of one chip."""
    return {f"/sys/class/hwmon/{chip}/{name}": f"{text}\n" for name, text in files.items()}


def test_sensors(call, plant):
    """Sensors have values in common units, limits of their chip and alarms; one with a fault has no value."""
    root = plant(
        hwmon("hwmon0", name="coretemp", temp1_input="45000", temp1_label="Package id 0", temp1_max="80000",
              temp1_crit="100000", temp1_crit_alarm="0", temp10_input="-5500", temp2_input="91000", temp2_max_alarm="1")
        | hwmon("hwmon1", name="nct6775", fan1_input="1200", fan1_min="300", fan2_input="0", fan2_fault="1",
                in0_input="1104", curr1_input="", power1_average="65000000", fan3_label="none there")
        | hwmon("hwmon2", **{"device/name": "w83781d", "device/temp1_input": "21000"})
    )  # fmt: skip
    plain = {"alarm": False, "fault": False}
    celsius = {"kind": "temperature", "unit": "C"}
    assert call("kernel.sensors", root=root) == [
        {
            "chip": "coretemp",
            "name": "Package id 0",
            **celsius,
            **plain,
            "high": 80.0,
            "critical": 100.0,
            "value": 45.0,
        },
        {"chip": "coretemp", "name": "temp2", **celsius, "alarm": True, "fault": False, "value": 91.0},
        {"chip": "coretemp", "name": "temp10", **celsius, **plain, "value": -5.5},
        {"chip": "nct6775", "name": "fan1", "kind": "fan", "unit": "rpm", **plain, "low": 300.0, "value": 1200.0},
        {"chip": "nct6775", "name": "fan2", "kind": "fan", "unit": "rpm", "alarm": False, "fault": True},
        {"chip": "nct6775", "name": "in0", "kind": "voltage", "unit": "V", **plain, "value": 1.104},
        {"chip": "nct6775", "name": "power1", "kind": "power", "unit": "W", **plain, "value": 65.0},
        {"chip": "w83781d", "name": "temp1", **celsius, **plain, "value": 21.0},
    ]


def test_more_sensors_than_an_answer_has(call, plant, monkeypatch):
    """The list of sensors ends after MOST_SENSORS."""
    monkeypatch.setattr(sensors, "MOST_SENSORS", 3)
    root = plant(hwmon("hwmon0", name="a", **{f"temp{number}_input": "1000" for number in range(1, 9)}))
    assert [one["name"] for one in call("kernel.sensors", root=root)] == ["temp1", "temp2", "temp3"]


BOND = """Ethernet Channel Bonding Driver: v6.1.0

Bonding Mode: fault-tolerance (active-backup)
Primary Slave: eth0 (primary_reselect always)
Currently Active Slave: eth1
MII Status: up
MII Polling Interval (ms): 100

Slave Interface: eth0
MII Status: down
Speed: Unknown
Duplex: Unknown
Link Failure Count: 4
Permanent HW addr: 02:00:00:00:00:01

Slave Interface: eth1
MII Status: up
Speed: 10000 Mbps
Duplex: full
Link Failure Count: 0
Aggregator ID: 2
details partner lacp pdu:
    MII Status: lies
"""


def test_bonds(call, plant):
    """Each member of a bond has its own state, and the indented details of LACP do not change it."""
    root = plant({"/proc/net/bonding/bond0": BOND, "/proc/net/bonding/bond1": "strange\n"})
    eth0 = {"name": "eth0", "status": "down", "speed": "Unknown", "duplex": "Unknown", "failures": 4}
    eth1 = {"name": "eth1", "status": "up", "speed": "10000 Mbps", "duplex": "full", "failures": 0, "aggregator": 2}
    assert call("kernel.bonds", root=root) == [
        {
            "name": "bond0", "mode": "fault-tolerance (active-backup)", "status": "up", "active": "eth1",
            "primary": "eth0 (primary_reselect always)", "members": [eth0, eth1], "working": 1,
        },
        {"name": "bond1", "mode": "", "status": "", "members": [], "working": 0},
    ]  # fmt: skip


def test_a_restart_is_due(call, plant):
    """A restart is due with packages named once each and the installed kernels, and a removed one does not count."""
    root = plant(
        {
            "/run/reboot-required": "*** System restart required ***\n",
            "/run/reboot-required.pkgs": "libc6\nlinux-base\n\nlibc6\n",
            "/proc/sys/kernel/osrelease": "6.1.0-9-amd64\n",
            "/lib/modules/6.1.0-9-amd64/modules.dep": "",
            "/lib/modules/6.1.0-10-amd64/modules.dep": "",
            "/lib/modules/6.1.0-8-amd64/left": "",
            "/boot/vmlinuz-6.1.0-9-amd64": "",
            "/lib/modules/6.1.0-10-amd64/vmlinuz": "",
        }
    )
    assert call("kernel.reboot_required", root=root) == {
        "asked": True, "packages": ["libc6", "linux-base"], "running": "6.1.0-9-amd64",
        "kernels": ["6.1.0-10-amd64", "6.1.0-9-amd64"], "modules": True,
    }  # fmt: skip


def test_no_restart_is_due(call, plant):
    """No restart is due in a container, which has no kernels; the modules of the running kernel may be missing."""
    bare = plant({"/proc/sys/kernel/osrelease": "6.12.1-arch\n"})
    expected = {"asked": False, "packages": [], "running": "6.12.1-arch", "kernels": []}
    assert call("kernel.reboot_required", root=bare) == expected
    root = plant({"/lib/modules/6.12.2-arch/vmlinuz": ""})
    answer = call("kernel.reboot_required", root=root)
    assert (answer["kernels"], answer["modules"]) == (["6.12.2-arch"], False)


ARC = "9 1 0x01 2 3 4 5\nname type data\nhits 4 900\nmisses 4 100\nc_min 4 1\nc_max 4 64\nsize 4 32\nl2_hits 4 5\n"


def test_zfs(call, plant):
    """Each folder of ZFS that has a state is a pool."""
    files = {"arcstats": ARC, "dbgmsg": "x", "tank/state": "DEGRADED\n", "back up/state": "ONLINE\n", "old/io": "1\n"}
    root = plant({f"/proc/spl/kstat/zfs/{name}": text for name, text in files.items()})
    assert call("kernel.zfs", root=root) == {
        "pools": [{"name": "back up", "state": "ONLINE"}, {"name": "tank", "state": "DEGRADED"}],
        "cache": {"hits": 900, "misses": 100, "least_bytes": 1, "most_bytes": 64, "bytes": 32},
    }


def test_btrfs(call, plant):
    """Btrfs gives its space by kind, and the errors of each device since they were last reset."""
    uuid = "0f4d3c1e-aaaa-bbbb-cccc-0123456789ab"
    errors = "write_errs 0\nread_errs 2\nflush_errs 0\ncorruption_errs 1\ngeneration_errs 0\n"
    files = {
        "label": "data\n", "devices/sda/x": "", "devices/sdb/x": "", "devinfo/1/error_stats": errors,
        "devinfo/1/missing": "0\n", "devinfo/2/missing": "1\n", "allocation/data/total_bytes": "1000\n",
        "allocation/data/bytes_used": "750\n", "allocation/metadata/total_bytes": "strange\n",
    }  # fmt: skip
    root = plant(
        {f"/sys/fs/btrfs/{uuid}/{name}": text for name, text in files.items()} | {"/sys/fs/btrfs/features/x": "1"}
    )
    none = {"write": 0, "read": 2, "flush": 0, "corruption": 1, "generation": 0}
    assert call("kernel.btrfs", root=root) == [
        {
            "uuid": uuid, "label": "data", "names": ["sda", "sdb"],
            "devices": [{"id": "1", "missing": False, "errors": none}, {"id": "2", "missing": True, "errors": {}}],
            "data": {"total_bytes": 1000, "used_bytes": 750}, "metadata": {}, "system": {},
        }
    ]  # fmt: skip


CALLS = ["pressure", "vmstat", "files", "conntrack", "sockets", "listeners", "sensors", "bonds", "zfs", "btrfs"]


@pytest.mark.parametrize("name", CALLS)
def test_a_host_without_it(failure, plant, name):
    """Missing files make a call unsupported, with a sentence."""
    code, text = failure(f"kernel.{name}", root=plant({"/nothing": ""}))
    assert code == "unsupported"
    assert "this host" in text or "does not exist" in text


@pytest.mark.parametrize("name", [*CALLS, "reboot_required"])
def test_files_that_say_something_else(call, plant, name):
    """Bytes that are no text, in any file that is read, give an answer or a declared failure."""
    junk = b"\xff\x00 9999999999999999999999 :\n\n: :\n-\n" * 50
    paths = [
        "/proc/pressure/cpu", "/proc/vmstat", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/net/sockstat",
        "/proc/sys/net/netfilter/nf_conntrack_count", "/proc/sys/net/netfilter/nf_conntrack_max", "/proc/net/netstat",
        "/proc/net/stat/nf_conntrack", "/proc/net/tcp", "/proc/net/udp6", "/proc/sys/net/ipv4/tcp_mem",
        "/sys/class/hwmon/hwmon0/name", "/sys/class/hwmon/hwmon0/temp1_input", "/sys/class/hwmon/hwmon0/temp1_max",
        "/proc/net/bonding/b", "/run/reboot-required.pkgs", "/proc/spl/kstat/zfs/arcstats",
        "/proc/spl/kstat/zfs/p/state", "/sys/fs/btrfs/0f4d3c1e-aaaa-bbbb-cccc-0123456789ab/devinfo/1/error_stats",
    ]  # fmt: skip

    try:
        call(f"kernel.{name}", root=plant(dict.fromkeys(paths, junk)))
    except CallFailed as failed:
        assert failed.code == "unsupported"


def test_the_policy_may_take_it_away():
    """Figures of the kernel are granted by default, and the policy can take them away."""
    assert Policy.parse(b"", None).granted("kernel")
    assert not Policy.parse(b"[caps.kernel]\nallow = false\n", None).granted("kernel")


def test_the_real_machine(call):
    """Calls on the machine that runs this test give possible figures."""
    files, sockets = call("kernel.files"), call("kernel.sockets")
    assert 0 < files["open"] <= files["most"]
    assert sockets["used"] > 0
    assert call("kernel.vmstat")["pgfault"] > 0
    assert re.match(r"\d+\.\d+", call("kernel.reboot_required")["running"])


@pytest.mark.parametrize("name", ["kernel.pressure", "procs", "users"])
def test_without_a_descriptor(call, monkeypatch, name):
    """Without a free descriptor the call fails, since "no process" or "no user" would be a wrong answer."""
    full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def refused(*_):
        raise full

    monkeypatch.setattr("builtins.open", refused)
    monkeypatch.setattr("os.listdir", refused)
    with pytest.raises(CallFailed, match="Too many open files") as caught:
        call(name)
    assert caught.value.code == "failed"
