"""Test the check `plugin` with real programs in the real sandbox: odd output never hides a status."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import helen_checks
from equus.authoring.test_cases import metric_key
from equus.authoring.test_runner import run_once
from equus.code.check_files import read_check_files
from equus.secrets.references import Resolved

FILES = read_check_files(Path(helen_checks.FOLDER))


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str, int], dict[str, Any]]:
    """Returns a function that runs a plugin with this output and exit status, and returns the result document."""

    def act(output: str, exit_status: int) -> dict[str, Any]:
        (tmp_path / "output").write_text(output)
        program = tmp_path / "check_it"
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/output\nexit {exit_status}\n")
        program.chmod(stat.S_IRWXU)
        policy = tmp_path / "policy.toml"
        policy.write_text(f'[plugins.check_it]\ncommand = ["{program}"]\n')
        policy.chmod(0o600)
        args = Resolved(json.dumps({"name": "check_it"}).encode(), ())
        document: dict[str, Any] = json.loads(run_once(FILES, "plugin", args, policy, None, lambda *_: None))
        return document

    return act


LONG = "n" * 300
ODD = {
    "a percent sign": ("'/'=97%;80%;90%;0;100", "check_it{label=/}", 97),
    "two ranges": ("rx=-31.2dBm;-25;-30;-40;3", "rx", -31.2),
    "a list of ranges": ("a=5;1:2,3:4;8", "a", 5),
    "a decimal comma": ("a=0,5s;0,7;0,9", "a", 0.5),
    "begin above end": ("a=5;20:10;~:3", "a", 5),
    "negative": ("a=-5;-10;-20", "a", -5),
    "words": ("a=5;warn;crit", "a", 5),
    "too long a range": (f"a=5;{'1' * 200};9", "a", 5),
    "infinity": ("a=5;1e999;~:1e999", "a", 5),
    "a long name": (f"{LONG}=5;1;2", f"{LONG[:128]}{{label={LONG}}}", 5),
    "a long unit": (f"a=5{'u' * 40};1;2", "a", 5),
    "a unit with a control character": ("a=5\x01x;1;2", "a", 5),
    "a unit with an odd blank": ("a=5\xa0x", "a", 5),
    "no letter": ("'5 min'=3", "check_it{label=5 min}", 3),
    "an empty label's quotes": ("''''=1", "check_it{label='}", 1),
    "a Greek letter": ("µ=1", "check_it{label=µ}", 1),
    "a bound beyond a float": ("a=1;;;1e999;-1e999", "a", 1),
}


@pytest.mark.parametrize(("perfdata", "key", "value"), ODD.values(), ids=ODD)
@pytest.mark.parametrize(("exit_status", "status"), [(0, "ok"), (1, "warning"), (2, "critical"), (3, "unknown")])
def test_odd_performance_data(
    run: Callable[[str, int], dict[str, Any]], perfdata: str, key: str, value: float, exit_status: int, status: str
) -> None:
    """The status and the summary are the plugin's, and its figure is kept, for odd performance data (F23, J14)."""
    document = run(f"it is so and so | {perfdata} other=1", exit_status)
    assert "reason" not in document
    assert (document["status"], document["summary"]) == (status, "it is so and so")
    found = {metric_key(each): each["value"] for each in document["metrics"]}
    assert (found[key], found["other"]) == (value, 1)


def test_what_is_left_out_is_told(run: Callable[[str, int], dict[str, Any]]) -> None:
    """A threshold that is no range and a line that is no figure are left out, and the output says so (F23, F84)."""
    document = run("fine | a=5;80%;9\nmore", 0)
    assert document["output"] == "more\nwarn of a is left out: 80%\n"
    document = run("status ok fine\nmetric a int\nmetric b int 1\n", 0)
    assert document["truncated"] == {"metrics": 2}
    assert "1 of 2 figures of the plugin cannot be read" in document["output"]


def test_the_true_length_is_in_the_result(run: Callable[[str, int], dict[str, Any]]) -> None:
    """The true length of the output is in the result, also where all of it is one line and none is shown (F21)."""
    text = f"OK - {'x' * 65_000} | a=1"
    text = f"{text:<65527}last=123456789 end=5"
    document = run(text, 0)
    assert document["truncated"] == {"output": len(text), "metrics": 2}
    assert [each["name"] for each in document["metrics"]] == ["a", "plugin_time"]
