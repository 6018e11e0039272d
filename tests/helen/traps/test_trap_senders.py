"""Tests times of senders that outlive a restart of the receiver, and files of them that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import define
from click.testing import CliRunner
from trap_messages import SENDER, Clock, pdu, secure

from helen.cli.main import main
from helen.cli.traps import senders
from helen.cli.traps.listener import Counts, Listener
from helen.cli.traps.security import NotTaken, Security
from helen.cli.traps.senders import Senders, SendersUnreadable
from helen.cli.traps.trap_file import read

FILE = """
listen = "127.0.0.1:0"
[[source]]
address = "192.0.2.0/24"
[[trap]]
oid = "*"
check = "trap"
status = "warning"
"""


@define
class Disk:
    """Starts that share one file."""

    path: Path

    def start(self, now: float) -> tuple[Senders, Clock]:
        """Return senders as the next start of the receiver knows them; its clock begins anew."""
        clock = Clock()
        clock.now = now
        made = Senders(clock, self.path)
        made.load()
        return made, clock


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "senders")


def test_a_restart_knows_old_copies(disk: Disk, security: Security) -> None:
    """No copy of the last start is taken again, not even the last one; a message that the sender makes then is."""
    before, _ = disk.start(9_000.0)
    security.senders = before
    for message in (old := secure(pdu(id_=6), time=500), last := secure(pdu(), time=640)):
        security.open(message)
    before.save()
    security.senders, clock = disk.start(3.0)
    for message in (old, last):
        with pytest.raises(NotTaken, match="a time that is not now"):
            security.open(message)
    clock.now += 60
    with pytest.raises(NotTaken, match="a time that is not now"):
        security.open(secure(pdu(), time=700))
    security.open(secure(pdu(), time=701))
    security.open(secure(pdu(), time=552))  # within the window again
    security.open(secure(pdu(), boots=4, time=1))


def test_a_start_without_traps_changes_nothing(disk: Disk) -> None:
    """The file is written when something is new, and only then, however many starts there are."""
    first, _ = disk.start(9_000.0)
    first.save()
    assert not disk.path.exists()
    assert not first.is_old(SENDER, 3, 640)
    for _ in range(3):
        first.save()
        first, _ = disk.start(50.0)
        assert first.is_old(SENDER, 3, 640)
    assert disk.path.read_text() == '[["80001f8801",3,640]]'
    assert disk.path.stat().st_mode & 0o777 == 0o600


def test_a_slow_clock_of_a_sender(disk: Disk) -> None:
    """A sender that is behind by minutes after months of silence is taken, before and after a restart."""
    for _ in range(2):
        one, clock = disk.start(9_000.0)
        one.is_old(SENDER, 3, 640)
        one.save()
        clock.now += 9_000_000
        assert not one.is_old(SENDER, 3, 640 + 9_000_000 - 8_990)
        assert one.is_old(SENDER, 3, 640 + 8_990_000)
        disk.path.write_text('[["80001f8801",3,640]]')


@pytest.mark.parametrize("content", [b"\xff", b"[", b'[["zz",1,1]]', b'[["80",1]]', b"{}", b"[" * 2**20])
def test_a_file_that_is_damaged(disk: Disk, content: bytes) -> None:
    """A damaged file is told with what follows, and nothing is known; the next one that is written is good."""
    disk.path.write_bytes(content)
    one = Senders(Clock(), disk.path)
    with pytest.raises(SendersUnreadable, match=r"it is damaged.*the first message of each sender is taken"):
        one.load()
    assert not one.is_old(SENDER, 1, 1)
    one.save()
    assert disk.start(7.0)[0].is_old(SENDER, 1, 1)


def test_times_that_cannot_be(disk: Disk) -> None:
    """Times that cannot be are left out, since they would refuse a sender for ever."""
    disk.path.write_text('[["80001f8801",3,2147483648],["80001f8802",-1,5],["80001f8803",3,5]]')
    one, _ = disk.start(7.0)
    assert list(one._seen) == [bytes.fromhex("80001f8803")]


def test_senders_without_end(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The senders seen last are kept, over a start as well."""
    monkeypatch.setattr(senders, "MOST_ENGINES", 3)
    one, _ = disk.start(7.0)
    for number in (1, 2, 3, 1, 4):
        one.is_old(bytes((number,)), 1, 1)
    one.save()
    assert list(disk.start(7.0)[0]._seen) == [b"\x03", b"\x01", b"\x04"]


def test_a_disk_that_takes_nothing(tmp_path: Path, security: Security) -> None:
    """A disk that takes nothing is counted, and the file is written once it can be."""
    said: list[str] = []
    folder = tmp_path / "later"
    one = Listener(read(FILE), security, None, Counts(said.append), security.steady)  # type: ignore[arg-type]
    security.senders.path = folder / "senders"
    assert not security.senders.is_old(SENDER, 3, 7)
    one.ended.set()
    one.run()
    assert said == [f"1 times of senders not kept ({folder}/senders: No such file or directory)"]
    folder.mkdir()
    one.run()
    one.close()
    assert (folder / "senders").read_text() == '[["80001f8801",3,7]]'


def test_the_command_tells_of_a_damaged_file(tmp_path: Path) -> None:
    """The command tells of a damaged file and goes on, here to an address that it can't listen on."""
    (tmp_path / "traps.senders").write_text("[")
    (tmp_path / "named").write_text("[")
    path = tmp_path / "traps.toml"

    def run(words: str) -> str:
        path.write_text(words + FILE.replace("127.0.0.1:0", "203.0.113.7:162"))
        done = CliRunner().invoke(main, ["traps", "--file", str(path), "--state", str(tmp_path)])
        assert done.exit_code == 1
        return done.output

    assert f"the times of senders in {tmp_path}/traps.senders can't be read (it is damaged)" in run("")
    assert f"the times of senders in {tmp_path}/named can't be read" in run(f"senders = '{tmp_path}/named'")
    path.write_text("senders = 'here'" + FILE)
    done = CliRunner().invoke(main, ["traps", "--file", str(path), "--state", str(tmp_path)])
    assert (done.exit_code, "senders is 'here': write the path of a file from the root" in done.output) == (2, True)
