"""A client that sends a large batch to the node, as users write one, without choosing transports.

Prints what it chose. An argument is the size of its shared memory, as the option of tmpfs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import node_variants
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from ros_client import RosClient

from traj_integrator_ros.client import sequence
from traj_integrator_ros.wire.transport import prepare_transport

SHAPE = (1000, 32, 7)
JOINTS = [f"joint_{i}" for i in range(SHAPE[2])]


def main() -> None:
    """Send it, and wait for the answer."""
    for size in sys.argv[1:]:
        node_variants.shrink_shared_memory(size)
    chosen = prepare_transport(*SHAPE)
    client = RosClient(JOINTS)
    client.wait_until_active()
    client.settle_state(np.zeros(SHAPE[2]))
    for _ in range(3):
        client.answer(sequence(np.zeros(SHAPE), position=np.zeros(SHAPE[2])))
    client.close()
    print(chosen.reason)


if __name__ == "__main__":
    main()
