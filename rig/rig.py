"""The node in a process of its own, and around it an arm in real time and a planner."""

from __future__ import annotations

import mmap
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

from .environment import CACHE, CLOCK_SHIM
from .intentions import minimum_jerk
from .judge import Judged
from .loop import NS, Loop
from .planner import Planner

LIM = {"v": 2.0, "a": 10.0, "j": 500.0, "lo": -2.9, "hi": 2.9}
FREE = {"v": 2.0, "a": 10.0, "j": 200.0, "lo": None, "hi": None}
"""Limits of a joint: velocity, acceleration, jerk, and of position."""


class Rig(Loop, Planner, Judged):
    """A node, a robot in real time around it, and a planner.

    Args:
        dof: number of joints.
        limits: by the keys of `LIM`, for all joints or each; None: the node is given none.
        names: of the joints.
        start: where they are, rad.
        reports: whether the controller reports; default: as RIG_REPORTS says.
        hard: the controller replaces trajectories at once.
        desired: it joins them from the last command.
        arm: further options of the model of the arm.
        shim: give the node a clock that can be stepped apart from the controller's.
        ahead: by how much the controller's clock is ahead of the node's, s; needs the shim.
        warm: let the node move a little before the case begins.
        judge: rate of the replay, Hz.
        options: rate, states_hz, reports_hz, listen_states, states_delay of the loop; others: parameters of the node,
            `__` for dots.

    """

    def __init__(
        self,
        dof: int = 2,
        *,
        limits: dict | None = LIM,
        names: list[str] | None = None,
        start: object = None,
        reports: bool | None = None,
        hard: bool = True,
        desired: bool = True,
        arm: dict[str, object] | None = None,
        shim: bool = False,
        ahead: float = 0.0,
        warm: bool = True,
        judge: int = 1000,
        **options: object,
    ) -> None:
        looping = {"rate": 500, "states_hz": 250, "reports_hz": 50, "listen_states": True, "states_delay": 0.0}
        looping |= {name: options.pop(name) for name in looping.keys() & options.keys()}
        if reports is None:
            reports = os.environ.get("RIG_REPORTS") != "0"
        if not reports:
            looping["reports_hz"] = 0
        start = np.zeros(dof) if start is None else np.asarray(start, float)
        options_of_arm = {"hard_replacement": hard, "interpolate_from_desired_state": desired, **(arm or {})}
        Judged.__init__(self)
        names = names or [f"joint{i}" for i in range(dof)]
        Loop.__init__(self, names, start, options_of_arm, judge_rate=judge, **looping)
        self.limits, self.parameters = limits, options
        self.shim = None
        if shim:
            self.shim_file = tempfile.NamedTemporaryFile(dir=CACHE, prefix="clock", delete=False)
            self.shim_file.write(struct.pack("<q", -round(ahead * NS)))
            self.shim_file.flush()
            self.shim = mmap.mmap(self.shim_file.fileno(), 8)
        self.node: subprocess.Popen | None = None
        self.start_node()
        try:
            self.wait_active()
        except RuntimeError:  # nobody could end it otherwise, and the next cases would meet it
            self.node.kill()
            raise
        if warm and self.limits and self.speak:
            self.warm_up()

    def start_node(self) -> None:
        """Start the process."""
        lines = [
            "/**:",
            "  ros__parameters:",
            f"    joint_names: [{', '.join(self.names)}]",
            "    device: cpu",
            "    limits.urdf: none",
            "    diagnostics.period: 0.1",
        ]
        given = dict(self.parameters)
        if self.limits:
            for key, name in (
                ("v", "velocity"),
                ("a", "acceleration"),
                ("j", "jerk"),
                ("lo", "position_min"),
                ("hi", "position_max"),
            ):
                if self.limits.get(key) is not None:
                    given.setdefault(
                        f"limits__{name}", np.broadcast_to(np.asarray(self.limits[key], float), self.dof).tolist()
                    )
        for key, value in given.items():
            name = key.replace("__", ".")
            lines = [line for line in lines if not line.startswith(f"    {name}:")]
            lines.append(f"    {name}: {str(value).lower() if isinstance(value, bool) else value}")
        self.yaml = tempfile.NamedTemporaryFile("w", dir=CACHE, suffix=".yaml", delete=False)
        self.yaml.write("\n".join(lines) + "\n")
        self.yaml.close()
        env = dict(os.environ)
        if self.shim:
            env |= {"LD_PRELOAD": str(CLOCK_SHIM), "RIG_CLOCK": self.shim_file.name}
        self.log = open(CACHE / f"node_{os.getpid()}.log", "a")
        self.node = subprocess.Popen(
            [sys.executable, "-m", "traj_integrator_ros", "--ros-args", "--params-file", self.yaml.name],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=env,
        )

    def wait_active(self, timeout: float = 60) -> None:
        """Wait until the node is active, and connected. Raises RuntimeError."""
        end = time.monotonic() + timeout
        mark = len(self.diagnostics)
        while time.monotonic() < end:
            self.go(0.1)
            if (
                self.actions.get_subscription_count()
                and any(d.get("lifecycle_state") == "active" for d in self.diagnostics[mark:])
                and self.trajectories.handle is not None
                and self.planner.count_publishers("traj_integrator/joint_trajectory")
            ):
                self.go(0.6)
                return
        raise RuntimeError(f"node is not active: {pathlib.Path(self.log.name).read_text()[-400:]}")

    def warm_up(self) -> None:
        """A motion of half a milliradian out and back, with a join in it: the first ones take several times as long."""
        x = 0.02 * np.arange(1, 41)
        inward = 1.0
        if self.limits.get("hi") is not None:
            middle = (np.asarray(self.limits["hi"], float) + np.asarray(self.limits["lo"], float)) / 2
            inward = np.where(self.start > middle, -1.0, 1.0)
        for d in (4e-4, 5e-4):
            self.seq(self.start + inward * (minimum_jerk(x, 0.3, d) - minimum_jerk(x - 0.4, 0.3, d))[:, None], 0.02)
            self.go(0.35)
        self.go(1.2)
        self.rejections.clear()
        self.warmed, self.judged_from = len(self.arrivals), self.t
        self.stall = 0.0

    def end_node(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the process."""
        if self.node and self.node.poll() is None:
            self.node.send_signal(how)
            end = time.monotonic() + 10
            while self.node.poll() is None and time.monotonic() < end:
                self.go(0.02)
            if self.node.poll() is None:
                self.node.kill()
        self.node = None

    def close(self) -> None:
        """End everything."""
        self.end_node()
        self.executor.shutdown()
        for node in (self.arm_node, self.planner):
            node.destroy_node()
        os.unlink(self.yaml.name)
        if self.shim:
            os.unlink(self.shim_file.name)

    def step_clock(self, seconds: float, node: bool = True, controller: bool = True) -> None:
        """Step the machine's clock: of the node's machine, and of the controller's (and planner's)."""
        if controller:
            by = round(seconds * NS)
            self.step += by
            self.event(("step", by))
        if node:
            (was,) = struct.unpack("<q", self.shim[:8])
            self.shim[:8] = struct.pack("<q", was + round(seconds * NS))

    def late(self) -> list[float]:
        """Ages of messages that arrived after they were to be taken up, s."""
        lead = self.parameters.get("publish__lead_time", 0.02)
        return [m.age for m in self.arrivals[self.warmed :] if m.age > lead]

    def diag(self, key: str = "message", default: str = "") -> str:
        """A value of the latest diagnostics."""
        return self.diagnostics[-1].get(key, default) if self.diagnostics else default

    def reasons(self) -> dict[str, int]:
        """How often the node has rejected what, by reason."""
        out = {}
        for _, reason, _ in self.rejections:
            out[reason] = out.get(reason, 0) + 1
        return out
