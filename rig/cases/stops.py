"""Stops, holds, and faults after which the node brakes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sensor_msgs.msg import JointState

from kit.controller import SECOND
from traj_integrator_ros.client import set_stamp, stamp_of

from ..rig import LIM, Rig
from .live import case, streaming


@case("stop-service", "stop-velocities")
def stops(name: str) -> Iterator[Rig]:
    """A stop at 1 rad/s leads to rest within 0.3 s and 0.1 rad, and never backwards."""
    rig = Rig(limits=LIM)
    rig.ramping(1.0, rows=60)()
    rig.go(1.5)
    n, asked, answer = len(rig.arrivals), rig.now, None
    if name == "stop-service":
        answer = rig.stop()
    else:
        rig.sequence(np.zeros((5, 2)), 0.05, space=2)
    called = rig.now - asked
    rig.go(2.5)
    rig.check(len(rig.arrivals) > n, f"answered by {len(rig.arrivals) - n}, {rig.reasons()}")
    t, p, v, *_ = rig.rates(asked)
    moving = np.abs(v).max(axis=1) > 1e-6
    rest = t[moving][-1] - asked if moving.any() else 0.0
    travel = np.abs(p - p[0]).max()
    rig.check(rest < 0.3, f"rests {rest:.3f} s later")
    rig.check(travel < 0.1, f"travels {travel:.3f} rad")
    if answer is not None:
        rig.check(
            abs(answer.distance[0] / travel - 1) < 0.05 and abs(answer.duration / rest - 1) < 0.05,
            f"announced {answer.distance[0]:.3f} rad in {answer.duration:.3f} s, answered in {called * 1e3:.0f} ms",
        )
    rig.good(forward=1)
    yield rig


@case("states-end")
def states_end(name: str) -> Iterator[Rig]:
    """Joint states end during a stream: the robot rests for good after state_timeout and a brake."""
    rig, send = streaming(0.5, 2.0, limits=LIM)
    rig.speaking = False
    ended = rig.now
    rig.go(3.0, 0.1, send)
    rig.within()
    rig.rests(ended + 0.5 + 0.35)
    level = max(rig.levels(ended + 1.0))
    rig.check(level >= 2, f"diagnostics level {level}")
    yield rig


@case("frozen", "frozen-fast", "frozen-silent", "frozen-first")
def frozen(name: str) -> Iterator[Rig]:
    """The arm is blocked in a motion: the command stops near it, and goes on after release; reports may end, too."""
    speed = {"frozen-first": 0.1, "frozen-fast": 1.5}.get(name, 0.5)
    rig = Rig(limits=LIM)
    if name != "frozen-first":  # so that the play of its joints is seen in both directions
        rig.sequence(0.05 * np.sin(np.pi / 2.4 * 0.05 * np.arange(1, 49))[:, None] ** 2 + np.zeros(2), 0.05)
        rig.go(3.0)
    send = rig.ramping(speed)
    rig.go(1.4, 0.1, send)
    at, place = rig.now, rig.robot.output()[0]
    rig.robot.frozen = True
    reports = rig.reporting
    rig.reporting = reports and name != "frozen-silent"
    rig.go(3.0, 0.1, send if speed < 1 else None)
    rig.check(max(rig.levels(at)) >= 2, "diagnostics report it")
    released = rig.now
    rig.robot.frozen, rig.reporting = False, reports
    n = len(rig.arrivals)
    rig.go(2.0)
    rig.go(1.0, 0.1, rig.ramping(speed))
    rig.check(len(rig.arrivals) > n, f"taken again after release: {len(rig.arrivals) - n}")
    rig.go(1.0)
    apart = rig.rates(at, released)[1] - place
    ahead_of, behind = apart.max(axis=1), -apart.min()
    # Noticed within 0.1 s, or a hundredth of the range; then come the lead, and the brake. Without reports, the
    # controller may be restarting, for up to 0.16 s. Joints that have not shown their play may have 0.03 rad of it, and
    # lag by 0.12 s.
    noticed = max((0.2 if name == "frozen-silent" else 0.1) * speed, 0.01)
    if name == "frozen-first":
        noticed = 0.03 + 0.12 * speed
    most = noticed + 0.03 * speed + speed**2 / (2 * rig.limits["a"]) + 0.005
    rig.check(ahead_of.max() < most, f"command goes {ahead_of.max():.4f} ahead of the arm, expected {most:.4f}")
    # The command must not lead further away from a standing arm; it goes to the arm, and yields a little further.
    creeps = ahead_of[-1] - ahead_of[700]
    said = f"from 0.7 to 3 s after, while the arm is held, the command goes {creeps * 1e3:.1f} mrad further away"
    rig.check(creeps < 1e-3, said)
    rig.check(behind < 0.3 * 0.05, f"the command yields by {behind:.4f}, beyond where the arm is held")
    fine = [d.get("deviation_rad") or 0 for d in rig.diagnostics if at + 1.0 < d["t"] < released and d["level"] == 0]
    odd = [deviation for deviation in fine if float(deviation) > 0.055]
    rig.check(not odd, f"{len(odd)} diagnostics say level OK at a deviation of {odd[:1]} rad")
    rig.good()
    yield rig


def one_old_state(rig: Rig, by: float = 0.2) -> None:
    """Let a joint state with an older stamp follow the next one, as from a second publisher."""

    def old(m: JointState) -> list[JointState]:
        rig.filter = None
        older = JointState(name=m.name, position=m.position, velocity=m.velocity)
        set_stamp(older, stamp_of(m) - round(by * SECOND))
        return [m, older]

    rig.filter = old


@case("hold", "hold-old-state", "hold-reactivate", "hold-respawn")
def hold(name: str) -> Iterator[Rig]:
    """After ~/stop with hold, the arm stays whatever happens to the node, which is restarted with `start_held`."""
    rig, send = streaming(0.4, 1.5)
    answer = rig.stop(hold=True)
    rig.go(1.0, 0.1, send)
    if name == "hold":
        rig.set(publish__bandwidth=5.0)
    elif name == "hold-old-state":
        one_old_state(rig)
    elif name == "hold-reactivate":
        rig.planner.change_state("deactivate")
        rig.go(0.1)
        rig.planner.change_state("activate")
    else:
        rig.respawn(publish__start_held=True)
        rig.wait_active(25)
    rig.go(0.3)
    place, n = rig.place[0], len(rig.arrivals)
    rig.go(1.5, 0.1, rig.ramping(0.4))
    moved = abs(rig.place[0] - place)
    rig.check(
        moved < 1e-6,
        f"while held, moves {moved * 1e3:.1f} mrad by {len(rig.arrivals) - n} messages; diagnostics "
        f"held={rig.diag('held')} level {rig.diag('level')}; answer '{answer.message}'",
    )
    rig.go(1.5)
    rig.good()
    yield rig


@case("stop-silent", "stop-silent-states")
def stop_silent(name: str) -> Iterator[Rig]:
    """~/stop brakes even if reports of the controller have ended, and joint states with them."""
    rig = Rig(max_horizon=1000)
    rig.ramping(0.5, 0.8, 159)()
    rig.go(1.6)
    rig.reporting, reports = False, rig.reporting
    rig.speaking = name != "stop-silent-states"
    rig.go(0.4)
    n, place = len(rig.arrivals), rig.place[0]
    moving = np.abs(rig.robot.commanded.velocity).max()
    answer = rig.stop()
    rig.go(1.5)
    travel = rig.place[0] - place
    rig.check(
        travel < 0.15,
        f"called at {moving:.2f} rad/s, went on for {travel:.3f} rad in 1.5 s; answer: {answer.success}, "
        f"'{answer.message}', {answer.duration:.2f} s; {len(rig.arrivals) - n} messages",
    )
    rig.reporting, rig.speaking = reports, True
    rig.go(7.0)
    rig.good()
    yield rig
