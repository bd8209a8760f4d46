"""The node with something that it must do without, or watched, as programs."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
MOST_ELEMENTS = 10_000
KINDS = {"action_sequence": "sequence", "evaluate": "evaluate"}
"""The functions of the node that answer messages."""


def program(variant: Callable[[], None]) -> list[str]:
    """The arguments of Python that start a variant."""
    return [__file__, variant.__name__]


def shared_memory_of(size: str) -> tuple[str, ...]:
    """What starts a program where /dev/shm has this size, as the option of tmpfs; needs the permission to mount."""
    return ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size={size} none /dev/shm && exec "$@"', "sh")


def may_mount() -> bool:
    try:
        return subprocess.run([*shared_memory_of("1m"), "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def with_little_shared_memory() -> None:
    """A small /dev/shm, as in a container."""
    python = f"{sys.prefix}/bin/python"  # whose node is in the same mount namespace, in all circumstances
    os.execvp("unshare", [*shared_memory_of("8m"), python, "-m", "traj_integrator_ros", *sys.argv[1:]])


def on_rclpys_executor() -> None:
    """An rclpy that lacks what the lean executor needs."""
    from traj_integrator_ros.node import executor

    executor.NEEDED["WaitSet"] += ("no_such_function",)


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


def on_an_older_rclpy() -> None:
    """An rclpy that has only the features of Humble's."""
    import rclpy.event_handler
    from rclpy.impl.implementation_singleton import rclpy_implementation
    from rclpy.lifecycle import LifecycleNode
    from rclpy.node import Node
    from rclpy.subscription import Subscription

    sys.modules["rclpy.qos_event"] = rclpy.event_handler
    for module in ("rclpy.event_handler", "rclpy.service_introspection", "rclpy.clock_type"):
        sys.modules[module] = None  # as if it could not be found
    del Node.add_pre_set_parameters_callback, Node.add_post_set_parameters_callback
    del Subscription.CallbackType
    Subscription.callback = None  # an attribute like others, of any number of arguments
    take_message = rclpy_implementation.Subscription.take_message
    change_state = LifecycleNode._LifecycleNodeMixin__change_state

    def take_with_times_only(subscription: object, message_type: type, raw: bool) -> tuple | None:
        taken = take_message(subscription, message_type, raw)
        return taken and (taken[0], {name: taken[1][name] for name in ("source_timestamp", "received_timestamp")})

    def change_state_or_raise(node: LifecycleNode, transition_id: int) -> object:
        before = node._state_machine.current_state
        if transition_id not in {found[0] for found in node._state_machine.available_transitions}:
            raise rclpy_implementation.RCLError(f"no transition {transition_id} from {before}")
        return change_state(node, transition_id)

    rclpy_implementation.Subscription.take_message = take_with_times_only
    LifecycleNode._LifecycleNodeMixin__change_state = change_state_or_raise


@functools.cache
def file_of(path: str) -> str:
    """The path in this project; empty for files of others."""
    return str(Path(path).resolve().relative_to(ROOT)) if path.startswith(f"{ROOT}/") and "/.venv" not in path else ""


class Way:
    """The files of this project whose functions ran since the executor took a message; a profile function."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.kind = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        file, name = file_of(frame.f_code.co_filename), frame.f_code.co_name
        if not file:
            return
        if file.endswith("node/executor.py") and name == "call":
            if event == "return" and self.kind:
                print(f"way of {self.kind}: {' '.join(sorted(self.passed))}", flush=True)
            self.passed, self.kind = set(), ""
        self.passed.add(file)
        if "/node/" in file:
            self.kind = KINDS.get(name, self.kind)


def on_its_way() -> None:
    """Print the files that messages have passed."""
    from traj_integrator_ros.node import executor, node  # noqa: F401 (imported before calls are watched)

    sys.setprofile(Way())


if __name__ == "__main__":
    globals()[sys.argv.pop(1)]()
    from traj_integrator_ros.node.main import main

    sys.exit(main())
