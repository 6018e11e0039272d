"""`scale0ctl` without a broker."""

from __future__ import annotations

from click.testing import CliRunner

from scale0.ctl import main


def test_keygen_makes_its_folder(tmp_path):
    """0700, with what is above it, since a secret will lie there; one that is there stays as it is."""
    folder = tmp_path / "etc" / "scale0"
    result = CliRunner().invoke(main, ["keygen", "b1", "--out", str(folder)])
    assert (result.exit_code, sorted(path.name for path in folder.iterdir())) == (0, ["b1.pub.key", "b1.secret"])
    assert [(path.stat().st_mode & 0o777) for path in (folder, folder / "b1.secret")] == [0o700, 0o600]
    folder.chmod(0o755)
    assert CliRunner().invoke(main, ["keygen", "b2", "--out", str(folder)]).exit_code == 0
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_cannot_be(tmp_path):
    """A sentence with the place."""
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["keygen", "b1", "--out", str(tmp_path / "file" / "deep")])
    assert (result.exit_code, "scale0ctl: " in result.output, "Traceback" in result.output) == (1, True, False)
