"""Which Helens spoke version 2, across starts, and what is said of one that speaks version 1 again."""

import json
from types import SimpleNamespace

import pytest

from equus.code.news import AGE_FILE, FILE, News
from equus.code.version_2_helens import SURE_AFTER, Version2Helens

HELEN = "helen:4400"


class Stage:
    """Hold an agent's news in a folder, written at once, at a time that the test sets."""

    def __init__(self, folder):
        self.folder, self.now = folder, 0.0
        self.news = News(lambda: 1e9 + self.now, lambda: self.now)
        self.updater = SimpleNamespace(news=self.news, is_local=False, stale=self.news.stale)

    def start(self):
        """Return what a start of the agent makes of the folder."""
        return Version2Helens(
            self.folder, self.updater, lambda path, content: path.write_bytes(content), lambda: self.now
        )

    def connection(self, speaks_v2=False, alive=True):
        """Return a connection that began at 0."""
        return SimpleNamespace(began=0.0, alive=alive, helen=HELEN, conversation=SimpleNamespace(speaks_v2=speaks_v2))


def test_a_helen_is_remembered_across_starts(tmp_path):
    """A Helen that refuses version 2 now is remembered, and that is kept for `loaded`."""
    stage = Stage(tmp_path)
    stage.start().add(HELEN)
    assert json.loads((tmp_path / FILE).read_bytes()) == [HELEN]
    helens = stage.start()
    helens.greeted(HELEN, 2)
    helens.greeted("another:4400", 1)
    assert stage.news.withheld == {}
    helens.greeted(HELEN, 1)
    assert stage.news.withheld == {HELEN: "helen:4400 spoke version 2 before and refuses it now: no code comes from it"}


@pytest.mark.parametrize(
    ("age", "speaks_v2", "alive", "is_told"),
    [
        (SURE_AFTER, False, True, True), (SURE_AFTER - 0.1, False, True, False),
        (SURE_AFTER, True, True, False), (SURE_AFTER, False, False, False),
    ],
)  # fmt: skip
def test_a_helen_that_speaks_version_1_now(tmp_path, age, speaks_v2, alive, is_told):
    """Such a Helen has a minute to say something of version 2."""
    stage = Stage(tmp_path)
    helens = stage.start()
    helens.add(HELEN)
    stage.now = age
    helens.look_at(stage.connection(speaks_v2, alive))
    text = "helen:4400 spoke version 2 before and speaks version 1 now: no code comes from it"
    assert stage.news.withheld == ({HELEN: text} if is_told else {})


@pytest.mark.parametrize(("is_local", "is_written"), [(False, True), (True, False)])
def test_the_age_of_the_news_is_kept(tmp_path, is_local, is_written):
    """An agent with checks of its own has no news."""
    stage = Stage(tmp_path)
    stage.updater.is_local = is_local
    helens = stage.start()
    stage.now = 7_200.0
    helens.look_at_age()
    assert (tmp_path / AGE_FILE).exists() == is_written
