"""How the suite is shared out among processes (`pytest -n 3`): a file is one piece, and so is all that needs Spark."""

from __future__ import annotations

import pytest

ONE_PIECE = ("pipeline",)  # folders whose files share something dear: a Spark of their own would cost 10 s each


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long pieces first, or one process would still be at them when the others have nothing left to do."""
    for item in items:
        room = item.path.parent.name
        item.add_marker(pytest.mark.xdist_group(room if room in ONE_PIECE else str(item.path)))
    items.sort(key=lambda item: item.path.parent.name not in ONE_PIECE)  # stable: else as collected
