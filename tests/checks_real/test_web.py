"""Test nginx, Apache and a node exporter: status pages, pages with and without TLS, and the summary when they fail."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from attrs import frozen
from conftest import Check
from patience import Patience
from ports import free_port
from servers import Home, Server, certificate, program

PATIENCE = 60.0  # seconds; only what is broken comes near it


@frozen
class Up:
    """Hold a server that runs, and its port; `tls` is the port with TLS, and `ca` the authority of its certificate."""

    server: Server
    port: int
    tls: int = 0
    ca: str = ""


def nginx(home: Home) -> Up:
    folder, port, tls = home.folder("nginx"), free_port(), free_port()
    made, key = certificate(days=10)
    home.write(folder / "tls.pem", made.decode())
    home.write(folder / "tls.key", key.decode())
    home.write(folder / "state.json", '{"queue": {"depth": 7, "workers": ["a", "b"]}, "state": "green"}')
    home.write(folder / "latin.txt", "")
    (folder / "latin.txt").write_bytes("Größe: ERROR".encode("latin-1"))
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    settings = home.write(folder / "nginx.conf", f"""
daemon off; worker_processes 1; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off; {temporary}
  server {{
    listen 127.0.0.1:{port}; listen 127.0.0.1:{tls} ssl;
    ssl_certificate {folder}/tls.pem; ssl_certificate_key {folder}/tls.key;
    location = /nginx_status {{ stub_status; }}
    location /state {{ default_type application/json; alias {folder}/state.json; }}
    location /moved {{ return 302 /state; }}
    location /loop {{ return 302 /loop; }}
    location /packed {{ gzip on; gzip_min_length 1; gzip_types *; default_type "text/plain; charset=iso-8859-1";
      alias {folder}/latin.txt; }}
    location /broken {{ return 503; }}
    location / {{ return 404; }}
  }}
}}
""")  # fmt: skip
    server = home.start(program("nginx", "nginx-light"), "-c", settings, "-e", "stderr", folder=folder)
    return Up(server.listening(port), port, tls, made.decode())


def apache(home: Home) -> Up:
    folder, port = home.folder("apache"), free_port()
    modules = "\n".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"
        for name in ("mpm_event", "authz_core", "status")
    )
    settings = home.write(folder / "apache.conf", f"""
{modules}
ServerName localhost
ServerRoot {folder}
DefaultRuntimeDir {folder}
Listen 127.0.0.1:{port}
PidFile {folder}/pid
ErrorLog {folder}/error.log
StartServers 1
ServerLimit 1
ThreadsPerChild 8
MaxRequestWorkers 8
ExtendedStatus On
<Location /server-status>
  SetHandler server-status
