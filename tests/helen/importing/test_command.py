"""Tests `helen import`: what it writes where, what it says, and how it refuses."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from helen.cli.main import main

SAMPLES = Path(__file__).parent / "samples"


def invoke(*words: object) -> Result:
    return CliRunner().invoke(main, ["import", *map(str, words)])


def test_a_folder_is_written(tmp_path: Path) -> None:
    done = invoke("icinga2", SAMPLES / "icinga2", "--out", tmp_path / "new", "--agent", "mon-1")
    assert done.exit_code == 0, done.output
    assert "11 of 12 services of 1 host run (92 %)" in done.output
    assert "not monitor.example!icinga: its command is built into Icinga" in done.output
    names = sorted(str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*") if path.is_file())
    assert names == ["assignments.toml", "import.txt", "policy/mon-1.toml", "targets.toml"]
    assert (tmp_path / "new" / "policy" / "mon-1.toml").stat().st_mode & 0o777 == 0o600
    report = (tmp_path / "new" / "import.txt").read_text()
    assert "- monitor.example!icinga: its command is built into Icinga" in report
    assert "policy/mon-1.toml holds what goes into /etc/equus/policy.toml on mon-1" in report


def test_refusals(tmp_path: Path) -> None:
    """Nothing is written into a folder that holds something, for a source that is none, or for an odd agent."""
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").touch()
    done = invoke("nagios", SAMPLES / "objects.cache", "--out", full)
    assert (done.exit_code, "is not empty: give a new folder" in done.output) == (1, True)
    done = invoke("kuma", SAMPLES / "objects.cache", "--out", tmp_path / "new")
    assert (done.exit_code, "can't be read as a database" in done.output) == (1, True)
    done = invoke("sensu", tmp_path / "missing", "--out", tmp_path / "new")
    assert (done.exit_code, "can't be read: No such file" in done.output) == (1, True)
    done = invoke("sensu", SAMPLES / "objects.cache", "--out", tmp_path / "new", "--agent", "A B")
    assert (done.exit_code, "no name for an agent" in done.output) == (2, True)
    assert not (tmp_path / "new").exists()


def test_services_without_macros_of_the_core(tmp_path: Path) -> None:
    """Without resource.cfg the paths of plugins are unknown: each service is named."""
    done = invoke("nagios", SAMPLES / "objects.cache", "--out", tmp_path / "new")
    assert done.exit_code == 0
    assert "3 of 8 services of 1 host run (38 %)" in done.output
    assert done.output.count("$USER1$ is not known: name the file that sets it with --resources") == 5
