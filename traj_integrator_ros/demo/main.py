"""The main job from the command line: the arguments, and the motion that the robot plays."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..motions.extras import require
from ..motions.writing import write_table
from ..tools.command_line import ToolFailure, ToolParser, file, folder, number, output, run_tool

MAX_SECONDS = 30.0
"""Longer motions are cut at this time, s, so that the demo ends within a minute."""
NAME = "demo"
EXAMPLES = (
    (NAME, "a Panda motion planned on the spot"),
    (f"{NAME} recording.db3 --out build/demo", "a recording of joint states"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns 0 if every sequence is answered and the optimum found, or another code of the tools."""
    description = "Sends a robot's motion through the integrator node over DDS, measures and draws what comes back."
    parser = ToolParser(NAME, description, EXAMPLES, uses_ros=True)
    kinds = (
        "rosbag2 folder, .db3 or .mcap; CSV (time, position_<joint>, velocity_<joint>) or NPZ. Default: a Panda motion "
        "planned on the spot"
    )
    parser.add_argument("recording", nargs="?", type=file, metavar="RECORDING", help=kinds)
    parser.option("--topic", "JointState topic of a bag (default: /joint_states, or the only one)")
    parser.option("--out", "default: %(default)s", "DIR", folder, Path("build/demo"))
    parser.option("--seconds", "use the first S seconds of the motion only", "S", _seconds, MAX_SECONDS)
    parser.flag("--external-node", "use the node traj_integrator that runs already (started by a launch file)")
    parser.flag("--arm", "draw an arm with masses under an optimizer, a policy, a push and a stop (source folder only)")
    parser.option("--write-node-params", "write the parameter file of a node for this motion, and end", "FILE", output)
    parser.option("--write-motion", "write the motion as a table, and end", "FILE.csv", output)
    options = parser.parse(arguments)
    return run_tool(NAME, lambda: _main(options))


def _seconds(text: str) -> float:
    if (value := number(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1 s, got {text!r}")
    return value


def _main(options: argparse.Namespace) -> int:
    for module in ("matplotlib", "scipy", *([] if options.recording else ["ruckig"])):
        require(module, "the demo", extra="demo")
    # Torch, ROS and scipy are imported here, so that a wrong argument is reported at once.
    if options.arm:
        if find_spec("rig") is None:
            raise ToolFailure("--arm: expected this project's source folder as the working directory")
        import_module("rig.physics.demo").draw_arm(options.out / "arm.png", min(5.0, options.seconds))
        return 0
    from .planned import planned_motion
    from .recording import cut, load_recording, plan_on
    from .windows import write_node_parameters

    recording = load_recording(options.recording, options.topic) if options.recording else planned_motion()
    recording = cut(recording, min(MAX_SECONDS, options.seconds))
    if options.write_motion is not None:
        write_table(options.write_motion, recording)
        print(f"written: {options.write_motion}: {recording.duration:.1f} s, {len(recording.time)} samples")
        return 0
    planned = plan_on(recording)
    if options.write_node_params is not None:
        write_node_parameters(recording, planned, options.write_node_params)
        return 0
    try:
        from .run import run
    except ImportError as error:
        raise ToolFailure(f"ROS 2 and the messages of traj_integrator_interfaces are needed: {error}") from None
    return run(recording, planned, options)


if __name__ == "__main__":
    sys.exit(main())
