"""When an agent ends for another version of itself, and that it tells the launcher once that it works."""

import pytest
from twisted.internet.defer import succeed

from equus.code import launcher
from equus.code.restarts import Restarts


class Ended(list):
    """Keeps what `finish` and `loaded` were called with."""

    def restarts(self):
        """Return the restarts of an agent of version 1.0 that writes here."""
        return Restarts(
            "1.0", None, lambda *given: self.append(given), lambda call: succeed(call()), lambda: self.append("loaded")
        )


@pytest.fixture
def installed(monkeypatch):
    """Pretend that another version is installed than the one that runs."""
    monkeypatch.setattr(launcher, "installed_version", lambda: "1.1")


def test_another_installed_version_ends_the_agent(installed):
    """The sentence for the log names both."""
    ended = Ended()
    restarts = ended.restarts()
    restarts.look()
    assert (restarts.wants_restart, restarts.wants_trial) == (True, None)
    assert ended == [(0, "Equus 1.1 is installed and 1.0 runs: starting anew")]


def test_the_same_version_does_not(monkeypatch):
    """A reload of code alone restarts nothing."""
    monkeypatch.setattr(launcher, "installed_version", lambda: "1.0")
    ended = Ended()
    restarts = ended.restarts()
    restarts.look()
    assert (ended, restarts.wants_restart) == ([], False)


def test_an_agent_that_stops_begins_nothing(installed):
    """An agent that stops has ended for another reason, and begins neither a restart nor a trial."""
    ended = Ended()
    restarts = ended.restarts()
    restarts.stop()
    restarts.look()
    assert (ended, restarts.wants_restart) == ([], False)


def test_the_first_loaded_alone_is_reported():
    """The launcher waits for one line."""
    ended = Ended()
    restarts = ended.restarts()
    restarts.start()
    restarts.has_loaded()
    restarts.has_loaded()
    assert ended == ["loaded"]
