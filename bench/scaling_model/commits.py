"""One machine under load, as bench/durability measures it: a gateway's worker and its committing thread on one core, the load on
the other. It says whether the rule by which commits form is understood: what waits while one is under way is the next.

Times are microseconds."""

import heapq
import math
import random
from collections import deque

CONNECTIONS = 50
# Parts of a request's work, of what it takes without a proof: reading, forwarding, and bringing back the response.
READING, FORWARDING = 0.45, 0.25
# Of the committing thread's work, how much comes before the sync; and how much is per commit where ten counters share one.
BEFORE_SYNC, PER_COMMIT = 0.7, 0.85
# What the load's core takes for a request: the service that answers, and the phone that asks next.
SERVICE, PHONE = 18, 25
# How late the load's clock sends, at the mean.
LATE = 60


class Machine:
    """The core goes to the committing thread whenever that has work: it sleeps most of the time, and the kernel favours it."""

    def __init__(self, constants, store, rate, seed):
        gateway, self.random = constants.gateway, random.Random(seed)
        self.sync, self.gathering = constants.registry.sync_us, constants.registry.gathering_us
        committing = gateway.commit_share * gateway.attested_us
        self.commit_work = PER_COMMIT * committing * 10
        self.counter_work = (1 - PER_COMMIT) * committing
        worker = gateway.attested_us - committing
        self.forward = FORWARDING * gateway.keepalive_us
        self.answer = (1 - READING - FORWARDING) * gateway.keepalive_us
        self.prove = worker - self.forward - self.answer
        # PostgreSQL works on the load's core.
        self.database = (constants.registry.statement_us, constants.registry.row_us) if store == "postgresql" else (0, 0)
        self.rate, self.now, self.events, self.number = rate, 0.0, [], 0
        self.ready = deque()          # what the worker finds when its turn begins
        self.turn = deque()           # what it does in this one
        self.gathered, self.since = [], 0.0
        self.waiting = []             # counters at the committing thread
        self.committing = False
        self.store_work = deque()     # (time left, then)
        self.worker_task = None       # [time left, then]
        self.core_free = 0.0
        self.load_free = 0.0
        self.commits = self.counters = self.done = 0

    def at(self, time, then):
        self.number += 1
        heapq.heappush(self.events, (time, self.number, then))

    def on_load_core(self, work, then):
        self.load_free = max(self.load_free, self.now) + work * self.random.uniform(0.8, 1.2)
        self.at(self.load_free, then)

    # The worker's loop: what is ready is one turn, and what a turn has spent goes to the committing thread at its end.

    def hand_over(self):
        self.waiting += self.gathered
        self.gathered = []
        self.begin_commit()

    def proven(self):
        if not self.gathered:
            self.since = self.now
        self.gathered.append(self.now)
        if len(self.gathered) >= 64 or self.now - self.since >= self.gathering:
            self.hand_over()

    def forwarded(self):
        self.on_load_core(SERVICE, lambda: self.ready.append((self.answer, self.answered)))

    def answered(self):
        self.done += 1
        if self.rate is None:
            self.on_load_core(PHONE, self.asked)

    def asked(self):
        self.ready.append((self.prove, self.proven))

    # The committing thread.

    def begin_commit(self):
        if self.committing or not self.waiting:
            return
        self.committing = True
        taken, self.waiting = self.waiting, []
        work = self.commit_work + self.counter_work * len(taken)
        self.store_work.append([BEFORE_SYNC * work, lambda: self.sync_begins(taken, work)])

    def sync_begins(self, taken, work):
        sync = self.sync * math.exp(self.random.gauss(0, 0.3))
        statement, row = self.database

        def synced():
            self.store_work.append([(1 - BEFORE_SYNC) * work, lambda: self.committed(taken)])
        if statement:
            self.on_load_core(statement + row * len(taken), lambda: self.at(self.now + sync, synced))
        else:
            self.at(self.now + sync, synced)

    def committed(self, taken):
        self.commits += 1
        self.counters += len(taken)
        self.committing = False
        self.ready.extend((self.forward, self.forwarded) for _ in taken)
        self.begin_commit()

    # The core.

    def run(self, microseconds):
        if self.rate is None:
            for _ in range(CONNECTIONS):
                self.on_load_core(PHONE, self.asked)
        else:
            for number in range(int(self.rate * microseconds / 1e6)):
                self.at(number / self.rate * 1e6 + self.random.expovariate(1 / LATE), self.asked)
        while self.now < microseconds:
            task = self.next_task()
            upcoming = self.events[0][0] if self.events else math.inf
            if task is None and upcoming == math.inf:
                break
            if task is not None and self.now + task[0] <= upcoming:
                self.now += task[0]
                self.finish(task)
            else:
                if task is not None:
                    task[0] -= upcoming - self.now
                self.now, _, then = heapq.heappop(self.events)
                then()
        return self

    def next_task(self):
        if self.store_work:
            return self.store_work[0]
        if self.worker_task is None:
            if not self.turn:
                if self.gathered:
                    self.hand_over()
                    return self.next_task()
                self.turn, self.ready = self.ready, deque()
            if self.turn:
                work, then = self.turn.popleft()
                self.worker_task = [work * self.random.uniform(0.9, 1.1), then]
        return self.worker_task

    def finish(self, task):
        if self.store_work and task is self.store_work[0]:
            self.store_work.popleft()
        else:
            self.worker_task = None
        task[1]()


def predicted(constants, store, load, seconds=2.0):
    """Commits a second and counters a commit, with all connections busy (1.0), or at that part of it at fixed times."""
    full = Machine(constants, store, None, constants.seed).run(seconds * 1e6)
    if load == 1.0:
        machine = full
    else:
        machine = Machine(constants, store, load * full.counters / seconds, constants.seed).run(seconds * 1e6)
    return {"commits_per_second": machine.commits / seconds, "batch": machine.counters / max(1, machine.commits)}
