"""Measures how many small faults the tests of a package notice, for `./dev mutants`.

A mutant is the tree with one change: a comparison turned round, a number one off, a statement left out. Mutants are
drawn at random from a seed, one at a time put into a copy of the tree, and the package's tests run until one fails.
A mutant that no test notices survives: it asks for a test, or, if it changes nothing that can be seen, for an entry
with its reason in tests/mutants_equivalent.toml.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from attrs import define

ROOT = Path(__file__).parents[1]
EQUIVALENT = ROOT / "tests" / "mutants_equivalent.toml"
PACKAGES = (  # folders of code; the tests of each stand in the same folder under tests/
    "helen/states",
    "helen/evaluation",
    "helen/notify",
    "helen/journal",
    "helen/assignments",
    "equus_protocol",
    "equus/schedule",
    "scale0",
    "zerotask",
)
Node = TypeVar("Node", bound=ast.AST)
MINIMUM = 93  # percent that must die for exit status 0

COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
LOG = re.compile(r"(^|[._])log(ger)?\.")  # what is logged and not asserted is no fault worth a test


@define(frozen=True)
class Mutant:
    """Describes one change of one file: the bytes from `begin` to `end` become `text`."""

    file: str
    function: str  # dotted name of the function or class that it stands in; empty in the module itself
    line: int
    column: int  # in bytes, from 1
    code: str  # the line as it stands in the file
    change: str  # "old -> new", as ast.unparse writes both
    begin: int
    end: int
    text: str

    def put_into(self, source: bytes) -> bytes:
        """Return the file's content with the change made."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.change}" + (
            f"  [{self.function}]" if self.function else ""
        )


@define
class Package:
    """Describes a folder of code with the folder of its tests."""

    name: str
    files: list[str]

    def tests_for(self, file: str, root: Path) -> tuple[list[str], list[str]]:
        """Return the package's test files: those that name the mutated module, and the others, the nearest first."""
        module = file.removesuffix(".py")
        file_folder, _, stem = module.rpartition("/")
        dotted = module.replace("/", ".")

        def distance(test: Path) -> int:
            text = test.read_text()
            if "mark.integration" in text:  # seconds until its processes are up
                return 4
            if stem in test.stem:
                return 0
            return 1 if dotted in text else 2 if test.parent == root / "tests" / file_folder else 3

        every = sorted(sorted((root / "tests" / self.name).rglob("test_*.py")), key=distance)
        names = [str(each.relative_to(root)) for each in every]
        near = sum(distance(each) < 2 for each in every)
        return names[:near], names[near:]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in the order of its text."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def mutant(node: ast.expr | ast.stmt, function: str, new: ast.expr | ast.stmt) -> Mutant:
        text = ast.unparse(new)
        begin = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        code = source.splitlines()[node.lineno - 1].decode().strip()
        change = " ".join(f"{ast.unparse(node)} -> {text}".split())
        return Mutant(
            file,
            function,
            node.lineno,
            node.col_offset + 1,
            code,
            change,
            begin,
            end,
            f"({text})" if isinstance(new, ast.expr) else text,
        )

    return [mutant(node, function, new) for node, function, new in _changes(ast.parse(source), "")]


def _changes(node: ast.AST, function: str) -> Iterator[tuple[ast.expr | ast.stmt, str, ast.expr | ast.stmt]]:
    """Yield (node, function, what stands there instead) for the node and all below it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and LOG.search(ast.unparse(node.value.func)):
        return
    for old, new in _instead(node):
        yield old, function, new
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases") or isinstance(
            node, ast.JoinedStr
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg in ("repr", "init"):
                continue  # of an attribute: how it looks in a debugger, and if it could be given as well
            if isinstance(child, ast.AST) and not _is_typing(child):
                yield from _changes(child, function)


def _is_typing(node: ast.AST) -> bool:
    """Return whether only type checkers read it: `if TYPE_CHECKING:`, and a union of types."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return ast.unparse(node.right).rpartition(".")[2][0].isupper() and not ast.unparse(node.right).isupper()
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "TypeVar", "NewType")


