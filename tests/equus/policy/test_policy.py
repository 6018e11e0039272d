"""Test the host's policy: what each line grants, and that nothing else is granted."""

# ruff: noqa: E501 - a table has a line for each case

import os
from pathlib import Path

import pytest

from equus.policy.grants import Grant
from equus.policy.networks import LOOPBACK
from equus.policy.policy import DEFAULT_PATH, Limits, Policy, PolicyError
from equus.policy.policy_text import CAPABILITIES


def policy(text: str) -> Policy:
    return Policy.parse(text.encode(), "p.toml")


DEFAULT = policy("")


def test_the_default() -> None:
    """The default grants figures of this host and its loopback network, but no files, sockets, units or programs."""
    assert dict(DEFAULT.grants) == {
        **dict.fromkeys(
            ("host", "cpu", "mem", "load", "disk_io", "net_io", "kernel", "procs", "state", "log", "crypto"), Grant()
        ),
        "disk": Grant(paths=("/",)),
        **dict.fromkeys(("tcp", "udp", "icmp", "tls", "http", "dns"), Grant(networks=LOOPBACK)),
    }
    assert (DEFAULT.isolation, DEFAULT.pushed_code, DEFAULT.limits, dict(DEFAULT.plugins)) == (
        "strong",
        "signed",
        Limits(8, 1000, 300.0, 300.0, 64, 200, 8),
        {},
    )
    assert set(CAPABILITIES) - DEFAULT.grants.keys() == {"file", "unix", "systemd", "journal", "plugin", "program"}


