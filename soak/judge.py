"""The criteria of a soak: all messages accounted for, correct answers, constant memory and latency; without ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .records import Record

_FAULTS_SHOWN = 5


class Limits(NamedTuple):
    """The limits of the criteria."""

    p99_ratio: float = 1.5
    """Largest ratio of the p99 of the last minute to that of the first."""
    rss_growth: float = 4.0
    """Largest growth of memory, MiB, from the first minute's median to the last minute's: 52 bytes for each request in
    ten minutes at 150 requests/s.
    """
    least_rate: float = 0.95
    """Share of the requested rates that must be reached for a valid soak, unless it is one of overload."""
    late: float = 1.0
    """Longest time until a call or sequence is answered or refused, s."""
    stop: float = 0.02
    """Time, s, within which 19 of 20 calls of ~/stop are answered under load; half of them without a priority."""


def violations(record: Record, limits: Limits) -> list[str]:
    """Return all violated criteria, one line each; an empty list means that the node has passed."""
    ended = [f"ended before its time: {record.end}"] if record.end else []
    if record.exit_code != 0:
        ended.append(f"node: expected exit code 0, got {record.exit_code}")
    if ended:
        return ended  # an interrupted soak has no complete counts
    steady = () if record.is_overloaded else (_rates, _latency)
    measured = (check(record, limits) for check in (_late, _stops, _memory, *steady))
    return [*_books(record), *_faults(record), *(line for lines in measured for line in lines)]


def _rates(record: Record, limits: Limits) -> list[str]:
    found = []
    for client, rate_hz in record.rates_hz.items():
        got_hz = record.clients[client].rate_hz
        if not got_hz >= limits.least_rate * rate_hz:
            found.append(f"{client}: expected {rate_hz:g} messages/s, got {got_hz:.1f}")
    return found


def _books(record: Record) -> list[str]:
    """Return what is not accounted for: messages not answered or counted, and answers not received or counted."""
    planner, controller, optimizer = (record.clients[name].counts for name in ("planner", "controller", "optimizer"))
    node, answered = record.counts, planner["answered"] + planner["missed"]
    at_once = node.refused + node.batches_alone + optimizer["refused"]
    # accepted first, but refused after waiting: a newer one came, or they were too late
    later = node.rejected - at_once
    trajectories = controller["received"] + controller["missed"] - node.brakes + node.batches_alone + later
    found = []
    if lost := planner["sent"] - answered - node.refused:
        found.append(f"{lost} sequences lost: neither answered nor counted as rejected")
    if planner["unknown"]:
        found.append(f"{planner['unknown']} trajectory batches that answer no sequence of ours, or one twice")
    # Joint states that come after newer ones are rejected for this reason, and so are sequences after them.
    of_states = node.by_reason.get("clock_jumped_back", 0)
    if not trajectories - of_states <= answered <= trajectories:
        found.append(f"{trajectories} joint trajectories for {answered} answered sequences")
    counts = (
        ("sequences that the node counted", planner["sent"], node.sequences),
        ("trajectory batches published", node.published + node.batches_alone, answered),
        ("sequences and calls refused, by reason", max(at_once, node.rejected), node.rejected),
        ("gradient calls that the node counted", optimizer["sent"], node.service_calls),
        ("gradient calls answered or refused", optimizer["sent"], optimizer["answered"] + optimizer["refused"]),
    )
    return found + [f"{what}: expected {expected}, got {got}" for what, expected, got in counts if expected != got]


def _faults(record: Record) -> list[str]:
    found = []
    for client in record.clients.values():
        faults = [fault if count == 1 else f"{fault} ({count} times)" for fault, count in client.faults.items()]
        found += faults[:_FAULTS_SHOWN]
        if len(faults) > _FAULTS_SHOWN:
            found.append(f"... and {len(faults) - _FAULTS_SHOWN} more")
    return found


def _late(record: Record, limits: Limits) -> list[str]:
    found = []
    for client, what in (("planner", "answer"), ("optimizer", "answer"), ("controller", "motion after the one before")):
        took_s = record.latencies_ms(client) / 1e3
        if late := int((took_s > limits.late).sum()):
            got = f"{late} later, at worst {took_s.max():.2f} s"
            found.append(f"{client}: expected every {what} within {limits.late:g} s, got {got}")
    return found


def _stops(record: Record, limits: Limits) -> list[str]:
    if not record.stops_s:
        return ["operator: expected answers of ~/stop, got none"]
    if lost := sum(not np.isfinite(took_s) for took_s in record.stops_s):
        return [f"operator: {lost} of {len(record.stops_s)} calls of ~/stop lost"]
    if (worst_s := max(record.stops_s)) > limits.late:
        return [f"operator: expected every ~/stop to be answered within {limits.late:g} s, got {worst_s:.3f} s"]
    share = 0.95 if record.priority else 0.5
    if (took_s := float(np.quantile(record.stops_s, share))) > limits.stop:
        return [f"operator: expected {share:.0%} of ~/stop to be answered within {limits.stop:g} s, got {took_s:.3f} s"]
    return []


def _memory(record: Record, limits: Limits) -> list[str]:
    first, last = record.resident_mib()
    if last - first <= limits.rss_growth:
        return []
    return [
        f"memory: expected growth of at most {limits.rss_growth:g} MiB from the first {record.window_s:.0f} s to "
        f"the last, got {first:.1f} to {last:.1f} MiB"
    ]


def _latency(record: Record, limits: Limits) -> list[str]:
    found = []
    for client in ("planner", "optimizer"):
        first, last = record.p99_ms(client)
        if not last <= limits.p99_ratio * first:
            found.append(
                f"{client} latency: expected a p99 of the last {record.window_s:.0f} s of at most "
                f"{limits.p99_ratio:g} x that of the first, got {first:.2f} to {last:.2f} ms"
            )
    return found
