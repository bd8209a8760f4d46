"""A client as a process of its own, which works at a rate; the soak talks to it through a pipe.

It is told `go`, `stop` (send no more) and `end`. It tells `ready` once it and the node have found each other, `begun`
on the first `go`, what it has counted since the last one, every second, and `ended`.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from kit.ledger import Ledger

from .records import ClientRecord

REPORT_S = 1.0
GREETING_S = 0.2
END_WITHIN_S = 10.0
FAULTS_KEPT = 100
_SPIN_S = 0.02


@dataclass
class Role:
    """The work of a client."""

    counts: Callable[[], dict[str, int]]
    """Counts since its start."""
    is_met: Callable[[], bool]
    """Whether it and the node have discovered each other."""
    send: Callable[[], None] = lambda: None
    """Sends the next message; called repeatedly until the work begins, too: answers may be lost until then."""
    rate_hz: float = 0.0
    """How often it is called; 0 for a role that only listens."""
    ledger: Ledger = field(default_factory=Ledger)
    """Ledger of messages that are answered."""
    faults: Counter[str] = field(default_factory=Counter)
    """Faults, in words, with their counts."""


class ClientProcess:
    """A client in a process of its own, forked from this one.

    Args:
        name: of the client.
        run: of a role, called there with a pipe; loads the middleware.
        log: file for its standard error.

    """

    def __init__(self, name: str, run: Callable[[Connection], None], log: Path) -> None:
        self.name, self.record = name, ClientRecord()
        self.told: set[str] = set()
        """Events among `ready`, `begun` and `ended` that it has told."""
        self._log = log
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=_run, args=(run, other, log))
        self._process.start()
        other.close()

    def tell(self, command: str) -> None:
        """Give a command: go, stop or end."""
        with suppress(OSError):  # it has died; `look` reports that
            self._pipe.send(command)

    def look(self, at_s: float) -> str:
        """Take what it has told until a time since the beginning; returns why it ended by itself, "" if it has not."""
        is_alive = self._process.is_alive()
        with suppress(EOFError, OSError):
            while self._pipe.poll():
                told = self._pipe.recv()
                if isinstance(told, str):
                    self.told.add(told)
                else:
                    self.record.add(told, at_s)
        if is_alive or "ended" in self.told:
            return ""
        errors = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"the {self.name} ended with exit code {self._process.exitcode}: {' | '.join(errors[-3:])}"

    def close(self) -> None:
        """End it."""
        self.tell("end")
        self._process.join(END_WITHIN_S)
        self._process.kill()
        self._process.join()


def _run(run: Callable[[Connection], None], pipe: Connection, log: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal goes to the soak, which then ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    with suppress(EOFError):  # the soak has died
        run(pipe)


def work(role: Role, spin: Callable[[float], None], pipe: Connection) -> None:
    """Do what a role does until the command `end`; `spin` handles messages for a time, s."""
    is_ready = False
    while not pipe.poll():  # and not only until we are discovered: others wait for the results of our messages
        role.send()
        if role.is_met() and not is_ready:
            is_ready = True
            pipe.send("ready")
        spin(GREETING_S)
    books = None
    while (command := pipe.recv()) != "end":
        if command == "go":
            if books is None:
                pipe.send("begun")
            books = _Books(role)
        rate_hz = role.rate_hz if command == "go" else 0.0
        begin = now = time.monotonic()
        sent = 0
        while not pipe.poll():
            since, now = now, time.monotonic()
            if rate_hz:
                books.sending_s += now - since
                if now >= begin + sent / rate_hz:
                    role.send()
                    sent += 1
            if books and now >= books.due_s:
                pipe.send(books.row())
            spin(min(begin + sent / rate_hz - now, _SPIN_S) if rate_hz else _SPIN_S)
    if books:
        pipe.send(books.row())
    pipe.send("ended")


class _Books:
    """Records of a role since they were opened."""

    def __init__(self, role: Role) -> None:
        self._role, self._before, self._given_up = role, role.counts(), role.ledger.open
        role.ledger.new_latencies_s()
        role.faults.clear()
        self.sending_s = 0.0
        self.due_s = time.monotonic() + REPORT_S
        """When the next row is due."""

    def row(self) -> dict[str, object]:
        """Fields of a ClientRecord, but for the latencies, which are new since the row before."""
        role = self._role
        self.due_s += REPORT_S
        return {
            "counts": {name: count - self._before[name] for name, count in role.counts().items()},
            "faults": dict(itertools.islice(role.faults.items(), FAULTS_KEPT)),
            "open": role.ledger.open - self._given_up,
            "sending_s": self.sending_s,
            "latencies_ms": [1e3 * latency_s for latency_s in role.ledger.new_latencies_s()],
        }
