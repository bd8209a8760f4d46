"""Draws docs/figures/monitor.svg: the view of `monitor` for a node that works for a robot, and refuses some input.

Runs the node with examples/simulated_robot.py and examples/planner.py, sends a few bad sequences between, and takes the
view of the terminal. Run `python docs/figures/monitor.py` in the project's environment.
"""

from __future__ import annotations

import io
from array import array
from contextlib import ExitStack
from pathlib import Path

from recording_session import example, isolated_environment, running
from rich.console import Console

SECONDS, WIDTH = 20.0, 118


def main() -> None:
    """Watch for a while and export the last view."""
    isolated_environment()
    from traj_integrator_ros.tools.monitor import REFRESH_S, _Watch
    from traj_integrator_ros.tools.ros_session import RosSession

    with ExitStack() as stack:
        stack.enter_context(running())
        for name in ("simulated_robot.py", "planner.py"):
            stack.enter_context(example(name))
        session = stack.enter_context(RosSession("monitor"))
        watch = _Watch(session, None)
        send_bad = bad_sequences(session)
        for step in range(int(SECONDS / REFRESH_S)):
            session.spin(REFRESH_S)
            view = watch.group()
            if step in (20, 30, 40):
                send_bad()
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(view)
    console.save_svg(str(Path(__file__).with_suffix(".svg")), title="ros2 run traj_integrator_ros monitor")


def bad_sequences(session: object) -> object:
    """Return a function that sends one sequence that is too short, and one with a NaN."""
    from traj_integrator_interfaces.msg import ActionSequence

    publisher = session.node.create_publisher(ActionSequence, "traj_integrator/action_sequence", 10)

    def send() -> None:
        for data in ([0.0] * 13, [float("nan")] + [0.0] * 13):
            publisher.publish(ActionSequence(control_space=2, batch=1, horizon=2, data=array("f", data)))

    return send


if __name__ == "__main__":
    main()
