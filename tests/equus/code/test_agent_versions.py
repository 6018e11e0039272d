"""Test a newer Equus in the manifest: it is unpacked, tried out in real processes, and kept if it works."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.defer import Deferred, succeed

import equus
import equus_protocol
import groundwork
from equus.code import agent_versions, launcher
from equus.code.agent_upgrade import Upgrader
from equus.code.agent_versions import MAX_STARTS, AgentVersions, UpgradeError, UpgradeState, is_newer, parse_version
from equus.policy.policy import Policy, PolicyInForce
from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.manifest import ManifestRefused, build, entry, sign

NAME = "helen_equus-{}-py3-none-any.whl"
PATIENCE = 60.0  # seconds for anything on a busy machine
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def zipped(files):
    """Return a zip archive of these files; a ZipInfo as name keeps its own attributes."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return held.getvalue()


def wheel(version, **changes):
    """Return this agent's code as a wheel of another version; `changes` replaces the text of files of its package."""
    files = {
        f"helen_equus-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: helen-equus\nVersion: {version}\n"
    }
    for package in (equus, equus_protocol, groundwork):
        root = Path(package.__file__).parent
        for path in root.rglob("*"):
            if path.suffix in (".py", ".lua"):
                files[f"{root.name}/{path.relative_to(root)}"] = path.read_bytes()
    files |= {f"equus/{name}.py": text for name, text in changes.items()}
    return zipped(files)


# ---------------------------------------------------------------------------------------------------- installed


def test_the_metadata_is_read_again_after_an_installation_alone(tmp_path, monkeypatch):
    """The installed version is read again only after an installation, because an agent asks with each check set. "0"
    may pass.
    """
    read = []
    monkeypatch.setattr(launcher, "version", lambda name: read.append(name) or metadata.version(name))
    monkeypatch.setattr(launcher, "_read_at", ((), "0"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing.zip")])

    def install(version, at):
        for old in tmp_path.glob("*.dist-info"):
            shutil.rmtree(old)
        folder = tmp_path / f"helen_equus-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: helen-equus\nVersion: {version}\n")
        os.utime(tmp_path, (at, at))  # two installations in one tick of the clock of files are not what is tested

    assert [launcher.installed_version() for _ in range(2)] == ["0", "0"]
    install("0.7.1", 1_000)
    assert [launcher.installed_version() for _ in range(3)] == ["0.7.1"] * 3
    install("0.7.2", 2_000)
    assert [launcher.installed_version() for _ in range(3)] == ["0.7.2"] * 3
    assert len(read) == 4


# ---------------------------------------------------------------------------------------------------- on disk


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [("0.2.0", "0.1.9", True), ("0.10", "0.9.9", True), ("1", "1.0", False), ("0.1.0", "0.1.0", False),
     ("0.0.9", "0.1.0", False), ("1.0rc1", "0.1.0", False), ("2", "0+unknown", False), ("", "0", False),
     ("1..2", "0", False)],
)  # fmt: skip
def test_only_what_is_newer(version, than, newer):
    """Versions are compared number by number, and one that cannot be compared is not newer."""
    assert is_newer(version, than) is newer
    assert parse_version("1.2.3") == (1, 2, 3)


def test_a_version_is_unpacked_whole(tmp_path):
    """A version is unpacked into a folder of its own that no other user can read, and replaces an earlier copy of
    itself.
    """
    versions = AgentVersions(tmp_path)
    place = versions.install("0.2.0", {NAME.format("0.2.0"): zipped({"equus/a.py": b"x = 1", "equus/b/c.py": b""})})
    assert {str(p.relative_to(place)) for p in place.rglob("*.py")} == {"equus/a.py", "equus/b/c.py"}
    assert (place / "equus/a.py").stat().st_mode & 0o077 == 0
    assert versions.install("0.2.0", {NAME.format("0.2.0"): zipped({"d.py": b""})}) == place
    assert [p.name for p in place.iterdir()] == ["d.py"]


