"""The node in a process of its own, and around it an arm in real time and a planner."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from kit.node_process import PythonProcess, write_parameters

from .environment import CACHE, CLOCK_SHIM
from .intentions import Motion, share_of_way
from .judge import Judged
from .loop import NS, Loop
from .planner import Planner

LIM = {"v": 2.0, "a": 10.0, "j": 500.0, "lo": -2.9, "hi": 2.9}
"""Usual limits of a joint, rad and s: velocity, acceleration, jerk, lowest and highest position."""
FREE = {"v": 2.0, "a": 10.0, "j": 200.0, "lo": None, "hi": None}
"""Limits of a joint that turns without end."""
_NAMES = {"v": "velocity", "a": "acceleration", "j": "jerk", "lo": "position_min", "hi": "position_max"}


class Rig(Loop, Planner, Judged):
    """A node, a robot in real time around it, and a planner.

    Args:
        dof: number of joints.
        limits: by the keys of `LIM`, for all joints or each; None: the node gets none.
        start: positions of the joints, rad.
        hard: the controller replaces trajectories at once.
        desired: the controller begins trajectories at the last command.
        arm: further arguments of the model of the arm.
        shim: give the node a clock that can be stepped apart from the controller's.
        ahead: by how much the controller's clock is ahead of the node's, s; needs the shim.
        warm: let the node move a little before the case begins.
        judge: rate of the replay, Hz.
        rate: rate of the controller, Hz.
        states_hz: rate of joint states, Hz.
        listen_states: whether joint states are published.
        reports_hz: rate of controller_state, Hz, where RIG_REPORTS allows it.
        parameters: parameters of the node, with `__` for dots.

    """

    def __init__(
        self,
        dof: int = 2,
        *,
        limits: dict | None = LIM,
        start: object = None,
        hard: bool = True,
        desired: bool = True,
        arm: dict[str, object] | None = None,
        shim: bool = False,
        ahead: float = 0.0,
        warm: bool = True,
        judge: int = 1000,
        rate: int = 500,
        states_hz: int = 250,
        listen_states: bool = True,
        reports_hz: int = 50,
        **parameters: object,
    ) -> None:
        Judged.__init__(self)
        self.limits, self.parameters = limits, parameters
        Loop.__init__(
            self,
            [f"joint{i}" for i in range(dof)],
            np.zeros(dof) if start is None else np.asarray(start, float),
            {"hard_replacement": hard, "interpolate_from_desired_state": desired, **(arm or {})},
            rate=rate, states_hz=states_hz, reports_hz=reports_hz * (os.environ.get("RIG_REPORTS") != "0"),
            judge_rate=judge, listen_states=listen_states,
        )  # fmt: skip
        self._folder = tempfile.TemporaryDirectory(dir=CACHE)
        clock, environment = Path(self._folder.name, "clock"), {}
        if shim:
            clock.write_bytes(struct.pack("<q", -round(ahead * NS)))
            with clock.open("r+b") as file:
                self._shim = mmap.mmap(file.fileno(), 8)
            environment = {"LD_PRELOAD": str(CLOCK_SHIM), "RIG_CLOCK": str(clock)}
        file, log = (Path(self._folder.name, name) for name in ("parameters.yaml", "node.log"))
        self._write_parameters(file)
        program = ["-m", "traj_integrator_ros", "--ros-args", "--params-file", file]
        self.node = PythonProcess(program, log, name="node", environment=environment)
        try:
            self.wait_active()
        except RuntimeError:  # otherwise the node would go on and disturb the next cases
            self.node.kill()
            raise
        if warm and self.limits and self.speak:
            self.warm_up()

    def _write_parameters(self, file: Path) -> None:
        given = {"joint_names": self.names, "device": "cpu", "limits.urdf": "none", "diagnostics.period": 0.1}
        for key, limit in (self.limits or {}).items():
            if limit is not None:
                given[f"limits.{_NAMES[key]}"] = np.broadcast_to(np.asarray(limit, float), self.dof).tolist()
        write_parameters(file, given | {name.replace("__", "."): value for name, value in self.parameters.items()})

    def wait_active(self, timeout: float = 60) -> None:
        """Wait until the node is active, and connected. Raises RuntimeError."""
        end = time.monotonic() + timeout
        mark = len(self.diagnostics)
        while time.monotonic() < end:
            self.go(0.1)
            is_active = any(d.get("lifecycle_state") == "active" for d in self.diagnostics[mark:])
            is_heard = self.planner.count_publishers("traj_integrator/joint_trajectory")
            if self.actions.get_subscription_count() and is_active and is_heard:
                self.go(0.6)
                return
        raise RuntimeError(f"node is not active: {self.node.output[-400:]}")

    def warm_up(self) -> None:
        """Move by half a milliradian and back, with a blend: the first motions take several times as long."""
        x, inward = 0.02 * np.arange(1, 41), 1.0
        if self.limits.get("hi") is not None:
            middle = (np.asarray(self.limits["hi"], float) + np.asarray(self.limits["lo"], float)) / 2
            inward = np.where(self.start > middle, -1.0, 1.0)
        for d in (4e-4, 5e-4):
            self.seq(self.start + inward * d * (share_of_way(x / 0.3) - share_of_way((x - 0.4) / 0.3))[:, None], 0.02)
            self.go(0.35)
        self.go(1.2)
        self.rejections.clear()
        self.warmed, self.judged_from = len(self.arrivals), self.t
        self.stall = 0.0

    def respawn(self, **parameters: object) -> None:
        """Kill the node and start it again, with some other parameters."""
        self.node.kill()
        self.parameters |= parameters
        self._write_parameters(Path(self.node.command[-1]))
        self.node.start()

    def close(self) -> None:
        """Close all entities, and end the node."""
        self.node.stop()
        self.executor.shutdown()
        for node in (self.arm_node, self.planner):
            node.destroy_node()
        self._folder.cleanup()

    def step_clock(self, seconds: float, node: bool = True, controller: bool = True) -> None:
        """Step the machine's clock: of the node's machine, and of the controller's (and planner's)."""
        by = round(seconds * NS)
        if controller:
            self.step += by
            self.event(by)
        if node:
            (was,) = struct.unpack("<q", self._shim[:8])
            self._shim[:8] = struct.pack("<q", was + by)

    @property
    def place(self) -> np.ndarray:
        """Commanded positions of the joints now `[dof]`."""
        return self.robot._state.position.copy()

    def late(self) -> list[float]:
        """Ages of messages that arrived after their start, s."""
        lead = self.parameters.get("publish__lead_time", 0.02)
        stamped = (m for m in self.arrivals[self.warmed :] if m.fields.get("stamp_ns"))
        return [m.age for m in stamped if m.age > lead]

    def follows(self, at: Motion, sent: int, begin: float, end: float, most: float = 3e-3) -> tuple[np.ndarray, ...]:
        """Check that every sent chunk is published, and that the command is close to the motion; return `rates`."""
        published = len(self.arrivals) - self.warmed
        self.check(published >= sent, f"{published} published, expected {sent} or more {self.reasons()}")
        rates = t, p, *_ = self.rates(begin, end)
        error = np.abs(p - at(t)[0]).max()
        self.check(error < most, f"error {error * 1e3:.2f} mrad")
        return rates

    def levels(self, since: float) -> list[int]:
        """Levels of the diagnostics after a time."""
        return [d["level"] for d in self.diagnostics if d["t"] > since]

    def diag(self, key: str = "message", default: str = "") -> str:
        """Return a value of the latest diagnostics."""
        return self.diagnostics[-1].get(key, default) if self.diagnostics else default

    def reasons(self) -> dict[str, int]:
        """Return the number of the node's rejections by reason."""
        return dict(Counter(self.rejections))
