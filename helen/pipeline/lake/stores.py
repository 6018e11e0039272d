"""Opens object stores for Arrow and for `deltalake`, which write the files of a lake and the entries of its logs.

    s3://BUCKET/KEY, s3a://BUCKET/KEY                          Amazon's S3, and what is compatible with it
    gs://BUCKET/KEY                                            Google Cloud Storage
    abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY          Azure's Blob Storage and Data Lake Storage
    abfs://CONTAINER/KEY                                       the same, of the account in AZURE_STORAGE_ACCOUNT_NAME

Both libraries must meet the same store as the same user. So each setting is one that both take from the environment, or
one that is translated here: the address of a server that isn't the usual one. For Azure there is one client. Tasks in
Spark's workers have the environment as well, and no secret is in a URL.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import pyarrow.fs as pafs
from attrs import frozen

from helen.pipeline.lake.azure_files import open_azure
from helen.pipeline.lake.errors import PipelineError

ATTEMPTS = 10  # of each request to a store; the waits between them grow to some seconds
CONNECT_SECONDS, REQUEST_SECONDS = 10.0, 30.0
RETRY_SECONDS = 60.0  # Arrow's limit for Google's store is a time, not a number
# Of `deltalake`, whose requests are those of the log.
STORE_OPTIONS = {"max_retries": str(ATTEMPTS), "retry_timeout": "60s", "timeout": "30s", "connect_timeout": "10s"}
ACCOUNT_VARIABLE, ENDPOINT_VARIABLE = "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT"
AZURE = "dfs.core.windows.net"
HTTP = {"allow_http": "true"}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")  # pathlib leaves one slash of two


def is_stored(path: Path | str) -> bool:
    """Return True for a place in an object store."""
    return _scheme(path) in SCHEMES


def url_of(path: Path | str) -> str:
    """Return a place as people and `deltalake` write it: a URL for a store."""
    scheme, colon, rest = str(path).partition(":/")
    return f"{scheme}://{rest.lstrip('/')}" if colon and scheme in SCHEMES else str(path)


def host_and_key(path: Path | str) -> tuple[str, str]:
    """Return the parts of a URL behind its scheme: a bucket, or a container with its account; and the key.

    Raises PipelineError if the first one lacks something.
    """
    url = url_of(path)
    scheme, _, rest = url.partition("://")
    host, _, key = rest.partition("/")
    if not host.partition("@")[0]:
        raise PipelineError(f"{url} names no bucket: write {SCHEMES[scheme].form}.")
    if SCHEMES[scheme] is _AZURE:
        _check_account(url, host)
    return host, key


def _check_account(url: str, host: str) -> None:
    account, _, domain = host.partition("@")[2].partition(".")
    if "@" in host and (not account or domain != AZURE):
        raise PipelineError(f"{url} names no account of Azure's: write {_AZURE.form}.")
    if "@" not in host and not os.environ.get(ACCOUNT_VARIABLE):
        raise PipelineError(f"{url} names no account: write {_AZURE.form}, or set {ACCOUNT_VARIABLE}.")


def check_place(path: Path | str) -> None:
    """Check that a place is a folder, or is in a store of a known kind. Raises PipelineError."""
    scheme, _, rest = str(path).partition(":/")
    if is_stored(path):
        host_and_key(path)
    elif scheme.lower() == "file":
        raise PipelineError(f"{path} is the URL of a folder: write the path, /{rest.lstrip('/')}.")
    elif _URL.match(str(path)):
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise PipelineError(
            f"{scheme}:// is no kind of store that is known: {known} are. A folder of this name has to be given whole:"
            f" {os.path.abspath(path)}."
        )


def options_of(path: Path | str) -> dict[str, str] | None:
    """Return the options with which `deltalake` opens a table; None on a file system. Raises PipelineError."""
    if not is_stored(path):
        return None
    host_and_key(path)
    return STORE_OPTIONS | SCHEMES[_scheme(path)].options()


def filesystem(path: Path | str) -> tuple[pafs.FileSystem, str]:
    """Return Arrow's file system for a place, and the name that the place has there. Raises OSError, PipelineError."""
    if not is_stored(path):
        return _local(), str(path)
    scheme, (host, key) = _scheme(path), host_and_key(path)
    if SCHEMES[scheme] is _AZURE:
        return _store(scheme, host), key
    return _store(scheme, ""), f"{host}/{key}".rstrip("/")


def _scheme(path: Path | str) -> str:
    return str(path).partition(":/")[0]


@functools.cache
def _local() -> pafs.FileSystem:
    return pafs.LocalFileSystem()


@functools.lru_cache(maxsize=16)
def _store(scheme: str, host: str) -> pafs.FileSystem:
    return SCHEMES[scheme].open(host)


def forget_stores() -> None:
    """Open each store anew when it is needed next, with what the environment says then."""
    _store.cache_clear()


# ------------------------------------------------------------------------------------------------ S3


def _open_s3(host: str) -> pafs.FileSystem:
    return pafs.S3FileSystem(
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        endpoint_override=os.environ.get("AWS_ENDPOINT_URL"), connect_timeout=CONNECT_SECONDS,
        request_timeout=REQUEST_SECONDS, retry_strategy=pafs.AwsDefaultS3RetryStrategy(max_attempts=ATTEMPTS),
        allow_delayed_open=True,  # a small file is one request instead of three
    )  # fmt: skip


def _s3_options() -> dict[str, str]:
    return HTTP if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://") else {}


# ------------------------------------------------------------------------------------------------ Google


def _emulator() -> SplitResult | None:
    """Return the server that Google's own libraries ask instead of Google, without a user; None: there is none."""
    given = os.environ.get("STORAGE_EMULATOR_HOST", "")
    return urlsplit(given if "://" in given else f"http://{given}") if given else None


def _open_google(host: str) -> pafs.FileSystem:
    server, limit = _emulator(), timedelta(seconds=RETRY_SECONDS)
    if server is None:
        return pafs.GcsFileSystem(retry_time_limit=limit)
    return pafs.GcsFileSystem(
        anonymous=True, scheme=server.scheme, endpoint_override=server.netloc, retry_time_limit=limit
    )


def _google_options() -> dict[str, str]:
    server = _emulator()
    if server is None:
        return {}
    nobody = {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
    return HTTP | {
        # `google_skip_signature` is heeded for reading alone
        "google_service_account_key": json.dumps({"gcs_base_url": f"{server.scheme}://{server.netloc}", **nobody})
    }


# ------------------------------------------------------------------------------------------------ Azure


def _open_azure(host: str) -> pafs.FileSystem:
    return open_azure(f"abfs://{host}/", STORE_OPTIONS | _azure_options())


def _azure_options() -> dict[str, str]:
    return HTTP if os.environ.get(ENDPOINT_VARIABLE, "").startswith("http://") else {}


@frozen
class _Kind:
    """Says how places of one kind of store are written, and how both clients open it."""

    form: str  # how people write a place of this kind
    open: Callable[[str], pafs.FileSystem]  # of the part of a URL before its path
    options: Callable[[], Mapping[str, str]]  # for `deltalake`


_S3 = _Kind("s3://BUCKET/KEY", _open_s3, _s3_options)
_GOOGLE = _Kind("gs://BUCKET/KEY", _open_google, _google_options)
_AZURE = _Kind(f"abfs://CONTAINER@ACCOUNT.{AZURE}/KEY", _open_azure, _azure_options)
SCHEMES: Mapping[str, _Kind] = {"s3": _S3, "s3a": _S3, "gs": _GOOGLE, "abfs": _AZURE, "abfss": _AZURE}
