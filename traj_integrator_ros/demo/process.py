"""The integrator node as a process of its own, and the DDS environment that keeps the demo on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..tools.ros_domain import claim_domain
from .motion import Motion
from .windows import MAX_HORIZON, Paths

NODE_NAME = "traj_integrator"
PROFILE = "fastdds_localhost.xml"
STOP_WITHIN = 5.0


class NodeDied(Exception):
    """The integrator node ended by itself; the message carries the end of its log."""


def keep_dds_on_this_machine() -> None:
    """Set the environment of this process and its children; call it before anything imports rclpy.

    What the user has set stays: discovery range, domain, profile.
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if "ROS_DOMAIN_ID" not in os.environ:
        os.environ["ROS_DOMAIN_ID"] = str(claim_domain())
    names = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
    profile = config_file(PROFILE)
    if profile is not None and not any(name in os.environ for name in names):
        # Fast DDS 3 renamed the variable, and warns of the old name.
        has_fast_dds_2 = os.environ.get("ROS_DISTRO") in ("humble", "iron", "jazzy")
        os.environ[names[1] if has_fast_dds_2 else names[0]] = str(profile)


def config_file(name: str) -> Path | None:
    """A file of config/, in the source tree or installed; None where there is none."""
    source = Path(__file__).resolve().parents[2] / "config" / name
    if source.is_file():
        return source
    for prefix in [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]:
        installed = Path(prefix) / "share" / "traj_integrator_ros" / "config" / name
        if prefix and installed.is_file():
            return installed
    return None


def node_parameters(motion: Motion, paths: Paths, batch: int, device: str) -> str:
    """The parameter file for the node, as YAML: the motion's joints, its time step, shapes to warm up."""
    horizons = sorted({paths.any_step.horizon, paths.uniform.horizon})
    longest = float((motion.time[1:] - motion.time[:-1]).max())
    moved = float(abs(motion.position[1:] - motion.position[:-1]).max())
    shapes = ", ".join(f'"{batch}x{horizon}"' for horizon in horizons)
    names = ", ".join(f'"{name}"' for name in motion.joint_names)
    return "\n".join(
        [
            "# Written by the demo.",
            "/**:",
            "  ros__parameters:",
            f"    joint_names: [{names}]",
            f"    device: {device}",
            f"    dt: {paths.uniform.motion.step:.9f}  # s",
            f"    max_batch: {max(64, batch)}",
            f"    max_horizon: {max(128, MAX_HORIZON)}",
            f"    warmup: [{shapes}]",
            f"    state_timeout: {max(0.5, 3 * longest):.3f}  # s; the recording's longest step is {longest:.3f} s",
            f"    limits.start_deviation: {max(0.1, 2 * moved):.3f}  # rad; it moves up to {moved:.3f} rad in a step",
            "    diagnostics.period: 0.25  # s",
            "",
        ]
    )


class IntegratorProcess:
    """`python -m traj_integrator_ros` with a parameter file, its output in a log file.

    Args:
        parameters: parameter file (YAML).
        log: file that takes the node's output.
        module: what is run; one that measures the node may stand in for it.

    """

    def __init__(self, parameters: Path, log: Path, module: str = "traj_integrator_ros") -> None:
        self._log = log
        command = [sys.executable, "-m", module, "--ros-args", "--params-file", str(parameters)]
        with log.open("wb") as output:
            # A session of its own: Ctrl-C in the terminal is for the demo, which then stops the node.
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def pid(self) -> int:
        """Process id of the node."""
        return self._process.pid

    def check(self) -> None:
        """Raise NodeDied if the node has ended."""
        code = self._process.poll()
        if code is not None:
            raise NodeDied(
                f"the integrator node ended with exit code {code}; the end of {self._log}:\n{self._log_end()}"
            )

    def stop(self) -> int:
        """Interrupt the node, wait, and return its exit code; kills it where it does not end in time."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self._process.wait()

    def _log_end(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:]) or "(nothing)"


def wait_until(done: Callable[[], bool], alive: Callable[[], None], timeout: float, period: float = 0.05) -> bool:
    """Poll `done()` until it is true or `timeout` s have passed; `alive()`, called in between, may raise."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if done():
            return True
        alive()
        time.sleep(period)
    return False