def link():
    found = zipfile.ZipInfo("equus/link")
    found.external_attr = 0o120777 << 16
    return found


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (NAME.format("0.2.0"), b"no zip at all", "can be unpacked"),
        (NAME.format("0.2.0"), zipped({"../evil.py": b""}), "may not lie in a folder of Python"),
        (NAME.format("0.2.0"), zipped({"/etc/evil": b""}), "may not lie in a folder of Python"),
        (NAME.format("0.2.0"), zipped({"a//b": b""}), "may not lie in a folder of Python"),
        (NAME.format("0.2.0"), zipped({"a\\..\\b": b""}), "may not lie in a folder of Python"),
        (NAME.format("0.2.0"), zipped({"x-1.data/scripts/sh": b""}), "may not lie in a folder of Python"),
        (NAME.format("0.2.0"), zipped({link(): b"/etc/passwd"}), "is not a plain file"),
        (NAME.format("0.3.0"), zipped({}), "must come as"),
        ("other-1.0-py3-none-any.whl", zipped({}), "must come as"),
        ("helen_equus-0.2.0-cp311-cp311-linux_x86_64.whl", zipped({}), "not a wheel of pure Python"),
        ("helen_equus-0.2.0.tar.gz", zipped({}), "not a wheel of pure Python"),
    ],
)
def test_what_is_not_unpacked(tmp_path, name, content, why):
    """A faulty archive is refused, and no file of it is left, inside the folder or outside."""
    with pytest.raises(UpgradeError, match=why):
        AgentVersions(tmp_path / "state").install("0.2.0", {name: content})
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_archive_that_grows(tmp_path, monkeypatch):
    """An archive is refused if it says that it unpacks to too much, and cut if it lies."""
    monkeypatch.setattr(agent_versions, "MAX_UNPACKED", 1_000)
    wheels = {NAME.format("0.2.0"): zipped({"a.py": b"0" * 1_000})}
    AgentVersions(tmp_path).install("0.2.0", wheels)
    with pytest.raises(UpgradeError, match="which is too much"):
        AgentVersions(tmp_path).install("0.2.0", {NAME.format("0.2.0"): zipped({"a.py": b"0" * 1_001})})
    monkeypatch.setattr(agent_versions, "MAX_ENTRIES", 1)
    AgentVersions(tmp_path).install("0.2.0", wheels)
    with pytest.raises(UpgradeError, match="unpacks to 2 files"):
        AgentVersions(tmp_path).install("0.2.0", {NAME.format("0.2.0"): zipped({"a.py": b"", "b.py": b""})})


def test_what_is_known_of_upgrades(tmp_path):
    """The state of upgrades has the proven and the failed version and the starts; older folders go, and a damaged file
    is empty.
    """
    versions = AgentVersions(tmp_path)
    assert versions.state() == UpgradeState()
    for version in ("0.2.0", "0.3.0"):
        versions.install(version, {NAME.format(version): zipped({})})
    versions.confirm("0.3.0")
    assert versions.state() == UpgradeState("0.3.0")
    assert {p.name for p in (tmp_path / "upgrade").iterdir()} == {"state.json", "0.3.0"}
    assert [versions.count_start(), versions.count_start()] == [1, 2]
    versions.reset_starts()
    assert versions.state().starts == 0
    versions.mark_failed("0.4.0", "no good")
    assert versions.state() == UpgradeState("0.3.0", 0, "0.4.0", "no good")
    versions.mark_failed("0.3.0", "no good either")
    assert versions.state() == UpgradeState(None, 0, "0.3.0", "no good either")
    for text in ("", "[]", "{}", '{"current": "../x", "starts": 0, "failed": null, "why": ""}'):
        (tmp_path / "upgrade" / "state.json").write_text(text)
        assert versions.state() == UpgradeState()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"A": "1"}, {"A": "1", "PYTHONPATH": "/p"}),
        ({"PYTHONPATH": "/own"}, {"PYTHONPATH": "/p:/own"}),
        ({"PYTHONPATH": "/old:/own", "EQUUS_RUNS": "0.2", "EQUUS_BASE_PYTHONPATH": "/own"}, {"PYTHONPATH": "/p:/own"}),
        ({"EQUUS_LOADED_FD": "5"}, {"PYTHONPATH": "/p"}),
    ],
)
def test_the_path_of_a_version(given, expected):
    """A version's path comes first in PYTHONPATH instead of the one before, and is taken out again."""
    made = launcher.environment_of(Path("/p"), "0.3", given)
    base = made.pop("EQUUS_BASE_PYTHONPATH")
    assert made == expected | {"EQUUS_RUNS": "0.3"}
    again = launcher.environment_of(None, "", made | {"EQUUS_BASE_PYTHONPATH": base})
    assert again.get("PYTHONPATH", "") == base and "EQUUS_RUNS" not in again


