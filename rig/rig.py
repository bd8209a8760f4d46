"""The node in a process of its own, and around it an arm in real time and a planner."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from kit.arm import Robot
from kit.controller import SECOND
from kit.node_process import NodeProcess, write_parameters
from traj_integrator_interfaces.msg import ActionSequence, Rejection
from traj_integrator_interfaces.srv import Stop
from traj_integrator_ros.client import sequence, set_stamp
from traj_integrator_ros.client.requests import positions_message

from .environment import CACHE, CLOCK_SHIM
from .loop import RealTime
from .senders import Motion, ramping, share_of_way

try:
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None

LIM = {"v": 2.0, "a": 10.0, "j": 500.0, "lo": -2.9, "hi": 2.9}
"""Usual limits of a joint, rad and s: velocity, acceleration, jerk, lowest and highest position."""
FREE = {"v": 2.0, "a": 10.0, "j": 200.0, "lo": None, "hi": None}
"""Limits of a joint that turns without end."""
_NAMES = {"v": "velocity", "a": "acceleration", "j": "jerk", "lo": "position_min", "hi": "position_max"}


class Rig(RealTime):
    """A node, a robot in real time around it, and a planner.

    Args:
        dof, start: number of joints, and their positions, rad.
        limits: by the keys of `LIM`, for all joints; None: the node gets none.
        arm: further arguments of the model of the arm, whose controller replaces trajectories at once and begins them
            at the last command.
        shim: give the node a clock that can be stepped apart from the controller's, which is `ahead` by a time, s.
        warm: let the node move a little before the case begins.
        rate, states_hz, reports_hz: of the controller, of joint states (0: none) and of reports, Hz.
        parameters: parameters of the node, with `__` for dots; plans start at the command unless they say otherwise.

    """

    def __init__(
        self, dof: int = 2, *, limits: dict | None = FREE, start: object = None, arm: dict[str, object] | None = None,
        shim: bool = False, ahead: float = 0.0, warm: bool = True, rate: int = 1000, states_hz: int = 250,
        reports_hz: int = 50, **parameters: object,
    ) -> None:  # fmt: skip
        model = {"hard_replacement": True, "interpolate_from_desired_state": True, **(arm or {})}
        robot = Robot([f"joint{i}" for i in range(dof)], rate=rate, **model)
        robot.set_state(np.zeros(dof) if start is None else start)
        given = JointTrajectoryControllerState if os.environ.get("RIG_REPORTS") != "0" else None
        super().__init__(robot, given, states_hz, reports_hz)
        self.limits, self.parameters = limits, {"start_from": "previous"} | parameters
        self.diagnostics: list[dict] = []
        self.rejections: list[str] = []
        """Reasons of rejections."""
        self.warmed = 0
        """Number of arrivals at the end of the warm-up."""
        self._connect()
        self._folder = tempfile.TemporaryDirectory(dir=CACHE)
        folder, environment = Path(self._folder.name), {}
        if shim:
            (clock := folder / "clock").write_bytes(struct.pack("<q", -round(ahead * SECOND)))
            with clock.open("r+b") as file:
                self._shim = mmap.mmap(file.fileno(), 8)
            environment = {"LD_PRELOAD": str(CLOCK_SHIM), "RIG_CLOCK": str(clock)}
        self.node = NodeProcess(folder, self._parameters(), environment=environment)
        try:
            self.wait_active()
        except TimeoutError as error:  # otherwise the node would go on and disturb the next cases
            self.node.kill()
            raise TimeoutError(f"{error}: {self.node.output[-400:]}") from None
        if warm and self.limits and self.speaking:
            self._warm_up()

    def _connect(self) -> None:
        planner = self.planner
        self._actions = planner.publisher(ActionSequence, "~/action_sequence", 10)
        self._positions = planner.publisher(JointTrajectory, "~/position_trajectory", 10)
        self._stopper = planner.client(Stop, "stop")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.description = planner.node.create_publisher(String, "robot_description", latched)
        planner.subscribe(DiagnosticArray, "/diagnostics", self._take_diagnostics)
        planner.subscribe(Rejection, "~/rejections", lambda m: self.rejections.append(m.reason))

    def _parameters(self) -> dict[str, object]:
        given = {"joint_names": self.robot.joints, "device": "cpu", "limits.urdf": "none", "diagnostics.period": 0.1}
        limits = {name: limit for name, limit in (self.limits or {}).items() if limit is not None}
        given |= {f"limits.{_NAMES[name]}": [float(limit)] * len(self.robot.joints) for name, limit in limits.items()}
        return given | {name.replace("__", "."): value for name, value in self.parameters.items()}

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            own = {"level": int.from_bytes(status.level, "little"), "message": status.message, "t": self.now}
            self.diagnostics.append({entry.key: entry.value for entry in status.values} | own)

    def wait_active(self, timeout_s: float = 60.0) -> None:
        """Wait until the node is active, and connected. Raises TimeoutError."""
        self.planner.wait_until_active(timeout_s)
        count = self.planner.node.count_publishers

        def is_connected() -> bool:
            hears = self._actions.get_subscription_count() and self._stopper.service_is_ready()
            return bool(hears and count("traj_integrator/joint_trajectory"))

        self.planner.wait_for(is_connected, "the node connected", timeout_s)
        self.go(0.6)

    def _warm_up(self) -> None:
        """Move by half a milliradian and back, with a blend: the first motions take several times as long."""
        x, start = 0.02 * np.arange(1, 41), self.place
        for d in (4e-4, 5e-4):
            self.sequence(start + d * (share_of_way(x / 0.3) - share_of_way((x - 0.4) / 0.3))[:, None], 0.02)
            self.go(0.35)
        self.go(1.2)
        self.rejections.clear()
        self.warmed, self.judged_from, self.stall = len(self.arrivals), self.now, 0.0

    def respawn(self, **parameters: object) -> None:
        """Kill the node and start it again, with some other parameters."""
        self.node.kill()
        self.parameters |= parameters
        write_parameters(Path(self._folder.name) / "parameters.yaml", self._parameters())
        self.node.start()

    def close(self) -> None:
        """Leave the domain, and end the node."""
        self.node.stop()
        super().close()
        self._folder.cleanup()

    def step_clock(self, seconds: float, node: bool = True, controller: bool = True) -> None:
        """Step the machine's clock: of the node's machine, and of the controller's (and planner's)."""
        by = round(seconds * SECOND)
        if controller:
            self._ahead_ns += by
        if node:
            (was,) = struct.unpack("<q", self._shim[:8])
            self._shim[:8] = struct.pack("<q", was + by)

    # What a planner does

    def sequence(self, rows: np.ndarray, dt: float, *, space: int = 1, since: float | None = None) -> None:
        """Send a sequence `[n, dof]` whose first step begins now, or at a time of the rig, s."""
        message = sequence(np.asarray(rows, float)[None], dt=dt, control_space=space)
        set_stamp(message, self.clock(None if since is None else self._begin_ns + round(since * SECOND)))
        self._actions.publish(message)

    def plan(self, times: object, points: object, stamp_ns: int = 0) -> None:
        """Send positions at times as a position trajectory."""
        self._positions.publish(positions_message(points, times, self.robot.joints, stamp_ns))

    def stop(self, hold: bool = False, *, wait: bool = True) -> Stop.Response | None:
        """Call ~/stop; returns the answer, if it waits for it."""
        answer, end = self._stopper.call_async(Stop.Request(hold=hold)), self.now + 5.0
        while wait and not answer.done() and self.now < end:
            self.go(0.004)
        return answer.result() if wait else None

    def set(self, **values: object) -> list[str]:
        """Set parameters, `__` for dots; returns reasons for failures."""
        return [reason for done, reason in self.planner.set_parameters(**values) if not done]

    def ramping(self, speed: float, seconds: float = 0.5, rows: int = 16, **options: object) -> Callable[[], None]:
        """Return a function that sends rows of all joints, which reach a speed, rad/s, after `seconds`."""
        return ramping(self, speed, seconds=seconds, rows=rows, **options)

    # What is found

    def late(self) -> list[float]:
        """Ages of messages that arrived after their start, s."""
        lead = self.parameters.get("publish__lead_time", 0.02)
        return [m.age for m in self.arrivals[self.warmed :] if m.stamp_ns and m.age > lead]

    def follows(self, at: Motion, sent: int, begin: float, end: float, most: float = 3e-3) -> tuple[np.ndarray, ...]:
        """Check that every sent chunk is published, and that the command is close to the motion; return `rates`."""
        published = len(self.arrivals) - self.warmed
        self.check(published >= sent, f"{published} published, expected {sent} or more {self.reasons()}")
        rates = t, p, *_ = self.rates(begin, end)
        error = np.abs(p - at(t)[0]).max()
        self.check(error < most, f"error {error * 1e3:.2f} mrad")
        return rates

    def levels(self, since: float) -> list[int]:
        """Levels of the diagnostics after a time, s; -1 if there are none."""
        return [d["level"] for d in self.diagnostics if d["t"] > since] or [-1]

    def diag(self, key: str = "message", default: str = "") -> str:
        """Return a value of the latest diagnostics."""
        return self.diagnostics[-1].get(key, default) if self.diagnostics else default

    def reasons(self) -> dict[str, int]:
        """Return the number of the node's rejections by reason."""
        return dict(Counter(self.rejections))
