"""Tests discover.lua: what it asks of a host, what it makes of the answers, and that its own answer can be read."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from equus.authoring.commands import lint
from equus.authoring.commands import test as run_tests
from helen.discovery import answers
from helen.discovery.answers import Listener

PROBE = Path(answers.__file__).parent / "discover.lua"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the probe as a check with its tests."""
    made = tmp_path_factory.mktemp("probe")
    (made / "tests").mkdir()
    shutil.copy(PROBE, made)
    shutil.copy(Path(__file__).parent / "recorded.lua", made / "tests" / "discover.lua")
    return made


def test_the_recorded_hosts(folder: Path) -> None:
    """The recorded hosts are a bare one, one with servers, and one with names of any character; nothing
    else is called.
    """
    tested = CliRunner().invoke(run_tests, ["discover", "--checks", str(folder)])
    assert (tested.exit_code, tested.output) == (0, "3 of 3 tests of 1 check pass\n")


def test_it_is_a_good_check(folder: Path) -> None:
    """The linter finds no fault in the probe, so it needs what it calls and calls what it needs."""
    linted = CliRunner().invoke(lint, ["--no-tests", str(folder / "discover.lua")])
    assert (linted.exit_code, linted.stdout, linted.stderr) == (0, "", "1 file, 0 errors, 0 warnings\n")


def test_what_it_answers_is_read() -> None:
    """The answer of a recorded host is read as findings."""
    text = (
        '{"discover":1,"facilities":["zfs"],"listeners":[{"address":"0.0.0.0","fine":true,"names":["www.example.org"],'
        '"port":443,"speaks":"tls"}],"mounts":[],"notes":[],"processes":["nginx"],"services":["nginx.service"]}'
    )
    found = answers.read(text)
    assert found.listeners == (Listener(443, "localhost", "tls", True, ("www.example.org",)),)
    assert (found.services, found.processes, found.facilities) == (("nginx.service",), ("nginx",), ("zfs",))
    assert (found.count, found.left_out) == (4, 0)
