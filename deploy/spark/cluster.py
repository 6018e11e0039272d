"""A Spark cluster on this machine, of what `pip install pyspark` brings: a master and workers on loopback.

    python deploy/spark/cluster.py [--workers 2] [--cores 1] [--memory 1g]

Prints `spark://127.0.0.1:PORT` once all workers are registered, and runs until it is interrupted; then everything ends.
Give that address to `helen pipeline run --master`. To try out how jobs run on more than one machine, and for tests: on
one machine `local[*]` is quicker. Nothing listens elsewhere than on loopback, and nothing asks for a password there.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

from helen.pipeline.java import find_java

START_SECONDS = 120.0  # a loaded machine takes a minute for three JVMs
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOST = "127.0.0.1"


def start(name: str, words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """One daemon; what it says goes to a file of its name."""
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [str(SPARK_CLASS), *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=folder
        )


def wait_for(pattern: str, log: Path, times: int = 1) -> str:
    """The first group of a line of a log, when it has come so often."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        found = re.findall(pattern, log.read_text("utf-8", "replace"))
        if len(found) >= times:
            return str(found[0])
        time.sleep(0.1)
    sys.exit(f"error: the cluster did not start in {START_SECONDS:.0f} s:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="helen-cluster-") as name:
        folder = Path(name)
        java = find_java(os.environ, folder)
        environment = os.environ | {
            "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "512m", "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # they only pass messages on
        }  # fmt: skip
        package = "org.apache.spark.deploy"
        try:
            words = [f"{package}.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0"]
            running.append(start("master", words, folder, environment))
            master = wait_for(r"Starting Spark master at (spark://\S+)", folder / "master.log")
            each = ["--host", HOST, "--webui-port", "0", "--cores", str(options.cores), "--memory", options.memory]
            for number in range(options.workers):
                words = [f"{package}.worker.Worker", *each, master]
                running.append(start(f"worker-{number}", words, folder, environment))
            wait_for(r"(Registering worker)", folder / "master.log", options.workers)
            print(master, flush=True)
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            for process in reversed(running):
                process.terminate()
            for process in running:
                process.wait()


if __name__ == "__main__":
    main()
