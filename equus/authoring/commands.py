"""Define the commands for authors of checks: `equus run`, `equus test`, `equus lint`. Prints and sets exit statuses."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import helen_checks
from equus.authoring.lint import LONGEST_TEXT, FileReport, lint_files
from equus.authoring.lint_rules import ERROR, Problem, nearest
from equus.code.check_files import SUFFIX, CheckFiles, FolderError, read_check_files
from equus.policy.policy import PolicyError
from equus.secrets.references import Resolved, Secrets, SecretsError
from equus_protocol.plugin_output import plugin_output
from equus_protocol.results import UNKNOWN, parse
from groundwork.counts import count
from groundwork.terminal import echo, echo_json

if TYPE_CHECKING:  # the sandbox and what it needs are half of all that is imported: `lint --no-tests` runs nothing
    from equus.authoring.test_runner import Outcome

_FOLDER = click.Path(file_okay=False, path_type=Path)
_CHECKS = click.option(
    "--checks",
    type=_FOLDER,
    envvar="EQUUS_CHECKS",
    default=helen_checks.FOLDER,
    help="The folder of checks; default: the shipped ones.",
)
_OUTPUT = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="Text for people, or JSON for programs."
)


def _test_runner() -> Any:
    """Return the module that runs checks, imported now: Helen waits for `equus lint` with each save of a check."""
    return importlib.import_module("equus.authoring.test_runner")


class PluginCommand(click.Command):
    """Makes a command a Nagios plugin: wrong usage exits with UNKNOWN (3), since 2 would be read as critical."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line. Raises click.UsageError with the exit status UNKNOWN."""
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            error.exit_code = UNKNOWN  # type: ignore[misc]  # of this one error, not of its class
            raise


def _unknown(text: str) -> click.exceptions.Exit:
    """Print an error on stdout, where monitoring cores read a plugin's output, and return the exit."""
    echo(f"UNKNOWN: {text}")
    return click.exceptions.Exit(UNKNOWN)


@click.command(cls=PluginCommand)
@click.argument("check")
@click.option(
    "--args", "arguments", default="{}", metavar="JSON", help='The arguments as JSON, such as \'{"path": "/srv"}\'.'
)
@_CHECKS
@click.option("--policy", type=click.Path(path_type=Path), help="The policy file; default /etc/equus/policy.toml.")
@click.option(
    "--secrets", type=click.Path(path_type=Path), help="The file of secrets; default /etc/equus/secrets.toml."
)
@click.option("--state", type=_FOLDER, help="The folder that keeps host.state between runs; default: it is not kept.")
@_OUTPUT
@click.pass_context
def run(
    ctx: click.Context,
    check: str,
    arguments: str,
    checks: Path,
    policy: Path | None,
    secrets: Path | None,
    state: Path | None,
    output: str,
) -> None:
    """Run one CHECK on this machine, without a server.

    CHECK is a name, or the path of a .lua file. The output is that of a Nagios plugin. The exit status is the check's
    status: 0 ok, 1 warning, 2 critical, 3 unknown or wrong usage.
    \f

    Raises click's Exit with that status.
    """
    if check.endswith(SUFFIX):
        if not Path(check).exists():
            raise _unknown(f"{check} does not exist")
        checks, check = Path(check).parent, Path(check).name.removesuffix(SUFFIX)
    try:
        files = read_check_files(checks, tests=False)
    except FolderError as error:
        raise _unknown(str(error)) from None
    if check not in files.checks:
        raise _unknown(f"there is no check {check} in {checks}{_near(check, files)}")
    try:
        args = _with_secrets(check, arguments.encode("utf-8", "surrogateescape"), secrets)
        blob = _test_runner().run_once(files, check, args, policy, state, _log)
    except (PolicyError, SecretsError) as error:
        raise _unknown(str(error)) from None
    result = parse(blob)
    if output == "json":
        echo_json(json.loads(blob.decode("utf-8", "replace")))
    else:
        echo(plugin_output(result))
    ctx.exit(result.status)


def _with_secrets(check: str, arguments: bytes, path: Path | None) -> Resolved:
    """Put secrets into the arguments. Their file, which root owns, is read only if an argument names one."""
    if b'"secret"' not in arguments:
        return Resolved(arguments)
    known = Secrets(path, os.environ)
    known.read()
    resolved = known.resolve(check, arguments)
    if isinstance(resolved, str):
        raise SecretsError(resolved)
    return resolved


def _log(_check: str, text: str) -> None:
    echo(f"log: {text}", err=True)


def _near(check: str, files: CheckFiles) -> str:
    fault = files.faults.get(f"{check}{SUFFIX}")
    if fault:
        return f": {fault}"
    return nearest(check, files.checks) or f"; there is {', '.join(sorted(files.checks)) or 'none'}"


def _read(folder: Path) -> CheckFiles:
    try:
        return read_check_files(folder)
    except FolderError as error:
        raise click.UsageError(str(error)) from None


