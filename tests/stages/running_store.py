"""Runs a store of ZeroTask with its threads, whose deliveries the test takes by hand."""

from __future__ import annotations

import queue
import time

from zerotask.storage.database import Store
from zerotask.tasks.task import Options, Submission

PATIENCE = 60.0


class Running:
    """Runs a store whose deliveries are taken by hand, in this thread."""

    def __init__(self, folder):
        self.deliveries = queue.SimpleQueue()
        self.later = []
        self.store = Store(folder, self.deliveries.put, self.later.append)
        self.found = self.store.open()
        self.notices, self.troubles, self.damages = [], [], []
        self.store.on_notices.subscribe(lambda notices, wall: self.notices.extend(notices))
        self.store.on_trouble.subscribe(self.troubles.append)
        self.store.on_damage.subscribe(lambda text, lost: self.damages.append((text, lost)))

    def turn(self):
        later, self.later[:] = list(self.later), []
        for call in later:
            call()

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.turn()
            self.deliveries.get(timeout=max(deadline - time.monotonic(), 0.001))()

    def run(self, *jobs, durable=True, reading=False):
        """Run the jobs and return what they come to: values, or codes of errors."""
        told = [None] * len(jobs)
        for number, job in enumerate(jobs):

            def done(value, error, number=number):
                told[number] = (value, error.code if error else None)

            if reading:
                self.store.read(job, done)
            else:
                self.store.write(job, done, durable)
        self.until(lambda: None not in told)
        return told

    def end(self):
        self.store.end()
        self.store.join()
        while not self.deliveries.empty():
            self.deliveries.get()()


def submitting(task_id, params=b"[]"):
    return lambda ledger, now: ledger.submit(Submission(task_id, "c", "", "m", params, Options()), now)


def state_of(task_id):
    return lambda ledger, now: ledger.task(task_id, now).state
