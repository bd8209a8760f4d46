"""A client that calls ~/integrate, as often as said on the command line, and never reads the answers; to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from traj_integrator_ros.traffic.node_process import source_environment

NODE = "/traj_integrator"
DOF = 3


@contextmanager
def connected_caller(calls: int) -> Iterator[subprocess.Popen]:
    """Run this file until it is connected; it calls after a line on its standard input. In the end, kill it."""
    from preloaded_python import preloaded_python  # in the process of the tests

    process = subprocess.Popen(
        [preloaded_python(), __file__, str(calls)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **source_environment()},
    )
    try:
        assert process.stdout.readline().strip() == "connected"
        yield process
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Connect, wait for a line, call, and wait to be killed."""
    import numpy as np
    import rclpy

    from traj_integrator_interfaces.srv import Integrate
    from traj_integrator_ros.traffic.messages import sequence
    from traj_integrator_ros.traffic.participant import Participant

    rclpy.init()
    participant = Participant(NODE, name="caller")
    request = Integrate.Request(actions=sequence(np.zeros((64, 64, DOF)), position=np.zeros(DOF)))
    # Once answered, the node has found this client: what is sent from now on gets there.
    participant.call(Integrate, "integrate", request, 2.0, attempts=20)
    print("connected", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[1])):
        participant.client(Integrate, "integrate").call_async(request)
    print("called", flush=True)
    time.sleep(3600.0)


if __name__ == "__main__":
    main()