def test_every_setting() -> None:
    """A file with every setting is read whole."""
    found = policy(
        """
        isolation = "weak"
        pushed_code = "frozen"
        upgrade.allow = true
        [limits]
        parallel = 2
        queue = 5
        timeout_max = "1m"
        cpu_max = "10s"
        memory_mib = 128
        calls = 9
        moved_mib = 1
        [caps]
        log.allow = false
        disk.paths = ["/srv/"]
        procs.command_lines = true
        systemd.units = ["nginx.service", "pg@*"]
        unix.paths = ["/run/docker.sock"]
        [caps.http]
        networks = [{ cidr = "10.0.0.0/8", ports = [80, "8000-8100"] }, { cidr = "::1/128" }]
        [caps.file]
        paths = ["/var/log", "/etc/hosts"]
        """
    )
    assert found.limits == Limits(2, 5, 60.0, 10.0, 128, 9, 1)
    assert (found.upgrade, DEFAULT.upgrade) == (True, False)
    assert (found.isolation, found.pushed_code) == ("weak", "frozen")
    assert not found.granted("log")
    assert [found.may_see_disk(path) for path in ("/srv", "/srv/a", "/srvx", "/")] == [True, True, False, False]
    assert found.may_see_commands()
    assert [found.may_see_unit(unit) for unit in ("nginx.service", "pg@1.service", "nginx", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert [found.may_connect_unix(path) for path in ("/run/docker.sock", "/run/docker.sock/", "/run")] == [
        True,
        False,
        False,
    ]
    assert [found.file_root(path) for path in ("/var/log/a/b", "/etc/hosts", "/etc/hosts.bak", "/var/log/../x")] == [
        "/var/log",
        "/etc/hosts",
        None,
        None,
    ]


CONNECTIONS = [
    ("tcp", "127.0.0.1", 1, True),
    ("tcp", "127.255.255.255", 65_535, True),
    ("tcp", "::1", 22, True),
    ("tcp", "10.0.0.1", 80, False),
    ("icmp", "127.0.0.1", None, True),
    ("icmp", "10.0.0.1", None, False),
    ("http", "10.1.2.3", 80, True),
    ("http", "10.1.2.3", 81, False),
    ("http", "10.1.2.3", 7999, False),
    ("http", "10.1.2.3", 8000, True),
    ("http", "10.1.2.3", 8100, True),
    ("http", "10.1.2.3", 8101, False),
    ("http", "11.0.0.0", 80, False),
    ("http", "127.0.0.1", 80, False),
    ("file", "127.0.0.1", 80, False),
    ("nonsense", "127.0.0.1", 80, False),
]


@pytest.mark.parametrize(("capability", "ip", "port", "allowed"), CONNECTIONS)
def test_may_connect(capability: str, ip: str, port: int | None, allowed: bool) -> None:
    """A grant of networks replaces the loopback default of that capability, and of no other."""
    found = policy('caps.http.networks = [{ cidr = "10.0.0.0/8", ports = [80, "8000-8100"] }]')
    assert found.may_connect(capability, ip, port) is allowed
    assert (found.connect_refusal(capability, ip, port) is None) is allowed


def test_refusals_say_what_to_write() -> None:
    """A refusal has the file, the section and a line that grants the call, and that line does so."""
    assert Policy.parse(b"", None).missing("file") == (
        f'this host does not grant "file": add to {DEFAULT_PATH}, section [caps.file]: paths = ["/var/log"]'
    )
    found = policy("")
    refusal = found.connect_refusal("http", "10.1.2.3", 443)
    assert refusal == (
        "10.1.2.3 port 443 is not granted to http: add to p.toml, section [caps.http]: "
        'networks = [{ cidr = "10.1.2.3/32", ports = [443] }]'
    )
    line = refusal.partition("[caps.http]: ")[2]
    assert policy(f"[caps.http]\n{line}\n").may_connect("http", "10.1.2.3", 443)
    assert "never" in str(policy("").connect_refusal("http", "169.254.169.254", 80))
    assert "[caps." not in str(policy("").connect_refusal("http", "169.254.169.254", 80))


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_advice_for_each_capability_works(capability: str) -> None:
    """A policy with the line that a refusal proposes grants the capability."""
    section, _, line = DEFAULT.missing(capability).partition("section ")[2].partition(": ")
    assert policy(f"{section}\n{line}\n").granted(capability)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_capability_can_be_taken_away(capability: str) -> None:
    """`allow = false` takes away each capability, also those that the default grants."""
    assert not policy(f"[caps.{capability}]\nallow = false\n").granted(capability)


def test_programs() -> None:
    """A plugin is granted by its entry, and [caps.plugin] narrows the list or takes it away."""
    text = '[plugins.a]\ncommand = ["/bin/a"]\n[plugins.b]\ncommand = ["/bin/b", "{x}"]\nslots.x = { type = "word" }\n'
    assert DEFAULT.plugin("a") is None
    assert policy(text).plugin("a") is not None
    assert policy(text).plugin("c") is None
    assert policy(text + '[caps.plugin]\nnames = ["b"]\n').plugin("a") is None
    assert policy(text + '[caps.plugin]\nnames = ["b"]\n').plugin("b") is not None
    assert policy(text + "[caps.plugin]\nallow = false\n").plugin("b") is None


def test_programs_and_plugins_are_two_lists() -> None:
    """Plugins and programs are two lists, so that no program runs for a call that its author did not mean."""
    text = '[plugins.a]\ncommand = ["/bin/a"]\n[programs.b]\ncommand = ["/bin/b"]\n'
    assert (DEFAULT.program("b"), DEFAULT.granted("program")) == (None, False)
    found = policy(text)
    assert [found.plugin(name) is not None for name in "ab"] == [True, False]
    assert [found.program(name) is not None for name in "ab"] == [False, True]
    assert policy(text + "[caps.program]\nallow = false\n").program("b") is None
    assert policy(text + '[caps.program]\nnames = ["c"]\n').program("b") is None


FAULTS = [
    ("x = 1", "p.toml: x is not a setting; allowed here: isolation, pushed_code, one_shot, limits, upgrade, shell, caps, plugins, programs"),
    ("[caps.fil]\n", "p.toml: caps.fil is not a setting; allowed here: host, cpu, mem, load, disk_io, net_io, kernel, state, log, "
     "crypto, disk, procs, tcp, udp, icmp, tls, http, dns, file, unix, systemd, journal, plugin, program"),
    ("[caps.http]\nnetwork = []\n", "p.toml: caps.http.network is not a setting; allowed here: allow, networks, names"),
    ("[limits]\nparallel = 0\n", "p.toml: limits.parallel must be a whole number from 1 to 256"),
    ("[limits]\nparallel = 257\n", "p.toml: limits.parallel must be a whole number from 1 to 256"),
    ("[limits]\nparallel = true\n", "p.toml: limits.parallel must be a whole number from 1 to 256"),
    ("[limits]\ntimeout_max = true\n", "p.toml: limits.timeout_max True is not a duration: write 500ms, 30s, 5m, 1h or 2d"),
    ('[limits]\ntimeout_max = "2h"\n', "p.toml: limits.timeout_max must be from 1s to 3600s"),
    ('isolation = "none"', "p.toml: isolation must be one of strong, weak"),
    ('one_shot = "any"', "p.toml: one_shot must be one of signed, refuse"),
    ('pushed_code = "yes"', "p.toml: pushed_code must be one of signed, frozen, refuse"),
    ("caps = 1", "p.toml: caps must be a table, [caps]"),
    ("[caps]\nfile = 1", "p.toml: caps.file must be a table, [caps.file]"),
    ('[caps.file]\npaths = "/var"', "p.toml: caps.file.paths must be a list of at most 1000 entries"),
    ('[caps.file]\npaths = ["var"]', "p.toml: caps.file.paths has 'var', which is not an absolute path without . and .."),
    ('[caps.file]\npaths = ["/a/../b"]', "p.toml: caps.file.paths has '/a/../b', which is not an absolute path without . "
     "and .."),
    ('[caps.tcp]\nnetworks = ["10.0.0.0/8"]', 'p.toml: caps.tcp.networks is a list of { cidr = "10.0.0.0/8", ports = [443, '
     '"8000-8100"] }; ports may be left out'),
    ('[caps.tcp]\nnetworks = [{ cidr = "10.0.0.1/8" }]', "p.toml: caps.tcp.networks has a cidr that is not a network: 10.0.0.1/8 has "
     "host bits set"),
    ('[caps.tcp]\nnetworks = [{ cidr = "10.0.0.0/8", ports = [0] }]', "p.toml: caps.tcp.networks has the port 0; ports are 1 "
     "to 65535, the lower one first"),
    ('[caps.tcp]\nnetworks = [{ cidr = "10.0.0.0/8", ports = ["9-8"] }]', "p.toml: caps.tcp.networks has the port '9-8'; "
     "ports are 1 to 65535, the lower one first"),
    ('[caps.tcp]\nnetworks = [{ cidr = "10.0.0.0/8", ports = ["http"] }]', "p.toml: caps.tcp.networks has the port 'http'; a "
     'port is 443 or "8000-8100"'),
    ('[plugins.a]\ncommand = ["a"]', "p.toml: plugins.a.command must begin with the absolute path of a program"),
    ("[plugins.a]\n", "p.toml: plugins.a.command must begin with the absolute path of a program"),
    ('[plugins.a]\ncommand = ["/a", "{x}"]', "p.toml: plugins.a.command names a slot that is missing from "
     "[plugins.a.slots]: x"),
    ('[plugins.a]\ncommand = ["/a"]\nslots.x.type = "word"', "p.toml: plugins.a.command names no slot of "
     "[plugins.a.slots]: x"),
    ('[plugins.a]\ncommand = ["/a", "{x}"]\nslots.x = {}', "p.toml: plugins.a.slots.x needs a type: one of percent, integer, "
     "number, enum, path, host, word"),
    ('[plugins.a]\ncommand = ["/a", "{x}"]\nslots.x.type = "enum"', "p.toml: plugins.a.slots.x of type enum needs choices"),
    ('[plugins.a]\ncommand = ["/a", "{x}"]\nslots.x.type = "path"', "p.toml: plugins.a.slots.x of type path needs paths"),
    ('[plugins.a]\ncommand = ["/a", "{x}"]\nslots.x = { type = "word", min = 1 }', "p.toml: plugins.a.slots.x.min is not a "
     "setting; allowed here: type, default"),
    ('[plugins.a]\ncommand = ["/a", "{x}"]\nslots.x = { type = "number", min = 1' + "0" * 400 + " }", "p.toml: "
     "plugins.a.slots.x.min must be a number"),
    ('[programs.a]\ncommand = ["a"]', "p.toml: programs.a.command must begin with the absolute path of a program"),
    ('[programs.a]\ncommand = ["/a", "{x}"]', "p.toml: programs.a.command names a slot that is missing from "
     "[programs.a.slots]: x"),
    ("[programs]\na = 1", "p.toml: programs.a must be a table, [programs.a]"),
    ("isolation =", "p.toml: Invalid value (at end of document)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), FAULTS)
def test_faults(text: str, sentence: str) -> None:
    """A fault is one sentence that names the file, the key, and the values allowed there."""
    with pytest.raises(PolicyError) as fault:
        policy(text)
    assert str(fault.value) == sentence


def test_no_utf8() -> None:
    """A policy that is no UTF-8 is refused."""
    with pytest.raises(PolicyError, match="UTF-8"):
        Policy.parse(b"# \xff", "p.toml")


def test_the_digest_is_of_the_meaning() -> None:
    """Policies that allow the same have one digest, whatever the path and the spelling are, and others have another."""
    a = Policy.parse(b'[caps.file]\npaths = ["/var/log"]\n', "a.toml")
    b = Policy.parse(b'# a comment\ncaps.file.paths = [ "/var/log/" ]', "b.toml")
    assert a.digest == b.digest
    assert len(a.digest) == 64
    others = [
        policy(""),
        policy('caps.file.paths = ["/var/lo"]'),
        policy('caps.tcp.networks = [{cidr = "10.0.0.0/8"}]'),
        policy('caps.tcp.networks = [{cidr = "10.0.0.0/8", ports = [1]}]'),
        policy('[plugins.a]\ncommand = ["/a"]'),
        policy('[plugins.a]\ncommand = ["/a", "b"]'),
        policy('[programs.a]\ncommand = ["/a"]'),
        policy("[caps.kernel]\nallow = false"),
        policy("limits.calls = 3"),
    ]
    assert len({found.digest for found in [a, *others]}) == 10


@pytest.mark.parametrize(
    ("text", "isolation", "accepted"),
    [
        ("", "strong", True),
        ("", "weak", False),
        ('isolation = "weak"', "weak", True),
        ('isolation = "weak"', "strong", True),
        ('pushed_code = "refuse"', "strong", False),
        ('pushed_code = "frozen"', "strong", True),
    ],
)
def test_pushed_code(text: str, isolation: str, accepted: bool) -> None:
    """Pushed code runs where it can be confined, or where the policy allows weak isolation."""
    assert (policy(text).pushed_code_refusal(isolation) is None) is accepted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", None),
        ('one_shot = "signed"', None),
        ('one_shot = "refuse"', 'p.toml says one_shot = "refuse"'),
        ('pushed_code = "frozen"', 'p.toml says pushed_code = "frozen"'),
        ('pushed_code = "refuse"\none_shot = "signed"', 'p.toml says pushed_code = "refuse"'),
    ],
)
def test_code_that_is_in_no_set(text: str, why: str | None) -> None:
    """One-off code is allowed like pushed code, and refused wherever new code is."""
    found = policy(text).one_off_refusal()
    assert found is None if why is None else str(found).startswith(why)


# ------------------------------------------------------------------------------------------------ the file itself


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text("[limits]\nparallel = 3\n")
    path.chmod(0o644)
    return path


def test_load(file: Path) -> None:
    """A file of the agent's user that no other user can write is loaded."""
    found = Policy.load(file)
    assert (found.path, found.limits.parallel) == (str(file), 3)


@pytest.mark.adversary(31)
@pytest.mark.parametrize(("mode", "trusted"), [(0o644, True), (0o600, True), (0o664, False), (0o646, False)])
def test_who_may_write_it(file: Path, mode: int, trusted: bool) -> None:
    """A policy that its group or others can write is refused, and they may read it."""
    file.chmod(mode)
    if trusted:
        assert Policy.load(file).limits.parallel == 3
    else:
        with pytest.raises(PolicyError, match=f"can be written by others .mode {mode:04o}.: chmod go-w {file}"):
            Policy.load(file)


def test_a_folder_that_others_can_write(file: Path) -> None:
    """A policy in a folder that others can write is refused, because they could replace it."""
    file.parent.chmod(0o777)
    with pytest.raises(PolicyError, match=f"{file.parent} can be written by others"):
        Policy.load(file)
    file.parent.chmod(0o1777)
    assert Policy.load(file).limits.parallel == 3


def test_links_are_followed_and_judged(file: Path, tmp_path: Path) -> None:
    """A link is followed, and the file that it leads to is judged."""
    (tmp_path / "link.toml").symlink_to("policy.toml")
    assert Policy.load(tmp_path / "link.toml").limits.parallel == 3
    file.chmod(0o666)
    with pytest.raises(PolicyError, match="can be written by others"):
        Policy.load(tmp_path / "link.toml")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    with pytest.raises(PolicyError, match="too many links"):
        Policy.load(tmp_path / "loop.toml")


def test_a_file_of_somebody_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that belongs to another user than root or the agent's is refused."""
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(PolicyError, match="belongs to user"):
        Policy.load(file)


def test_files_that_cannot_be(tmp_path: Path) -> None:
    """A missing file, a folder and a file that is too large are refused, each with a sentence."""
    with pytest.raises(PolicyError, match=r"missing.toml cannot be read: No such file"):
        Policy.load(tmp_path / "missing.toml")
    with pytest.raises(PolicyError, match="cannot be read: Is a directory"):
        Policy.load(tmp_path)
    large = tmp_path / "large.toml"
    large.write_text("#" * 1_048_577)
    with pytest.raises(PolicyError, match="larger than"):
        Policy.load(large)


def test_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy at the default path counts if it exists, and the default policy otherwise."""
    monkeypatch.setattr("equus.policy.policy.DEFAULT_PATH", tmp_path / "policy.toml")
    assert Policy.load() == Policy.parse(b"", None)
    (tmp_path / "policy.toml").write_text("[limits]\ncalls = 7\n")
    assert Policy.load().limits.calls == 7


@pytest.mark.parametrize(("written", "meant"), [("5", '"5"'), ("2.5", '"2.5"'), ("true", '"true"')])
def test_a_text_that_was_written_as_a_number(written: str, meant: str) -> None:
    """A number in the place of a text is refused with the quoted text to write (J16)."""
    text = f'[plugins.a]\ncommand = ["/a", "{{x}}"]\nslots.x = {{ type = "number", default = {written} }}'
    with pytest.raises(PolicyError, match=f"slots.x.default must be a text in quotes: write {meant}"):
        policy(text)