def test_a_proven_version_that_does_not_come_up(tmp_path, monkeypatch, capsys):
    """The installed agent starts a proven version in its place, and gives it up after three starts that failed."""
    versions = AgentVersions(tmp_path)
    versions.install("99.0", {NAME.format("99.0"): zipped({})})
    versions.confirm("99.0")
    became = []
    monkeypatch.setattr(launcher, "_exec", lambda words, environment: became.append(environment["EQUUS_RUNS"]))
    launcher.start_current_version(tmp_path, False, [])
    assert became == []
    for _ in range(MAX_STARTS):
        launcher.start_current_version(tmp_path, True, [])
    assert became == ["99.0"] * MAX_STARTS
    launcher.start_current_version(tmp_path, True, [])
    assert (len(became), versions.state().failed) == (MAX_STARTS, "99.0")
    assert "99.0 is given up" in capsys.readouterr().err


def test_what_is_known_cannot_be_read(tmp_path, monkeypatch, capsys):
    """If the state of upgrades cannot be read, the installed version runs, and nothing is written over the state."""
    versions, became = AgentVersions(tmp_path), []
    versions.install("99.0", {NAME.format("99.0"): zipped({})})
    versions.confirm("99.0")
    versions.mark_failed("99.1", "no good")
    known = tmp_path / "upgrade" / "state.json"
    kept = known.rename(known.with_name("kept"))
    known.symlink_to(known.name)  # can't be opened, by root neither
    monkeypatch.setattr(launcher, "_exec", lambda words, environment: became.append(environment["EQUUS_RUNS"]))
    launcher.start_current_version(tmp_path, True, [])
    assert became == []
    assert "so the installed one runs: mend the disk, then restart it" in capsys.readouterr().err
    for write in (versions.count_start, versions.reset_starts, lambda: versions.mark_failed("99.0", "no good")):
        with pytest.raises(OSError, match="Too many levels"):
            write()
    kept.rename(known)
    assert versions.state() == UpgradeState("99.0", 0, "99.1", "no good")


# ---------------------------------------------------------------------------------------------------- whether to


def at_once(call, *arguments):
    return succeed(call(*arguments))


def considered(tmp_path, version="0.2.0", policy="[upgrade]\nallow = true\n", content=None, fetch=None):
    """Return the outcome of an offer: the version that is tried, or the trouble."""
    begun = []
    found = PolicyInForce(Policy.parse(policy.encode(), "p.toml"))
    upgrader = Upgrader(AgentVersions(tmp_path), "0.1.0", found, at_once)
    upgrader.installed.subscribe(begun.append)
    content = zipped({"equus/x.py": b""}) if content is None else content
    listed = entry(content)
    offer = {"version": version, "files": {NAME.format(version): {"sha256": listed.sha256, "size": listed.size}}}

    async def bring(sizes):
        assert sizes == {listed.sha256: listed.size}
        return {listed.sha256: content}

    Deferred.fromCoroutine(upgrader.consider(offer, fetch or bring)).addErrback(
        lambda failure: failure.raiseException()
    )
    return begun, upgrader.trouble


def test_an_offer_that_is_taken(tmp_path):
    """An offer is tried out if the policy allows it, it is newer, and it can be unpacked."""
    assert considered(tmp_path) == (["0.2.0"], None)
    assert (tmp_path / "upgrade" / "0.2.0" / "equus" / "x.py").exists()


def test_off_unless_the_policy_allows_it(tmp_path):
    """Without a permission in the policy nothing is fetched, and the report has the line that permits it."""
    begun, trouble = considered(tmp_path, policy="")
    assert (begun, trouble["reason"]) == ([], "denied")
    assert "add to p.toml, section [upgrade]: allow = true" in trouble["text"]
    assert not (tmp_path / "upgrade").exists()


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "weird"])
def test_what_is_not_newer_is_passed_over(tmp_path, version):
    """A version that is not newer is passed over, because a manifest keeps naming the version that it brought."""
    assert considered(tmp_path, version) == ([], None)


def test_what_was_undone_is_not_tried_again(tmp_path):
    """A version that was undone is not tried again, and a newer one is."""
    AgentVersions(tmp_path).mark_failed("0.2.0", "it ended with status 1")
    begun, trouble = considered(tmp_path)
    assert (begun, trouble) == (
        [],
        {"reason": "undone", "text": "Equus 0.2.0 was tried and undone: it ended with status 1"},
    )
    assert considered(tmp_path, "0.2.1")[0] == ["0.2.1"]


