"""The commands for authors of checks: `equus run`, `equus test`, `equus lint`. Printing and exit statuses only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

import helen_checks
from equus.check_files import SUFFIX, CheckFiles, FolderError, read_check_files
from equus.lint import LONGEST_TEXT, FileReport, lint_files
from equus.lint_rules import ERROR, Problem, nearest
from equus.plugin_output import plugin_output
from equus.policy import PolicyError
from equus.secrets import Resolved, Secrets, SecretsError
from equus.trial import Outcome, run_once, run_tests
from equus_protocol.results import UNKNOWN, parse

_FOLDER = click.Path(file_okay=False, path_type=Path)
_CHECKS = click.option(
    "--checks",
    type=_FOLDER,
    envvar="EQUUS_CHECKS",
    default=helen_checks.FOLDER,
    help="The folder; default: those shipped.",
)
_OUTPUT = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="For people, or for programs."
)


class PluginCommand(click.Command):
    """A command that acts as a Nagios plugin: wrong usage is UNKNOWN (3), since 2 would be read as critical."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            error.exit_code = UNKNOWN  # type: ignore[misc]  # of this one error, not of its class
            raise


def _unknown(text: str) -> click.exceptions.Exit:
    """On stdout, where monitoring cores look for what a plugin says."""
    click.echo(f"UNKNOWN: {text}")
    return click.exceptions.Exit(UNKNOWN)


@click.command(cls=PluginCommand)
@click.argument("check")
@click.option("--args", "arguments", default="{}", metavar="JSON", help='The arguments, such as \'{"path": "/srv"}\'.')
@_CHECKS
@click.option("--policy", type=click.Path(path_type=Path), help="What checks may do; default /etc/equus/policy.toml.")
@click.option("--secrets", type=click.Path(path_type=Path), help="Passwords; default /etc/equus/secrets.toml.")
@click.option("--state", type=_FOLDER, help="Where host.state is kept between runs; default: nowhere.")
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
    """Run one CHECK here, no server.

    CHECK is a name, or the path of a .lua file. Prints what a Nagios plugin prints; the exit status is the state: 0 ok,
    1 warning, 2 critical, 3 unknown or wrong usage.
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
        blob = run_once(files, check, args, policy, state, _log)
    except (PolicyError, SecretsError) as error:
        raise _unknown(str(error)) from None
    result = parse(blob)
    click.echo(blob.decode("utf-8", "replace") if output == "json" else plugin_output(result))
    ctx.exit(result.status)


def _with_secrets(check: str, arguments: bytes, path: Path | None) -> Resolved:
    """Secrets are read only where the arguments name one: most people's runs have no business with root's file."""
    if b'"secret"' not in arguments:
        return Resolved(arguments)
    known = Secrets(path, os.environ)
    known.read()
    resolved = known.resolve(check, arguments)
    if isinstance(resolved, str):
        raise SecretsError(resolved)
    return resolved


def _log(_check: str, text: str) -> None:
    click.echo(f"log: {text}", err=True)


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
    """Run the recorded tests of CHECKs, or of all, in the sandbox that runs checks on an agent.

    Exit status 0 when all hold, 1 when one does not or there is none, 2 for wrong usage.
    """
    files = _read(checks)
    for name in names:
        if name not in files.checks:
            raise click.UsageError(f"there is no check {name} in {checks}{_near(name, files)}")
        if files.tests(name) is None:
            raise click.UsageError(f"{checks / 'tests' / name}.lua does not exist: {name} has no tests")
    try:
        outcomes = run_tests(files, names or sorted(files.checks))
    except PolicyError as error:
        raise click.UsageError(str(error)) from None
    if not outcomes:
        click.echo(f"no tests: none of the {len(files.checks)} checks in {checks} has a file tests/NAME.lua", err=True)
        raise click.exceptions.Exit(1)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        click.echo(_failure(checks, outcome))
    tested = len({outcome.check for outcome in outcomes})
    click.echo(f"{len(outcomes) - len(failed)} of {len(outcomes)} tests of {tested} checks pass")
    raise click.exceptions.Exit(1 if failed else 0)


def _failure(folder: Path, outcome: Outcome) -> str:
    faults = "\n".join(f"  {fault}" for fault in outcome.faults)
    return f"{folder / 'tests' / outcome.check}{SUFFIX}:{outcome.line}: {outcome.check}: {outcome.name}\n{faults}"


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|DIR]...")
@_CHECKS
@click.option("--tests/--no-tests", default=True, help="Run the recorded tests as well (the default).")
@_OUTPUT
def lint(paths: tuple[Path, ...], checks: Path, tests: bool, output: str) -> None:
    """Look for mistakes in checks.

    Exit status 0 without errors (warnings may remain), 1 with errors, 2 for a folder or file that cannot be read.
    """
    reports: dict[str, FileReport] = {}
    places: dict[str, Path] = {}
    try:
        for path in paths or (checks,):
            for name, report in _lint_path(path, tests).items():
                key = name if len(paths) <= 1 else str(path / name if path.is_dir() else path)
                reports[key] = report
                places[key] = path / name if path.is_dir() else path
    except FolderError as error:
        if output == "json":
            click.echo(json.dumps({"files": {}, "error": str(error)}))
        raise click.UsageError(str(error)) from None
    if output == "json":
        click.echo(json.dumps({"files": {name: report.document() for name, report in reports.items()}}))
    else:
        _print_reports(reports, places)
    raise click.exceptions.Exit(0 if all(report.good for report in reports.values()) else 1)


def _lint_path(path: Path, tests: bool) -> dict[str, FileReport]:
    """Reports of a folder, or of one file with the libraries beside it."""
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
        _add_tests(reports, files, [name for name in wanted if "/" not in name])
    return {name: reports[name] for name in wanted}


def _add_tests(reports: dict[str, FileReport], files: CheckFiles, names: list[str]) -> None:
    """Tests that fail become errors of the check; only checks that could run at all are tested."""
    checks = [name.removesuffix(SUFFIX) for name in names if reports[name].table is not None and reports[name].good]
    try:
        outcomes = run_tests(files, checks)
    except PolicyError as error:
        raise FolderError(str(error)) from None
    for outcome in outcomes:
        if not outcome.passed:
            name = f"{outcome.check}{SUFFIX}"
            text = f"test {outcome.name!r} (tests/{name}:{outcome.line}) fails: {'; '.join(outcome.faults)}"
            reports[name] = reports[name].with_problem(Problem(1, ERROR, text))


def _print_reports(reports: dict[str, FileReport], places: dict[str, Path]) -> None:
    errors = warnings = 0
    for name, report in sorted(reports.items()):
        for problem in report.problems:
            is_error = problem.severity == ERROR
            errors, warnings = errors + is_error, warnings + (not is_error)
            shown = problem.text[:LONGEST_TEXT]
            text = shown if is_error else f"{problem.severity}: {shown}"
            click.echo(f"{places[name]}:{problem.line}: {text}".encode("utf-8", "replace"))
    click.echo(f"{len(reports)} files, {errors} errors, {warnings} warnings", err=True)
