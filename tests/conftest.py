"""Shares the suite out among processes (`pytest -n 3 --no-loadscope-reorder`), and counts the 70 cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

pytest.register_assert_rewrite("acting", "fleet")  # of tests/stages: their assertions say what was there

# A property holds for the same inputs in each run, however slow the machine is. `--hypothesis-profile search` looks for
# inputs that no run has tried; what it finds becomes an @example.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1_000)
settings.load_profile("same")

CASES = range(1, 71)  # of docs/security.rst
LONGEST_ID = 60  # characters of a value in the name of a test
ONE_PIECE = ("pipeline",)  # folders whose files share something dear: a Spark of their own would cost 10 s each


class Pieces(LoadScopeScheduling):
    """Makes one piece of a file, for the sake of its fixtures, and of a folder of ONE_PIECE."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.split("/")[-2]
        return folder if folder in ONE_PIECE else file

    def _reschedule(self, node: Any) -> None:
        """Give work to a process that has collected: one in place of another that ended asks for it by itself."""
        if node in self.registered_collections:
            super()._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        """Give what an ended process had left to others, but not the test that ended it: it would end each of them."""
        pieces = self.assigned_work.get(node, {})
        ended_by = super().remove_node(node)
        for scope, tests in pieces.items():
            if ended_by in tests:
                tests[ended_by] = True
            if all(tests.values()):
                self.workqueue.pop(scope, None)
        return ended_by


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long texts by their argument: signatures and compressed bytes are others in each process of a run."""
    return argname if isinstance(val, str | bytes) and len(val) > LONGEST_ID else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Pieces:
    return Pieces(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long pieces first, or one process would still be at them when the others have nothing left to do."""
    items.sort(key=lambda item: item.path.parent.name not in ONE_PIECE)  # stable: else as collected
    for item in items:
        numbers = {number for mark in item.iter_markers("adversary") for number in mark.args}
        item.user_properties.extend(("adversary", number) for number in sorted(numbers))


class FolderFixtures:
    """Ends the session's fixtures of a folder with the last test of that folder.

    Otherwise a browser, a Spark, or a Helen whose agents go on running checks would take memory and processor time from
    all tests that follow. It is a plugin of its own: a conftest is not told of what a session sets up.
    """

    def __init__(self) -> None:
        self._lasting: dict[pytest.FixtureDef[Any], pytest.FixtureRequest] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
        if fixturedef.scope == "session" and fixturedef.baseid:
            self._lasting[fixturedef] = request

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        yield
        if nextitem is not None and nextitem.path.parent != item.path.parent:
            for fixture, request in list(self._lasting.items()):
                if not nextitem.nodeid.startswith(f"{fixture.baseid}/"):
                    fixture.finish(request)  # type: ignore[arg-type]  # a SubRequest, which has no public name
                    del self._lasting[fixture]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(FolderFixtures())


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Counts the cases whose tests all passed, where cases were asked for. Reports carry the numbers, also with -n."""
    if "adversary" not in config.getoption("markexpr"):
        return
    of = {
        outcome: {
            number
            for report in terminalreporter.getreports(outcome)
            for name, number in getattr(report, "user_properties", ())
            if name == "adversary"
        }
        for outcome in ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
    }
    held = of.pop("passed").difference(*of.values())
    terminalreporter.write_line(f"adversary: {len(held)} of {len(CASES)} cases")
    if missing := sorted(set(CASES) - held):
        terminalreporter.write_line(f"adversary: not held here: {', '.join(map(str, missing))}")