@click.command()
@click.argument("names", nargs=-1, metavar="[CHECK]...")
@_CHECKS
def test(names: tuple[str, ...], checks: Path) -> None:
    """Run the recorded tests of the CHECKs, or of all checks. The sandbox is that of an agent.

    The exit status is 0 if all pass, 1 if one fails or there are none, 2 for wrong usage.
    \f

    Raises click's Exit with that status, or UsageError.
    """
    files = _read(checks)
    for name in names:
        if name not in files.checks:
            raise click.UsageError(f"there is no check {name} in {checks}{_near(name, files)}")
        if files.tests(name) is None:
            raise click.UsageError(f"{checks / 'tests' / name}.lua does not exist: {name} has no tests")
    try:
        outcomes = _test_runner().run_tests(files, names or sorted(files.checks))
    except PolicyError as error:
        raise click.UsageError(str(error)) from None
    if not outcomes:
        echo(f"no tests: none of {count(len(files.checks), 'check')} in {checks} has a file tests/NAME.lua", err=True)
        raise click.exceptions.Exit(1)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        echo(_failure(checks, outcome))
    tested = len({outcome.check for outcome in outcomes})
    echo(f"{len(outcomes) - len(failed)} of {len(outcomes)} tests of {count(tested, 'check')} pass")
    raise click.exceptions.Exit(1 if failed else 0)


def _failure(folder: Path, outcome: Outcome) -> str:
    faults = "\n".join(f"  {fault}" for fault in outcome.faults)
    return f"{folder / 'tests' / outcome.check}{SUFFIX}:{outcome.line}: {outcome.check}: {outcome.name}\n{faults}"


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|DIR]...")
@_CHECKS
@click.option("--tests/--no-tests", default=True, help="Run the recorded tests, too (default: yes).")
@_OUTPUT
def lint(paths: tuple[Path, ...], checks: Path, tests: bool, output: str) -> None:
    """Find mistakes in checks, libraries and tests.

    The exit status is 0 without errors (there may be warnings), 1 with errors, 2 if a folder or file can't be read.
    \f

    Raises click's Exit with that status, or UsageError.
    """
    reports: dict[str, FileReport] = {}
    places: dict[str, Path] = {}
    outcomes: list[Outcome] = []
    try:
        for path in paths or (checks,):
            for name, report in _lint_path(path, tests, outcomes).items():
                key = name if len(paths) <= 1 else str(path / name if path.is_dir() else path)
                reports[key] = report
                places[key] = path / name if path.is_dir() else path
    except FolderError as error:
        if output == "json":
            echo_json({"files": {}, "error": str(error)})
        raise click.UsageError(str(error)) from None
    if output == "json":
        listed = {name: report.document() for name, report in reports.items()}
        echo_json({"files": listed, "tests": [outcome.document() for outcome in outcomes]})
    else:
        _print_reports(reports, places)
    raise click.exceptions.Exit(0 if all(report.good for report in reports.values()) else 1)


def _lint_path(path: Path, tests: bool, outcomes: list[Outcome]) -> dict[str, FileReport]:
    """Lint a folder, or one file with the libraries beside it. Return the reports by file name.

    The outcomes of recorded tests are added to `outcomes`.
    """
    if not path.exists():
        raise FolderError(f"{path} does not exist")
    folder = path if path.is_dir() else path.parent
    if not path.is_dir() and folder.name in ("lib", "tests"):
        folder = folder.parent
    files = read_check_files(folder, tests)
    reports = lint_files(files.files)
    for name, fault in files.faults.items():
        reports[name] = FileReport("", None, (Problem(1, ERROR, fault),))
    wanted = list(reports) if path.is_dir() else [path.relative_to(folder).as_posix()]
    if not set(wanted) <= set(reports):
        raise FolderError(f"{path} is no file of a check: NAME{SUFFIX}")
    if tests:
        outcomes += _add_tests(reports, files, [name for name in wanted if "/" not in name])
    return {name: reports[name] for name in wanted}


def _add_tests(reports: dict[str, FileReport], files: CheckFiles, names: list[str]) -> list[Outcome]:
    """Run the tests of checks without errors, and return the outcomes.

    A test that fails becomes an error of its check.
    """
    checks = [name.removesuffix(SUFFIX) for name in names if reports[name].table is not None and reports[name].good]
    outcomes: list[Outcome]
    try:
        outcomes = _test_runner().run_tests(files, checks)
    except PolicyError as error:
        raise FolderError(str(error)) from None
    for outcome in outcomes:
        if not outcome.passed:
            name = f"{outcome.check}{SUFFIX}"
            text = f"test {outcome.name!r} (tests/{name}:{outcome.line}) fails: {'; '.join(outcome.faults)}"
            reports[name] = reports[name].with_problem(Problem(1, ERROR, text))
    return outcomes


def _print_reports(reports: dict[str, FileReport], places: dict[str, Path]) -> None:
    errors = warnings = 0
    for name, report in sorted(reports.items()):
        for problem in report.problems:
            is_error = problem.severity == ERROR
            errors, warnings = errors + is_error, warnings + (not is_error)
            shown = problem.text[:LONGEST_TEXT]
            text = shown if is_error else f"{problem.severity}: {shown}"
            echo(f"{places[name]}:{problem.line}: {text}".encode("utf-8", "replace"))
    echo(f"{count(len(reports), 'file')}, {count(errors, 'error')}, {count(warnings, 'warning')}", err=True)
