"""Programs with the node under observation, or without something that it needs."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time

MOST_ELEMENTS = 10_000
LARGEST_FILE = 4096
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS of unshare(2)
_SHARED_MEMORY = ("-t", "tmpfs", "none", "/dev/shm", "-o")


def may_mount() -> bool:
    mount = ["unshare", "--mount", "mount", *_SHARED_MEMORY, "size=1m"]
    try:
        return subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        return False


def shrink_shared_memory(size: str) -> None:
    """Give this process a /dev/shm of its own, with a size as for tmpfs; needs the permission to mount."""
    ctypes.CDLL(None).unshare(_NEW_MOUNTS)
    for arguments in (["--make-rprivate", "/"], [*_SHARED_MEMORY, f"size={size}"]):
        subprocess.run(["mount", *arguments], check=True)


def without_compiled_parts() -> None:
    """Hide the compiled parts, which a package installed without a compiler lacks."""
    for name in ("kernels.native._loops", "kernels.retime._native", "execution._native"):
        sys.modules[f"traj_integrator_ros.{name}"] = None


def with_hardly_any_shared_memory() -> None:
    """A /dev/shm with room for nothing."""
    shrink_shared_memory("100k")


def where_no_file_grows() -> None:
    """A full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def with_output_that_nobody_reads() -> None:
    """The node's output goes to a pipe whose reader is gone, as with `ros2 run ... | head`."""
    read, write = os.pipe()
    os.dup2(write, 1)
    os.dup2(write, 2)
    os.close(read)
    os.close(write)


SLOW_S, MANY = 1.0, 100


def with_slow_reading() -> None:
    """Reading a plan takes the node a second, like a much longer one, while other threads run."""
    import time

    from traj_integrator_ros.node import topic_handlers

    read = topic_handlers.read_position_trajectory

    def slow(*given: object) -> object:
        time.sleep(SLOW_S)
        return read(*given)

    topic_handlers.read_position_trajectory = slow


def with_few_waiting_calls() -> None:
    """Calls beyond the fifth that waits are refused."""
    from traj_integrator_ros.node import services

    services.MOST_CALLS = 5


def with_slow_searches() -> None:
    """Searches for slower motions that take a fifth of a second more."""
    from traj_integrator_ros.governor.planned_motion import Task

    motion = Task.motion

    def slow(task: Task, *, slows: bool) -> object:
        time.sleep(0.2 * slows)
        return motion(task, slows=slows)

    Task.motion = slow


def short_of_memory() -> None:
    """A device that holds no buffer of more than 10,000 elements."""
    import torch

    from traj_integrator_ros.engine.runners import Buffers

    allocate = Buffers._allocate

    def allocate_or_fail(self: Buffers, side: str, size: int, dtype: torch.dtype) -> torch.Tensor:
        if size > MOST_ELEMENTS:
            raise torch.OutOfMemoryError(f"tried to allocate {size} elements")
        return allocate(self, side, size, dtype)

    Buffers._allocate = allocate_or_fail


if __name__ == "__main__":
    globals()[sys.argv.pop(1)]()
    from traj_integrator_ros.node.main import main

    sys.exit(main())
