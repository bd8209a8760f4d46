"""What must hold of a run beside the invariants: what does not, in words."""

from __future__ import annotations

import numpy as np

from .core import Message, Refusal
from .scenes import BEGIN_S
from .simulation import SECOND, Run


def taken(run: Run) -> bool:
    """Whether the script's messages were executed."""
    return any(isinstance(answer, Message) for _, answer in run.scripted)


def ends_at(run: Run, position: float, tolerance: float = 1e-5) -> list[str]:
    """The robot ends there."""
    end = run.commands[0, -1, 0]
    return [] if abs(end - position) <= tolerance else [f"expected the end at {position:g} rad, got {end:.6f}"]


def beyond(run: Run, position: float) -> list[str]:
    """It never goes further."""
    most = run.commands[0, :, 0].max()
    return [] if most <= position else [f"expected at most {position:g} rad, got {most:.4f}"]


def stays(run: Run, tolerance: float = 1e-6) -> list[str]:
    """It does not move."""
    way = np.ptp(run.commands[0, ~run.off])
    return [] if way <= tolerance else [f"expected no motion, got {way:.6f} rad"]


def retreats(run: Run, tolerance: float) -> list[str]:
    """It does not go back."""
    way = run.commands[0, ~run.off, 0]
    back = (np.maximum.accumulate(way) - way).max()
    return [] if back <= tolerance else [f"expected no way back, got {back:.6f} rad"]


def never_refused(run: Run, since: float = 0.0) -> list[str]:
    """Everything sent from a time on is answered by a message."""
    answers = [(it.arrived_ns, it.answer) for it in run.answers] + [(at, answer) for at, answer in run.scripted]
    refused = [answer for at, answer in answers if isinstance(answer, Refusal) and at >= since * SECOND]
    return [f"{len(refused)} refused: {refused[0].reason}: {refused[0].message}"[:200]] if refused else []


def refused_between(run: Run, begin: float, end: float) -> bool:
    """Whether all chunks that arrive in an interval are refused."""
    answers = [it.answer for it in run.answers if begin <= it.arrived_ns / SECOND <= end]
    return bool(answers) and all(isinstance(answer, Refusal) for answer in answers)


def reaches_speed(run: Run, speed: float, time: float) -> list[str]:
    """It is as fast as it should be at a time."""
    got = run.commands[1, run.cycle(time), 0]
    if abs(got - speed) <= 0.1 * speed:
        return []
    return [f"expected {speed:g} rad/s at {time - BEGIN_S:.2f} s, got {got:.3f}"]


def moves(run: Run, begin: float, end: float) -> list[str]:
    """It moves as its plan does, at least half as far."""
    low, high = run.cycle(begin), run.cycle(end)
    way = abs(run.commands[0, high, 0] - run.commands[0, low, 0])
    plans = [it.chunk.position[0, 0] for it in run.answers if begin <= it.arrived_ns / SECOND <= end]
    meant = float(np.ptp(plans)) if plans else 0.0
    if meant and way >= meant / 2:
        return []
    return [f"expected to move on by {meant:.3f} rad from {begin - BEGIN_S:.2f} s on, got {way:.3f}"]
