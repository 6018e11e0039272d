"""Tests places in object stores as operators write them, and the settings of both clients of a store, without a
server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from helen.pipeline.commands import main
from helen.pipeline.lake import stores
from helen.pipeline.lake.errors import PipelineError

CONNECT = "sc://127.0.0.1:15002"
AZURE = "abfs://lakes@acme.dfs.core.windows.net/helen/lake"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", stores.ACCOUNT_VARIABLE, stores.ENDPOINT_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("s3://b/lake/x", "s3://b/lake/x"), ("s3a:/b/lake", "s3a://b/lake"), ("gs://b", "gs://b"),
        (AZURE, AZURE), ("/var/s3:/b", "/var/s3:/b"), ("lake", "lake"), ("./hdfs:x", "hdfs:x"), ("a b:/c", "a b:/c"),
        ("/srv/s3-x:/b/lake", "/srv/s3-x:/b/lake"),
    ],
)  # fmt: skip
def test_places(path: str, url: str) -> None:
    """A path and a URL of a store name the same place."""
    assert stores.url_of(Path(path)) == url
    assert stores.is_stored(Path(path)) == ("://" in url)
    stores.check_place(Path(path))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("gs://", "gs:// names no bucket: write gs://BUCKET/KEY"),
        ("abfs://lakes/x", "names no account: write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY, or set AZURE_"),
        ("abfss://lakes@acme/x", "names no account of Azure's: write abfs://CONTAINER@ACCOUNT"),
        ("abfs://@acme.dfs.core.windows.net/x", "names no bucket"),
        ("hdfs://name/x", "hdfs:// is no kind of store that is known: s3://, s3a://, gs://, abfs://, abfss:// are"),
        ("wasb+s://c/x", "wasb+s:// is no kind of store"),
        ("s3-x:/b/lake", f"A folder of this name has to be given whole: {Path.cwd()}/s3-x:/b/lake."),
        ("S3://b/lake", "S3:// is no kind of store that is known: s3://"),
        ("file:///srv/lake", "is the URL of a folder: write the path, /srv/lake."),
    ],
)  # fmt: skip
def test_places_that_lack_something(path: str, sentence: str) -> None:
    """A place that lacks a part is refused with the form to write, before a folder of that name is made."""
    with pytest.raises(PipelineError) as raised:
        stores.check_place(path)
    assert sentence in str(raised.value)
    refused = CliRunner().invoke(main, ["export", "--lake", "/nowhere", "--to", path])
    assert (refused.exit_code, sentence in refused.stderr) == (1, True)


def test_the_client_of_the_logs_gets_the_same_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of the logs has its usual options, until the environment names another server for both clients."""
    monkeypatch.setenv(stores.ACCOUNT_VARIABLE, "acme")
    places = ("s3://b/l", "gs://b/l", "abfs://b/l")
    assert [stores.options_of(each) for each in places] == [stores.STORE_OPTIONS] * 3
    assert stores.options_of("lake") is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:4443")
    monkeypatch.setenv(stores.ENDPOINT_VARIABLE, "http://127.0.0.1:10000/acme")
    found = [stores.options_of(each) or {} for each in places]
    assert [each["allow_http"] for each in found] == ["true"] * 3
    account = json.loads(found[1]["google_service_account_key"])
    assert (account["gcs_base_url"], account["disable_oauth"]) == ("http://127.0.0.1:4443", True)


@pytest.mark.parametrize("command", ["run", "sql"])
@pytest.mark.parametrize(
    ("words", "environment", "named"),
    [
        (["--master", CONNECT], {}, f"--master {CONNECT}"),
        ([], {"HELEN_SPARK_MASTER": CONNECT}, f"--master {CONNECT}"),
        (["--conf", f"spark.master={CONNECT}"], {}, f"--conf spark.master={CONNECT}"),
        (["--conf", f"spark.remote={CONNECT}"], {}, f"--conf spark.remote={CONNECT}"),
        (["--conf", "spark.remote=local"], {}, "--conf spark.remote=local"),
        (["--conf", "spark.api.mode=Connect"], {}, "--conf spark.api.mode=Connect"),
        ([], {"SPARK_REMOTE": CONNECT}, f"SPARK_REMOTE={CONNECT} in the environment"),
        (["--conf", "spark.api.mode=classic"], {"SPARK_REMOTE": "local"}, "SPARK_REMOTE=local in the environment"),
        ([], {"SPARK_API_MODE": "connect"}, "SPARK_API_MODE=connect in the environment"),
        ([], {"SPARK_CONNECT_MODE_ENABLED": "1"}, "SPARK_CONNECT_MODE_ENABLED=1 in the environment"),
    ],
)  # fmt: skip
def test_a_server_of_spark_connect_is_refused(
    command: str, words: list[str], environment: dict[str, str], named: str, tmp_path: Path
) -> None:
    """A server of Spark Connect is refused before anything is made, by any option, with the reason and the
    alternative."""
    refused = CliRunner(env=environment).invoke(main, [command, "--state", str(tmp_path), *words])
    assert refused.exit_code == 2
    assert f"{named}: the pipeline is Spark's driver" in refused.stderr
    assert "a client of Spark Connect has none" in refused.stderr
    assert "spark://HOST:7077" in refused.stderr
    assert [*tmp_path.iterdir()] == []
