"""Takes the services that workers offer by READY and SERVICES, and settles which of two keeps an agent. Pure."""

from __future__ import annotations

from scale0.broker.context import Context, Options
from scale0.broker.requests.routing import Routing
from scale0.broker.requests.worker_pool import Worker
from scale0.broker.session import Session
from scale0.broker.sessions import Sessions
from scale0.wire import options as opt
from scale0.wire.actions import AGENT_SERVICE
from scale0.wire.frames import PLAIN
from scale0.wire.options import Fault

SERVICES_PER_WORKER = 20_000  # a Helen with its agents; twice the 10,000 that one is built for


class WorkerOffers:
    """Changes the services of the workers of one broker; of an agent that two offer, the later attachment counts."""

    def __init__(self, context: Context, sessions: Sessions, routing: Routing) -> None:
        self._c, self._sessions, self._routing = context, sessions, routing

    def ready(self, session: Session, o: opt.Ready) -> None:
        """Give a worker the services and the concurrency of its READY, which may come any number of times.

        Raises Fault if a service is not allowed here or to this peer, there are too many, or the clocks differ.
        """
        self._check_offer(session, o.services, o.epochs)
        if len(o.services) > SERVICES_PER_WORKER:
            raise Fault(413, "too_large", f"a worker has at most {SERVICES_PER_WORKER} services")
        self._sessions.check_clock(session, o.time)
        worker = session.worker
        if worker is None:
            worker = session.worker = Worker(session.address, session.dialect)
        worker.dialect, worker.beats_while_busy = session.dialect, o.heartbeat
        worker.concurrency = o.concurrency
        session.ready, session.seq = True, 0
        session.interval = self._sessions.interval(o.hbeatinterval)
        self._sessions.note_version(session, o.config_version)
        self._routing.pool.replace(worker, o.services)
        self._set_epochs(worker, session.identity, o.epochs, o.seals)
        self._routing.pool.freed(worker)
        self._sessions.beat(session)
        self._serve(worker, o.services)

    def services(self, session: Session, o: opt.ServicesDelta) -> None:
        """Change the services of a worker; a gap in `seq` means that something was lost, and it must negotiate again.

        Raises Fault if a service is not allowed here or to this peer, or there are too many.
        """
        worker = session.worker
        if worker is None or not session.ready or (o.seq and o.seq > session.seq + 1):
            self._sessions.force(session.address, session.dialect, "send READY with all services")
            return
        if o.seq and o.seq <= session.seq:
            return
        self._check_offer(session, o.add, o.epochs)
        if len(worker.services) + len(o.add) > SERVICES_PER_WORKER:
            raise Fault(413, "too_large", f"a worker has at most {SERVICES_PER_WORKER} services")
        session.seq = o.seq or session.seq
        self._routing.pool.withdraw(worker, o.remove)
        self._routing.pool.offer(worker, o.add)
        self._set_epochs(worker, session.identity, o.epochs, o.seals)
        self._serve(worker, o.add)

    def _serve(self, worker: Worker, services: list[str]) -> None:
        if len(services) < 100:
            for service in services:
                self._routing.serve(service)
        else:
            self._routing.serve_worker(worker)

    def _check_offer(self, session: Session, services: list[str], epochs: dict[str, int]) -> None:
        """Raise Fault if the peer may not offer a service, or claims to have attached an agent in the future."""
        check_services(self._c, services)
        caller = self._c.grants.caller(session.origin, self._c.config, session.is_own)
        why = self._c.grants.why_not_offer(caller, services, session.origin.key)
        if why:
            self._c.counts["not_allowed"] += 1
            self._c.alarm_once(f"{session.identity} may not offer what it offers: {why}")
            raise Fault(403, "not_allowed", why)
        late = next((s for s, epoch in epochs.items() if self.is_to_come(s, epoch)), None)
        if late is not None:
            raise Fault(422, "clock_skew", f"{late}: its epoch lies in the future; set the clocks right")

    def is_to_come(self, service: str, epoch: int) -> bool:
        """Return True for the attachment of an agent later than now, and than clocks may differ.

        Epochs of agents are unix milliseconds: one that never comes would hold its agent for ever.
        """
        return service.startswith(AGENT_SERVICE) and epoch > 1000 * (self._c.wall + self._c.config.max_skew)

    def _set_epochs(self, worker: Worker, identity: str, epochs: dict[str, int], seals: dict[str, str]) -> None:
        """Note attach epochs; of two workers here that offer a service, the one with the higher epoch keeps it.

        peer_links.py does the same between brokers.
        """
        for service, epoch in epochs.items():
            if service not in worker.services:
                continue
            worker.epochs[service] = epoch
            worker.seals.pop(service, None)
            if service in seals:
                worker.seals[service] = seals[service]
            for other in list(self._routing.pool.workers(service)):
                if other is worker or (held := other.epochs.get(service)) is None:
                    continue
                if held < epoch:
                    self.withdraw(other, service, (identity, epoch), seals.get(service, ""))
                else:
                    session = self._sessions.all.get(other.address)
                    self.withdraw(
                        worker, service, (session.identity if session else "", held), other.seals.get(service, "")
                    )

    def withdraw(self, worker: Worker, service: str, holder: tuple[str, int], seal: str = "") -> None:
        """Take a service from a worker, as a newer holder (its identity and epoch) has it, and tell the worker."""
        self._routing.pool.withdraw(worker, [service])
        self._c.counts["moved"] += 1
        if worker.dialect not in PLAIN:
            options: Options = {"remove": [service], "holders": {service: holder}}
            self._c.tell(
                worker.address, worker.dialect, "SERVICES", options | ({"seals": {service: seal}} if seal else {})
            )


def check_services(c: Context, services: list[str]) -> None:
    """Raise Fault unless each name is that of a service, and this broker serves it."""
    opt.check_service_names(services)
    wrong = next((s for s in services if not c.serves(s)), None)
    if wrong is not None:
        raise Fault(421, "wrong_broker", f"{wrong} is not served here; ask NEEDBROKER for a broker that does")
