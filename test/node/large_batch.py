"""A large batch through a node, both processes as their users start them: nothing says by which transports.

Prints, as JSON, what node and client chose, and how much shared memory the node has mapped, bytes.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from traj_integrator_ros.traffic.node_process import NodeProcess
from traj_integrator_ros.wire.transport import PROFILE_VARIABLES, prepare_transport

SHAPE = (1000, 32, 7)
JOINTS = [f"joint_{i}" for i in range(SHAPE[2])]
PARAMETERS = {
    "joint_names": JOINTS,
    "device": "cpu",
    "max_batch": SHAPE[0],
    "max_horizon": SHAPE[1],
    "state_timeout": 0.0,
    "limits.assumed_velocity": 1.0,
}


def main() -> int:
    """Start a node, send it a batch, and wait for the answer."""
    for name in PROFILE_VARIABLES:
        os.environ.pop(name, None)
    with TemporaryDirectory() as folder:
        os.environ["ROS_HOME"] = folder
        node = NodeProcess(Path(folder), PARAMETERS)
        chosen = prepare_transport(*SHAPE)
        sys.path.append(str(Path(__file__).resolve().parents[1]))
        from ros_client import RosClient

        from traj_integrator_ros.traffic.messages import sequence

        client = RosClient(JOINTS)
        try:
            client.wait_until_active()
            client.settle_state(np.zeros(SHAPE[2]))
            for _ in range(3):
                client.answer(sequence(np.zeros(SHAPE), position=np.zeros(SHAPE[2])))
            mapped = mapped_segments(node.pid)
        finally:
            client.close()
            node.close()
        reasons = [line.rpartition("]: ")[2] for line in node.output.splitlines() if "messages of up to" in line]
    print(json.dumps({"client": chosen.reason, "node": reasons, "segments": mapped}))
    return 0


def mapped_segments(pid: int) -> list[int]:
    """Sizes of the shared memory that the middleware has mapped, bytes."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    spans = [line.split()[0].split("-") for line in lines if re.search(r"/dev/shm/fast(dds|rtps)_[0-9a-f]{16}", line)]
    return [int(end, 16) - int(begin, 16) for begin, end in spans]


if __name__ == "__main__":
    sys.exit(main())
