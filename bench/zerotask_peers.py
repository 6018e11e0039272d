"""Runs the echo task in Dramatiq and in RQ, and a client of each that keeps tasks in flight. Run by bench/zerotask.py.

    python zerotask_peers.py dramatiq|rq TASKS WINDOW      prints tasks per second

Only the library that is asked for has to be installed. Each client is a pool of threads that submit, wait for the
result and go on, as these libraries are used.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

PEER = os.environ.get("BENCH_PEER", "")
URL = os.environ.get("BENCH_REDIS", "")

if PEER == "dramatiq":
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    dramatiq.set_broker(RedisBroker(url=URL, middleware=[Results(backend=RedisBackend(url=URL))]))

    @dramatiq.actor(store_results=True)
    def echo(text: str) -> list[str]:
        return [text]

    def one(text: str) -> list[str]:
        return echo.send(text).get_result(block=True, timeout=60_000)

elif PEER == "rq":
    import redis
    import rq

    QUEUE = rq.Queue(connection=redis.Redis.from_url(URL, socket_timeout=None))  # results are waited for, blocking

    def echo(text: str) -> list[str]:
        return [text]

    def one(text: str) -> list[str]:
        job = QUEUE.enqueue("zerotask_peers.echo", text)
        result = job.latest_result(timeout=60)
        return result.return_value


def rate(work: Callable[[str], list[str]], tasks: int, window: int) -> float:
    text = "x" * 32
    with ThreadPoolExecutor(window) as pool:
        assert list(pool.map(work, [text] * window)) == [[text]] * window  # the worker is up and warm
        begin = time.monotonic()
        for result in pool.map(work, [text] * tasks):
            assert result == [text]
        return tasks / (time.monotonic() - begin)


if __name__ == "__main__":
    print(rate(one, int(sys.argv[1]), int(sys.argv[2])))
