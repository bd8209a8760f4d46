"""Encoders that slip or misread, second publishers and a network that stands still: what `--physics` draws, live."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sensor_msgs.msg import JointState

from ..loop import doubles
from ..rig import LIM, Rig
from .live import case, streaming

_MOST_BACK = 0.1
"""Largest distance, rad, by which a command may go after a brake: `limits.start_deviation`."""
_CUT_OFF_S = 0.4
"""Time, s, for which the network stands still."""


def _stands(rig: Rig, begin: float) -> Rig:
    """Check that the command has hardly moved since a time, and rests."""
    way = np.abs(rig.rates(begin)[1] - rig.rates(begin)[1][0]).max()
    rig.check(way <= _MOST_BACK, f"the command went {way:.3g} rad")
    rig.check(int(rig.diag("supervision_brakes")) > 0, f"braked {rig.diag('supervision_brakes')} times")
    rig.good(t0=begin)
    return rig


@case("slipped-encoder")
def slipped(name: str) -> Iterator[Rig]:
    """The encoder of an arm at rest slips by 0.3 rad, and nothing is sent: the command stands."""
    rig = Rig(limits=LIM, start_from="measured")
    begin = rig.now

    def slip(m: JointState) -> JointState:
        m.position = doubles(np.array(m.position) + np.array([0.3, 0.0]))
        return m

    rig.filter = slip
    rig.go(4.0)
    yield _stands(rig, begin)


@case("second-publisher")
def second(name: str) -> Iterator[Rig]:
    """A second publisher sends zeros: it is named, and no plan begins at either position."""
    rig = Rig(limits=LIM, start=[0.5, -0.4], start_from="measured")
    begin, sent = rig.now, len(rig.arrivals)
    rig.filter = lambda m: [m, JointState(header=m.header, name=m.name, position=[0.0] * 2)]
    rig.go(0.5)
    for _ in range(4):
        rig.plan([1.0], [[0.0, 0.0]])
        rig.go(0.4)
    rig.check("contradictory_state" in rig.rejections, f"rejected {rig.reasons()}")
    rig.check(len(rig.arrivals) == sent, f"{len(rig.arrivals) - sent} trajectories published")
    yield _stands(rig, begin)


@case("misread-encoder")
def misread(name: str) -> Iterator[Rig]:
    """At 0.5 rad/s, one joint state in 0.7 s is 0.4 rad off: it is counted, and the motion goes on."""
    rig, told = Rig(), iter(range(10**6))

    def off(m: JointState) -> JointState:
        m.position = doubles(np.array(m.position) + 0.4 * (next(told) % 175 == 100))
        return m

    rig.filter = off
    rig.go(3.0, 0.1, rig.ramping(0.5))
    rig.go(1.5)
    rig.check(rig.diag("supervision_brakes") == "0", f"braked {rig.diag('supervision_brakes')} times")
    rig.good(forward=1)
    yield rig


@case("cut-off", "cut-off-stop")
def cut_off(name: str) -> Iterator[Rig]:
    """The network to the robot stands still for 0.4 s in a motion, perhaps with a stop in it: no step follows."""
    rig, send = streaming(0.5, 1.5)
    at = rig.now
    rig.cut_off(_CUT_OFF_S)
    rig.go(0.1, 0.1, send)
    if name.endswith("stop"):
        rig.stop(wait=False)
        rig.go(1.0)
    else:
        rig.go(1.0, 0.1, send)
    rig.go(2.0)
    rig.steps(at)
    rig.rests()
    yield rig


@case("goal-again", "goal-nearer")
def goals(name: str) -> Iterator[Rig]:
    """A goal is sent again 20 times a second, or replaced by a nearer one in motion: it is not passed."""
    rig = Rig(limits=LIM, start_from="measured")
    begin, goal = rig.now, 0.5
    if name == "goal-nearer":
        rig.plan([1.0], [[0.8, 0.8]])
        rig.go(0.45)
        rig.plan([2.0], [[goal, goal]])
    else:
        rig.go(1.5, 0.05, lambda: rig.plan([0.5], [[goal, goal]]))
    rig.go(3.0)
    rig.good(t0=begin)
    beyond = rig.rates(begin)[1].max() - goal
    rig.check(beyond <= 1e-3, f"passed by {beyond * 1e3:.2f} mrad")
    rig.ends_at([goal, goal])
    yield rig
