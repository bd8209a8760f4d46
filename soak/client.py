"""The common part of the client processes: commands on standard input, work at a rate, a report every second.

The soak writes `go`, `stop` (send no more) and `end`, one per line. A client writes JSON, one object a line:
`{"ready": true}` once it and the node have found each other, `{"begun": true}` on `go`, then what happened in each
second, and `sending_s`, the part of it in which messages were sent.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from traj_integrator_ros.traffic.ledger import Ledger
from traj_integrator_ros.traffic.participant import Participant

REPORT_S = 1.0
GREETING_S = 0.2
FAULTS_KEPT = 20
"""Faults per second that are reported; that many lines are enough to see what is wrong."""
Row = dict[str, "int | float | list | dict"]


class Role:
    """The work of a client."""

    def __init__(self, rate_hz: float = 0.0, ledger: Ledger | None = None, faults: Counter[str] | None = None) -> None:
        self.rate_hz = rate_hz
        """How often `send` is called; 0 for a role that only listens."""
        self.ledger = ledger
        """Ledger of messages that are answered."""
        self.faults = Counter() if faults is None else faults
        """Faults, in words, with their counts."""

    def greet(self) -> bool:
        """Contact the node; return whether it and we have discovered each other. Called until the work begins.

        Once an answer has come, losses are noticed.
        """
        self.send()
        return self.ledger.answered > 0

    def send(self) -> None:
        """Send the next message."""

    def counts(self) -> dict[str, int]:
        """Counts since its start."""
        raise NotImplementedError

    def peaks(self) -> dict[str, float]:
        """Largest values since its start."""
        return {}


def run_client(name: str, role_of: Callable[[Participant], Role]) -> int:
    """Run a client process until the command `end` or the end of its standard input; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal goes to the soak, which then ends us
    participant = Participant(name=f"soak_{name}")
    commands = _Commands()
    try:
        role = role_of(participant)
        _find(role, participant, commands)
        _work(role, participant, commands)
    finally:
        participant.close()
    return 0


class _Commands:
    """The last command; `end` when standard input has ended."""

    def __init__(self) -> None:
        self.last = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.last = line.strip()
        self.last = "end"


def _find(role: Role, participant: Participant, commands: _Commands) -> None:
    found = False
    while commands.last == "":  # and not only until we are discovered: others wait for the results of our messages
        if role.greet() and not found:
            found = True
            _write({"ready": True})
        _spin(participant, time.monotonic() + GREETING_S)
    while commands.last == "stop":
        _spin(participant, time.monotonic() + 0.01)


def _work(role: Role, participant: Participant, commands: _Commands) -> None:
    rows = _Rows(role)
    _write({"begun": True})
    begin = due = now = time.monotonic()
    sent, reports, sending_s = 0, 0, 0.0
    while commands.last != "end":
        before, now = now, time.monotonic()
        sends = commands.last == "go" and role.rate_hz > 0
        if sends:
            sending_s += now - before
        if sends and now >= due:
            role.send()
            sent += 1
            due = begin + sent / role.rate_hz
        if now >= begin + (reports + 1) * REPORT_S:
            reports += 1
            _write({**rows.take(), "sending_s": sending_s})
            sending_s = 0.0
        _spin(participant, min(due, now + 0.02) if sends else now + 0.02)
    _write({**rows.take(), "sending_s": sending_s, "ended": True})


class _Rows:
    """Counts of a role since the previous row; those before the first row do not count."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._before: dict[str, int] = {}
        self._given_up = role.ledger.open if role.ledger is not None else 0
        self.take()

    def take(self) -> Row:
        """Counts, latencies and faults."""
        role, counts = self._role, self._role.counts()
        row: Row = {name: count - self._before.get(name, 0) for name, count in counts.items()}
        self._before = counts
        row["peaks"] = role.peaks()
        row["faults"] = list(role.faults.elements())[:FAULTS_KEPT]
        role.faults.clear()
        if role.ledger is not None:
            row["latencies_ms"] = [1e3 * latency_s for latency_s in role.ledger.forget_answered()]
            row["open"] = role.ledger.open - self._given_up
        return row


def _spin(participant: Participant, until: float) -> None:
    """Handle messages until then."""
    while True:
        left = until - time.monotonic()
        participant.spin_once(max(0.0, left))
        if left <= 0:
            return


def _write(row: Row) -> None:
    print(json.dumps(row), flush=True)
