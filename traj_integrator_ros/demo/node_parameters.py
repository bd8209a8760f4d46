"""The parameters of the demo's node. Knows no ROS."""

from __future__ import annotations

from .motion import Motion
from .windows import MAX_HORIZON, Paths


def node_parameters(motion: Motion, paths: Paths, batch: int, device: str) -> str:
    """The parameter file for the node, as YAML: the motion's joints, its time step, shapes to warm up."""
    horizons = sorted({paths.any_step.horizon, paths.uniform.horizon})
    longest = float((motion.time[1:] - motion.time[:-1]).max())
    moved = float(abs(motion.position[1:] - motion.position[:-1]).max())
    fastest = float(abs(motion.velocity).max())
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
            f"    state_timeout: {max(5.0, 3 * longest):.3f}  # s; longer than a step and a pause of the PC",
            f"    limits.start_deviation: {max(0.1, 2 * moved):.3f}  # rad; it moves up to {moved:.3f} rad in a step",
            f"    limits.assumed_velocity: {max(1.0, 2 * fastest):.3f}  # rad/s; it moves at up to {fastest:.3f} rad/s",
            "    limits.action: warn  # the robot jumps where the motion starts over",
            "    supervision.deviation: 0.0  # rad; the robot plays its recording, whatever it is sent",
            "    diagnostics.period: 0.25  # s",
            "",
        ]
    )