def test_wheels_that_are_no_good(tmp_path):
    """A wheel that cannot be used is reported, and the agent goes on."""
    assert considered(tmp_path, content=b"no zip")[1]["reason"] == "not-installed"

    async def wrong(_sizes):
        raise ManifestRefused("wrong-file", "other bytes")

    assert considered(tmp_path, fetch=wrong) == ([], {"reason": "wrong-file", "text": "other bytes"})


def test_a_frozen_host_takes_no_newer_set(memory_agent, tmp_path):
    """A policy with pushed_code = "frozen" refuses a newer set with the reason, and the default does not."""
    made = memory_agent()
    made.policy.current = Policy.parse(b'pushed_code = "frozen"\n', "p.toml")
    assert 'p.toml says pushed_code = "frozen"' in made.policy.current.newer_set_refusal()
    made.policy.current = Policy.parse(b"", "p.toml")
    assert made.policy.current.newer_set_refusal() is None


# ---------------------------------------------------------------------------------------------------- real processes


class Helen:
    """Stand in for a Helen without TLS that offers a check set with a newer agent in it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"

    def offer(self, version, content):
        name = NAME.format(version)
        listed = entry(content)
        agent = {"version": version, "files": {name: {"sha256": listed.sha256, "size": listed.size}}}
        self.blob = sign(build({}, 1, 0.0, 2_000_000_000.0, agent=agent), [KEY])
        self.files = {listed.sha256: content}

    def next_agent(self):
        """Serve one connection until it ends, or has said enough: its version, and its load reports."""
        held, _ = self.listener.accept()
        held.settimeout(PATIENCE)
        conversation, heard, reports = Conversation(Role.HELEN), "", []
        with held:
            while True:
                while (message := conversation.next_message()) is not None:
                    if isinstance(message, m.Hello):
                        heard = message.equus_version
                        held.sendall(conversation.send(m.Schedule(1, b"[]")))
                    elif isinstance(message, m.AskManifest):
                        held.sendall(conversation.send(m.Manifest(message.message_id, self.blob)))
                    elif isinstance(message, m.Fetch):
                        blob = self.files[message.sha256]
                        held.sendall(conversation.send(m.File(message.message_id, message.sha256, blob)))
                    elif isinstance(message, m.Loaded):
                        reports.append(json.loads(message.blob))
                        if self.is_enough(reports):
                            return heard, reports
                data = held.recv(65_536)
                if not data:
                    return heard, reports
                conversation.feed(data)

    is_enough = staticmethod(lambda reports: False)

    def close(self):
        self.listener.close()


@pytest.fixture
def helen():
    helen = Helen()
    yield helen
    helen.close()


@pytest.fixture
def agent(tmp_path, helen):
    """Starts an agent that trusts KEY and may upgrade; what is left of it ends with the test."""
    state = tmp_path / "state"
    state.mkdir()
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (state / "signing-keys.pem").write_bytes(pem)
    (tmp_path / "policy.toml").write_text("[upgrade]\nallow = true\n")
    started = []

    def start(main="from equus.main import main; main(prog_name='equus')"):
        flags = ["--server", helen.address, "--state", str(state), "--policy", str(tmp_path / "policy.toml")]
        words = [sys.executable, "-P", "-c", main, *flags, "--insecure-plaintext", "--name", "web-1"]
        unwanted = ("EQUUS_", "JOURNAL_STREAM")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        log = open(tmp_path / "log", "ab")  # noqa: SIM115
        with log:
            started.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log, cwd="/"))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def ended(process):
    process.terminate()
    assert process.wait(PATIENCE) == 0


@pytest.mark.integration
def test_a_good_version_is_tried_out_and_takes_over(agent, helen, tmp_path):
    """A good version is tried out and takes over under the same process id, and runs after a start of the installed
    agent.
    """
    helen.offer("0.2.0", wheel("0.2.0"))
    process = agent()
    assert helen.next_agent()[0] == "0.1.0"
    assert helen.next_agent()[0] == "0.2.0"  # the trial, a child of that process
    helen.is_enough = lambda reports: True
    heard, [report] = helen.next_agent()
    assert (heard, report["equus"], "upgrade" in report) == ("0.2.0", "0.2.0", False)
    assert b"EQUUS_RUNS=0.2.0" in Path(f"/proc/{process.pid}/environ").read_bytes()
    assert AgentVersions(tmp_path / "state").state().current == "0.2.0"
    ended(process)
    again = agent()
    assert helen.next_agent()[0] == "0.2.0"
    ended(again)
    (tmp_path / "policy.toml").write_text("")
    installed = agent()
    assert helen.next_agent()[0] == "0.1.0"
    ended(installed)


BAD = {
    "ends": ({"main": "raise SystemExit(3)\n"}, "it ended with status 3 before it had told Helen what it loaded"),
    "lacks": ({"tap": "import a_module_that_nobody_has\n"}, "it ended with status 1"),
}


@pytest.mark.integration
@pytest.mark.parametrize(("changes", "why"), BAD.values(), ids=BAD)
def test_a_bad_version_is_undone(agent, helen, tmp_path, changes, why):
    """A bad version is undone: the agent before it runs again, reports why, and does not try it once more."""
    helen.offer("0.2.0", wheel("0.2.0", **changes))
    process = agent()
    assert helen.next_agent()[0] == "0.1.0"
    helen.is_enough = lambda reports: "upgrade" in reports[-1]
    heard, reports = helen.next_agent()
    assert (heard, reports[-1]["upgrade"]["reason"]) == ("0.1.0", "undone")
    assert why in reports[-1]["upgrade"]["text"]
    assert f"Equus 0.2.0 is undone: {why}" in (tmp_path / "log").read_text()
    assert AgentVersions(tmp_path / "state").state().current is None
    ended(process)


@pytest.mark.integration
def test_a_version_that_hangs_is_undone_after_its_time(agent, helen, tmp_path):
    """A version that hangs is undone after the time for its trial, and killed if it ignores SIGTERM."""
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n"
    AgentVersions(tmp_path / "state").install("0.2.0", {NAME.format("0.2.0"): wheel("0.2.0", main=deaf)})
    helen.offer("0.2.0", wheel("0.2.0", main=deaf))
    began = time.monotonic()
    shorter = (
        "import sys; from equus.code import launcher; launcher.TRIAL_SECONDS, launcher.END_SECONDS = 2.0, 1.0;"
        f"sys.argv[1:1] = [{str(tmp_path / 'state')!r}, '0.2.0']; launcher.main()"
    )
    process = agent(shorter)
    helen.is_enough = lambda reports: "upgrade" in reports[-1]
    heard, reports = helen.next_agent()
    assert time.monotonic() - began >= 2.0
    assert heard == "0.1.0" and "within 2 s" in reports[-1]["upgrade"]["text"]
    ended(process)


@pytest.mark.integration
def test_an_agent_of_0_1_begins_a_trial_by_its_own_name_for_it(agent, helen, tmp_path):
    """An agent of version 0.1 that was upgraded on disk while it ran begins a trial with `-m equus.stage0`, which must
    exist.
    """
    AgentVersions(tmp_path / "state").install("0.2.0", {NAME.format("0.2.0"): wheel("0.2.0")})
    helen.offer("0.2.0", wheel("0.2.0"))
    process = agent(
        f"import runpy, sys; sys.argv[1:1] = [{str(tmp_path / 'state')!r}, '0.2.0'];"
        " runpy.run_module('equus.stage0', run_name='__main__')"
    )
    helen.is_enough = lambda reports: True
    assert helen.next_agent()[0] == "0.2.0"  # the trial
    assert helen.next_agent()[0] == "0.2.0"
    assert AgentVersions(tmp_path / "state").state().current == "0.2.0"
    ended(process)


@pytest.mark.integration
def test_sigterm_during_a_trial_ends_both(agent, helen, tmp_path):
    """SIGTERM during a trial ends both processes and decides nothing: the trial begins anew at the next start."""
    AgentVersions(tmp_path / "state").install("0.2.0", {NAME.format("0.2.0"): wheel("0.2.0")})
    process = agent(
        "import sys; from equus.code import launcher;"
        f" sys.argv[1:1] = [{str(tmp_path / 'state')!r}, '0.2.0']; launcher.main()"
    )
    held, _ = helen.listener.accept()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    held.close()
    assert AgentVersions(tmp_path / "state").state() == UpgradeState()
    os.close(os.open(tmp_path / "state" / "lock", os.O_RDWR))