def _instead(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Yield (this node or a part of it, what may stand in its place)."""
    match node:
        case ast.expr():
            for new in _other_expressions(node):
                yield node, new
        case ast.If(test=test) | ast.While(test=test) if not _is_turned_anyway(test):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield value, ast.Constant(None)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Expr(value=ast.Call() | ast.Await()):
            yield node, ast.Pass()
        case ast.AugAssign(op=op):
            yield node, ast.Pass()
            if type(op) in COMPUTED:
                yield node, _with(node, op=COMPUTED[type(op)]())
        case ast.Raise() | ast.Delete() | ast.Continue() | ast.Break():
            yield node, ast.Pass()
    # A slice has no place of its own in the grammar of expressions, so its bounds are the parts that change.
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):  # numbers are mutated by themselves
                yield bound, ast.BinOp(bound, ast.Add(), ast.Constant(1))


def _other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what may stand in place of this expression."""
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                yield _with(node, ops=[*ops[:index], COMPARED[type(op)](), *ops[index + 1 :]])
        case ast.BinOp(op=op) if type(op) in COMPUTED and not _is_text(node):
            yield _with(node, op=COMPUTED[type(op)]())
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.IfExp(test=test) if not _is_turned_anyway(test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
            if value:
                yield ast.Constant(value - 1)


def _with(node: Node, **fields: object) -> Node:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_turned_anyway(test: ast.expr) -> bool:
    """Return whether another mutation negates the condition: a comparison that has an opposite, or a `not` left out."""
    match test:
        case ast.Compare(ops=[op]):
            return isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False


def _is_text(node: ast.AST) -> bool:
    """Return whether it adds to or formats a literal text: another operator would raise at once, whatever is tested."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(isinstance(each, ast.JoinedStr) or _is_string(each) for each in sides)


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


@define(frozen=True)
class Equivalent:
    """Describes a mutant that changes nothing that can be seen, with the reason."""

    file: str
    function: str
    code: str
    change: str
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        """Return whether it is this mutant."""
        return (self.file, self.function, self.code, self.change) == (
            mutant.file, mutant.function, mutant.code, mutant.change
        )  # fmt: skip


def equivalents() -> list[Equivalent]:
    """Return the mutants that are written down as equivalent."""
    return [Equivalent(**each) for each in tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])]


def packages_of(arguments: list[str]) -> list[Package]:
    """Return the packages that the arguments name (all without arguments); a folder or file is a part of one.

    Raises SystemExit if an argument lies in no package.
    """
    found: dict[str, Package] = {}
    for argument in arguments or PACKAGES:
        wanted = argument.strip("/")
        name = next((each for each in PACKAGES if wanted == each or wanted.startswith(f"{each}/")), None)
        path = ROOT / wanted
        if name is None or not path.exists():
            raise SystemExit(
                f"{argument} is not in a package. Packages: {' '.join(PACKAGES)}; or name a folder or file in one."
            )
        paths = [path] if path.is_file() else sorted(path.rglob("*.py"))
        found.setdefault(name, Package(name, [])).files.extend(str(each.relative_to(ROOT)) for each in paths)
    return list(found.values())


def sample(package: Package, seed: int, count: int, known: list[Equivalent]) -> list[Mutant]:
    """Return `count` mutants of the package drawn by the seed, none of them known as equivalent."""
    every = [each for file in package.files for each in mutants_of(file, (ROOT / file).read_bytes())]
    every = [each for each in every if not any(one.covers(each) for one in known)]
    return random.Random(f"{seed} {package.files}").sample(every, min(count, len(every)))


@define
class Copy:
    """Holds a copy of the tree in which one mutant at a time lives and is tested."""

    root: Path
    log: Path

    @classmethod
    def made_in(cls, folder: Path) -> Copy:
        """Copy all files that git knows or would add."""
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True,
        ).stdout.decode().split("\0")  # fmt: skip
        root = folder / "tree"
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        return cls(root, folder / "pytest.log")

    def verdict(self, mutant: Mutant, tests: tuple[list[str], ...], limit: float) -> str | None:
        """Return how the mutant died ("by TEST", "out of time"), None if it survived all these runs of pytest.

        `limit`: seconds for each of the runs.
        """
        path = self.root / mutant.file
        source = path.read_bytes()
        try:
            self._write(path, mutant.put_into(source))
            for each in filter(None, tests):
                status = self.run(each, limit)
                if status != 0:
                    return "out of time" if status is None else f"by {self.failed()}"
        finally:
            self._write(path, source)
        return None

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        # A mutant of the same length, written in the same second, would be taken for what was compiled before.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()
        path.write_bytes(content)

    def run(self, tests: list[str], limit: float) -> int | None:
        """Return the exit status of pytest, None when the seconds of `limit` are over; what it started is killed."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--tb=no",
            "-p",
            "no:xdist",
            "--hypothesis-seed=0",
            *tests,
        ]
        path = os.pathsep.join(filter(None, [str(self.root), os.environ.get("PYTHONPATH")]))
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                command, cwd=self.root, env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def failed(self) -> str:
        """Return the test that failed in the last run, or pytest's last line."""
        lines = self.log.read_text(errors="replace").strip().splitlines() or ["nothing"]
        found = [line.split(" ")[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        return found[0] if found else lines[-1]


def measure(package: Package, mutants: list[Mutant], place: Copy, verbose: bool) -> Counter[str]:
    """Print the survivors of these mutants and return how many there are of "killed" and "survived".

    Raises SystemExit if the package's tests fail without a mutant.
    """
    began = time.monotonic()
    near, others = package.tests_for("", place.root)
    if place.run(near + others, 1800) != 0:
        raise SystemExit(f"{package.name}: its tests fail without a mutant: {place.failed()}. Mend that first.")
    limit = 3 * (time.monotonic() - began) + 20  # an endless loop is a death too; the rest is for a busy machine
    counts: Counter[str] = Counter()
    for mutant in mutants:
        death = place.verdict(mutant, package.tests_for(mutant.file, place.root), limit)
        counts["survived" if death is None else "killed"] += 1
        if death is None or verbose:
            print(f"{'SURVIVED' if death is None else 'killed'} {mutant}" + (f"  {death}" if death else ""), flush=True)
    return counts


def main(arguments: list[str]) -> int:
    """Run the command; return 1 if fewer than MINIMUM percent of the mutants die."""
    parser = argparse.ArgumentParser(prog="./dev mutants", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn (1)")
    parser.add_argument("--count", type=int, default=25, help="mutants of each package (25)")
    parser.add_argument("--list", action="store_true", help="print the mutants drawn and test nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the killed ones too, each with the test")
    parser.add_argument(
        "packages", nargs="*", metavar="PACKAGE", help=f"a folder or file in: {' '.join(PACKAGES)} (all)"
    )
    options = parser.parse_args(arguments)
    known = equivalents()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = None if options.list else Copy.made_in(Path(folder))
        for package in packages_of(options.packages):
            mutants = sample(package, options.seed, options.count, known)
            if place is None:
                print("\n".join(map(str, mutants)))
                continue
            counts = measure(package, mutants, place, options.verbose)
            print(f"{package.name}: {counts['killed']} of {counts.total()} killed", flush=True)
            total += counts
    if place is not None:
        print(f"seed {options.seed}: {total['killed']} of {total.total()} killed, {_percent(total):.1f} %")
    return 1 if _percent(total) < MINIMUM else 0


def _percent(counts: Counter[str]) -> float:
    return 100 * counts["killed"] / counts.total() if counts.total() else 100.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