</Location>
""")  # fmt: skip
    server = home.start(program("apache2", "apache2-bin"), "-X", "-f", settings, folder=folder)
    return Up(server.listening(port), port)


def exporter(home: Home) -> Up:
    folder, port = home.folder("exporter"), free_port()
    server = home.start(
        program("prometheus-node-exporter", "prometheus-node-exporter"), f"--web.listen-address=127.0.0.1:{port}",
        "--collector.disable-defaults", "--collector.loadavg", "--collector.time", folder=folder,
    )  # fmt: skip
    return Up(server.listening(port), port)


@pytest.fixture(scope="module")
def up(home: Home) -> dict[str, Up]:
    return {maker.__name__: maker(home) for maker in (nginx, apache, exporter)}


@pytest.fixture(scope="module")
def check(checking: Any) -> Check:
    return checking()


def until(ask: Callable[[], Any], look: Callable[[Any], bool]) -> tuple[Any, int]:
    """Ask until the answer is the one looked for, and return it and the number of questions."""
    bound, asked = Patience(PATIENCE), 1
    while not look(found := ask()):
        assert bound.lasts(), found
        asked += 1
        time.sleep(0.05)
    return found, asked


def test_nginx(up: dict[str, Up], check: Check) -> None:
    """nginx gives its connections and requests as they were made, and too many connections are a warning."""
    url = f"http://127.0.0.1:{up['nginx'].port}/nginx_status"
    first = check("nginx", url=url)
    assert (first.status, first.metrics["active"], first.metrics["writing"]) == ("ok", 1, 1), first
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", up["nginx"].port)))
        found, asked = until(lambda: check("nginx", url=url, warn="5"), lambda it: it.metrics["active"] == 6)
        assert found.status == "warning", found
    assert found.metrics["requests"] - first.metrics["requests"] == asked
    assert found.metrics["accepts"] - first.metrics["accepts"] == 5 + asked
    found = check("nginx", url=url + "_not")
    assert (found.status, found.summary) == ("unknown", f"{url}_not is no stub_status page (404 Not Found)")


def test_apache(up: dict[str, Up], check: Check) -> None:
    """Apache gives the workers in use out of all that it may start, and too many are a warning."""
    url = f"http://127.0.0.1:{up['apache'].port}/server-status?auto"
    found = check("apache", url=url)
    assert (found.status, found.metrics["busy_workers"], found.metrics["idle_workers"]) == ("ok", 1, 7), found
    assert found.metrics["busy"] == 12.5
    with ExitStack() as stack:
        for _ in range(6):  # a request that doesn't come to its end holds a worker
            open_one = stack.enter_context(socket.create_connection(("127.0.0.1", up["apache"].port)))
            open_one.sendall(b"GET /server-status HTTP/1.1\r\n")
        found, _ = until(lambda: check("apache", url=url), lambda it: it.metrics["busy_workers"] == 7)
        assert found.status == "warning", found
    found = check("apache", url=url.replace("?auto", ""))
    assert (found.status, "is no page of mod_status" in found.summary) == ("unknown", True), found


def test_a_metrics_page(up: dict[str, Up], check: Check) -> None:
    """Figures of a node exporter become metrics."""
    url = f"http://127.0.0.1:{up['exporter'].port}/metrics"
    found = check("prometheus_scrape", url=url, names=["node_load1", "node_time_seconds", "go_thr*"])
    assert found.status == "ok", found
    assert abs(found.metrics["node_time_seconds"] - time.time()) < 60
    assert found.metrics["node_load1"] >= 0
    assert found.metrics["go_threads"] > 0
    found = check("prometheus_scrape", url=f"http://127.0.0.1:{up['nginx'].port}/state", names=["*"])
    assert found.status in ("critical", "unknown"), found


def test_pages(up: dict[str, Up], check: Check) -> None:
    """A page is judged by status, redirect, JSON values and text, and a page that differs is critical."""
    base = f"http://127.0.0.1:{up['nginx'].port}"
    found = check("http", url=f"{base}/state", json_path="queue.depth", json_warn="5", json_crit="9")
    assert (found.status, found.metrics["value{path=queue.depth}"]) == ("warning", 7), found
    assert check("http", url=f"{base}/moved", json_path="queue.workers.2", json_equals="b").status == "ok"
    found = check("http", url=f"{base}/moved", redirects=0, status=["200"])
    assert (found.status, found.summary.startswith("302 ")) == ("critical", True), found
    assert check("http", url=f"{base}/state", contains="red").status == "critical"
    found = check("http", url=f"{base}/loop")
    assert (found.status, "in a circle" in found.summary) == ("critical", True)
    packed = {"url": f"{base}/packed", "headers": ["Accept-Encoding: gzip"]}
    assert check("http", contains="Größe", **packed).status == "ok"
    assert check("http", lacks="ERROR", **packed).status == "critical"
    found = check("http", url=f"{base}/broken")
    assert (found.status, found.summary.startswith("503 ")) == ("critical", True), found


def test_certificates(up: dict[str, Up], check: Check) -> None:
    """A certificate is judged by the days that it has left and by its authority, also for a page behind it."""
    port, ca = up["nginx"].tls, up["nginx"].ca
    found = check("tls_certificate", host="localhost", port=port, ca=ca, warn="9:")
    assert found.status == "ok", found
    assert 9.9 < found.metrics[f"days_left{{host=localhost,port={port}}}"] <= 10
    assert check("tls_certificate", host="localhost", port=port, ca=ca).status == "warning"
    found = check("tls_certificate", host="localhost", port=port)
    assert (found.status, "is not accepted" in found.summary) == ("critical", True), found
    found = check("tls_certificate", host="127.0.0.1", port=up["nginx"].port)
    assert found.status == "critical", found
    url = f"https://localhost:{port}/state"
    assert check("http", url=url).status == "critical"
    assert check("http", url=url, verify=False, json_path="state", json_equals="green").status == "ok"


def test_inside_tls(up: dict[str, Up], check: Check) -> None:
    """The general check reaches a port inside TLS, and another answer than expected is critical."""
    found = check(
        "tcp", host="localhost", port=up["nginx"].tls, tls=True, send="HEAD /state HTTP/1.0\r\n\r\n", expect="200 OK"
    )
    assert found.status == "ok", found
    found = check(
        "tcp", host="localhost", port=up["nginx"].tls, tls=True, send="HEAD /broken HTTP/1.0\r\n\r\n", expect="200 OK"
    )
    assert found.status == "critical", found


def test_when_they_have_stopped(up: dict[str, Up], check: Check) -> None:
    """A stopped server is critical for each check; this test is the last one here, because it ends the servers."""
    for one in up.values():
        one.server.stop()
    pages = {"nginx": "nginx", "http": "nginx", "apache": "apache", "prometheus_scrape": "exporter"}
    for name, server in pages.items():
        one, more = up[server], {"names": ["*"]} if name == "prometheus_scrape" else {}
        found = check(name, url=f"http://127.0.0.1:{one.port}/x", **more)
        assert (found.status, found.metrics) == ("critical", {}), found
        assert found.summary == f"127.0.0.1:{one.port} refused the connection"
    assert check("tls_certificate", host="localhost", port=up["nginx"].tls).status == "critical"
