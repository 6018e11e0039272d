"""How the suite is shared out among processes (`pytest -n 3 --no-loadscope-reorder`)."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ONE_PIECE = ("pipeline",)  # folders whose files share something dear: a Spark of their own would cost 10 s each


class Pieces(LoadScopeScheduling):
    """A file is one piece, for the sake of its fixtures; so is a folder of ONE_PIECE."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        room = file.split("/")[-2]
        return room if room in ONE_PIECE else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Pieces:
    return Pieces(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long pieces first, or one process would still be at them when the others have nothing left to do."""
    items.sort(key=lambda item: item.path.parent.name not in ONE_PIECE)  # stable: else as collected
