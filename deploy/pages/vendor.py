"""Renews the files of others that pages serve: packs them from npm, bundles them with esbuild, and writes their sums.

    ./dev vendor                    make all files anew from the versions of VENDOR.toml, and compare
    ./dev vendor uplot 1.6.33       take another version of a package

Needs npm on this machine; users and tests need neither, since what this makes is committed. VENDOR.toml says of each
file which packages at which versions are in it, by the sums that npm keeps of them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tomlkit
from attrs import frozen

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "helen" / "web" / "pages" / "static" / "vendor"
FOR_TESTS = ROOT / "tests" / "helen" / "web" / "pages" / "vendor"
ESBUILD = "esbuild"
EDITOR = """
export { EditorState, StateEffect, StateField, Compartment } from "@codemirror/state";
export { EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, drawSelection }
  from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { StreamLanguage, syntaxHighlighting, HighlightStyle, indentUnit, bracketMatching } from "@codemirror/language";
export { lua } from "@codemirror/legacy-modes/mode/lua";
export { tags } from "@lezer/highlight";
export { setDiagnostics, lintGutter, lintKeymap } from "@codemirror/lint";
export { autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
export { searchKeymap, highlightSelectionMatches, search } from "@codemirror/search";
export { unifiedMergeView, MergeView } from "@codemirror/merge";
"""


@frozen
class Vendored:
    """Describes one file that is made of packages. `entry` is bundled; where it is empty, `copied` is taken as is."""

    packages: tuple[str, ...]
    entry: str = ""
    copied: str = ""
    folder: Path = SHIPPED


FILES = {
    "idiomorph.js": Vendored(("idiomorph",), 'export { Idiomorph } from "idiomorph/dist/idiomorph.esm.js";'),
    "uplot.js": Vendored(("uplot",), 'export { default } from "uplot";'),
    "uplot.css": Vendored(("uplot",), copied="uplot/dist/uPlot.min.css"),
    "codemirror.js": Vendored(
        ("@codemirror/autocomplete", "@codemirror/commands", "@codemirror/language", "@codemirror/legacy-modes",
         "@codemirror/lint", "@codemirror/merge", "@codemirror/search", "@codemirror/state", "@codemirror/view",
         "@lezer/highlight"), EDITOR,
    ),
    "axe.js": Vendored(("axe-core",), copied="axe-core/axe.min.js", folder=FOR_TESTS),
}  # fmt: skip


def main(arguments: list[str]) -> None:
    """Make all files, with another version of one package if it is named."""
    wanted = {name: str(each["version"]) for name, each in _listed().get("package", {}).items()}
    if arguments:
        name, version = arguments
        if name not in {ESBUILD, *(name for each in FILES.values() for name in each.packages)}:
            raise SystemExit(f"vendor: no file is made of {name}")
        wanted[name] = version
    with tempfile.TemporaryDirectory(prefix="vendor-") as folder:
        locked = _installed(Path(folder), wanted)
        made = {name: _made(Path(folder), name, each, locked) for name, each in FILES.items()}
    _write(made, locked)


def _listed() -> dict[str, Any]:
    path = SHIPPED / "VENDOR.toml"
    return dict(tomlkit.parse(path.read_text()).unwrap()) if path.exists() else {}


def _installed(folder: Path, wanted: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Install all packages without their scripts; returns what npm locked, by the name of the package."""
    names = sorted({ESBUILD, *(name for each in FILES.values() for name in each.packages)})
    (folder / "package.json").write_text(
        json.dumps({"private": True, "dependencies": {name: wanted.get(name, "latest") for name in names}})
    )
    _run(folder, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
    lock = json.loads((folder / "package-lock.json").read_text())["packages"]
    return {path.removeprefix("node_modules/"): each for path, each in lock.items() if path}


def _made(folder: Path, name: str, file: Vendored, locked: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Make one file and its licence; returns what VENDOR.toml says of it."""
    file.folder.mkdir(parents=True, exist_ok=True)
    target = file.folder / name
    if file.entry:
        entry, report = folder / f"entry-{name}", folder / f"{name}.json"
        entry.write_text(file.entry)
        _run(folder, str(folder / "node_modules" / ".bin" / "esbuild"), entry.name, "--bundle", "--minify",
             "--format=esm", "--target=es2022", "--legal-comments=none", f"--outfile={target}",
             f"--metafile={report}")  # fmt: skip
        packages = sorted({_package_of(path) for path in json.loads(report.read_text())["inputs"]} - {""})
    else:
        shutil.copyfile(folder / "node_modules" / file.copied, target)
        packages = list(file.packages)
    licence = "".join(f"== {each}\n\n{_licence(folder, each)}\n" for each in packages)
    (file.folder / f"LICENSE.{target.stem}").write_text(licence)
    return {
        "sha256": hashlib.sha256(target.read_bytes()).hexdigest(),
        "folder": str(file.folder.relative_to(ROOT)),
        "packages": packages,
        "bundled": bool(file.entry),
        "licences": sorted({locked[each].get("license", "?") for each in packages}),
    }


def _package_of(path: str) -> str:
    """Return the package that a file under node_modules belongs to; empty for a file that is in none."""
    parts = path.split("/")
    if parts[0] != "node_modules":
        return ""
    return "/".join(parts[1:3]) if parts[1].startswith("@") else parts[1]


def _licence(folder: Path, package: str) -> str:
    found = sorted((folder / "node_modules" / package).glob("LICENSE*"))
    if not found:
        raise SystemExit(f"vendor: {package} has no licence file")
    return found[0].read_text()


def _write(made: dict[str, dict[str, Any]], locked: dict[str, dict[str, Any]]) -> None:
    """Write VENDOR.toml: each file, and each package with its version and the sum of its archive."""
    document = tomlkit.document()
    document.add(
        tomlkit.comment("Written by `./dev vendor`. Files of others that pages serve, and where they are from.")
    )
    document["file"] = made
    used = sorted({ESBUILD, *(name for each in made.values() for name in each["packages"])})
    document["package"] = {
        name: {"version": locked[name]["version"], "integrity": locked[name]["integrity"]} for name in used
    }
    (SHIPPED / "VENDOR.toml").write_text(tomlkit.dumps(document))


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"vendor: {' '.join(command[:2])}: {done.stderr.strip()[-2000:]}")


if __name__ == "__main__":
    main(sys.argv[1:])
