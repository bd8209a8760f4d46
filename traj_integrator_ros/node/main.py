"""Entry point of the node: `ros2 run traj_integrator_ros integrator_node`, or `python -m traj_integrator_ros`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .stop_signals import StopSignals

if TYPE_CHECKING:  # imported in main(), after signal handlers are installed, because importing takes seconds
    from rclpy.executors import Executor

    from .node import IntegratorNode

_USAGE = """usage: integrator_node [--ros-args ...]

Integrates action sequences to joint trajectories (lifecycle node traj_integrator).

  --ros-args --params-file FILE   parameters, see config/franka.yaml
  --ros-args -p NAME:=VALUE       one parameter
  --ros-args -r __ns:=NAMESPACE   namespace; -r FROM:=TO remaps any name
  --ros-args --log-level LEVEL    debug, info, warn, error or fatal
"""
_WRONG_USAGE = 2
_FROM_PIP = {"torch": "which computes trajectories", "ruckig": "which computes blends"}
"""Packages that the node needs and rosdep does not install, and what they do."""
_MOST_THREADS = 4
_TURN_S = 5e-4
"""Interval, s, at which threads of Python take turns (5 ms by default): a stop needs several turns."""
_USUAL_DOF = 7
_MOST_FAILURES = 1000
"""Number of consecutive failures after which spinning is given up."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM.

    Args:
        args: command line without the program; None: the process's.

    Returns:
        2 if arguments or parameters are wrong, which standard error explains. A signal ends the process with code 0.

    """
    args = list(sys.argv[1:] if args is None else args)
    stop_signals = StopSignals()
    # Before numpy is imported: it solves a hundred equations in 0.5 ms, or in 100 ms if threads wait for busy cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        import rclpy
        from rclpy.exceptions import NameValidationException, ParameterException
        from rclpy.impl.implementation_singleton import rclpy_implementation
        from rclpy.utilities import remove_ros_args
    except ImportError as error:
        return _fail(f"ROS 2 is needed (source its setup file, or make setup and . .venv/environment.sh): {error}")
    try:
        others = remove_ros_args(["integrator_node", *args])[1:]
    except rclpy_implementation.UnknownROSArgsError as error:  # the error's message is the list of unknown arguments
        return _fail(f"unknown arguments after --ros-args: {error}")
    except RuntimeError as error:
        return _fail(error)
    if others:
        asked_for_help = others[0] in ("-h", "--help")
        print(_USAGE, file=sys.stdout if asked_for_help else sys.stderr)
        return 0 if asked_for_help else _fail(f"unexpected argument {others[0]!a}")
    try:
        from .node import IntegratorNode
    except ImportError as error:
        if error.name in _FROM_PIP:
            return _fail(
                f"{error.name} is missing, {_FROM_PIP[error.name]}: python3 -m pip install {error.name} "
                "(in the source folder, pip install '.[node]' installs all that the node needs)"
            )
        if not (error.name or "").startswith("traj_integrator_interfaces"):
            raise
        return _fail(f"traj_integrator_interfaces is missing or old (colcon build, or make setup, builds it): {error}")
    from ..parameters.table import SPECS
    from ..wire.transport import prepare_transport
    from .lean_executor import LeanExecutor
    from .priority import come_first
    from .shared_memory import MANY_FILES, files_of_middleware, remove_abandoned_segments

    _limit_threads()
    sys.setswitchinterval(_TURN_S)
    # Otherwise garbage collections would scan all imported objects: 50 ms in the middle of a message, and at the end.
    gc.freeze()
    stop_signals.orderly()
    priority = come_first()  # after the imports, and before the middleware starts threads, which inherit it
    try:
        removed = remove_abandoned_segments()
        # The parameters are not known yet. By default, a batch takes more than the most that is reserved.
        transport = prepare_transport(SPECS["max_batch"].default, SPECS["max_horizon"].default, _USUAL_DOF)
        no_log_file = _initialize(args)
        node = IntegratorNode()
    except Exception as error:
        if stop_signals.received:
            stop_signals.end_process()
        if not isinstance(error, (RuntimeError, ValueError, ParameterException, NameValidationException)):
            raise
        return _fail(error)
    if no_log_file:
        node.get_logger().warning(no_log_file)
    if removed:
        node.get_logger().info(f"removed {removed} segments of shared memory that killed processes had left behind")
    if (left := files_of_middleware()) > MANY_FILES:
        node.get_logger().warning(
            f"{left} files of Fast DDS in /dev/shm: those of killed processes slow messages down; with no ROS process "
            "running, rm /dev/shm/fastdds_* /dev/shm/fastrtps_* /dev/shm/sem.fast* removes them"
        )
    node.get_logger().info(priority)
    (node.get_logger().warning if transport.is_short else node.get_logger().info)(transport.reason)
    executor = None
    try:
        executor = LeanExecutor()
        executor.add_node(node)
        node.autostart()
        _spin(executor, node)
        executor.shutdown(timeout_sec=0)
    except Exception:  # rclpy raises different errors when the context ends, depending on what it is doing
        if not stop_signals.received:
            raise
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    # The node leaves the DDS domain only when its last object is collected; otherwise others would see it for long.
    del node, executor
    gc.collect()
    # When a signal ends the context, the end of the log file is still in memory.
    rclpy_implementation.rclpy_logging_fini()
    stop_signals.end_process()


def _initialize(args: list[str]) -> str:
    """Initialize rclpy, without a log file if none can be written; returns the reason in that case."""
    import rclpy

    try:
        rclpy.init(args=args)
        return ""
    except RuntimeError as error:
        if "failed to initialize logging" not in str(error):
            raise
        rclpy.try_shutdown()  # the default context can be initialized once; this allows another attempt
        rclpy.init(args=[*args, "--ros-args", "--disable-external-lib-logs"])
        return f"there will be no log file (ROS_LOG_DIR chooses a folder): {' '.join(str(error).split())}"


def _spin(executor: Executor, node: IntegratorNode) -> None:
    """Spin until the context ends; errors outside of the node's own callbacks do not end the node.

    A message that cannot be decoded, or a client that is gone before its answer, raises an error in rclpy itself.
    """
    failures = 0
    while True:
        try:
            executor.spin_once()
            failures = 0
        except Exception as error:
            if not node.context.ok():
                return
            node.accounts.failure("executor", error)
            failures += 1
            if failures >= _MOST_FAILURES:
                raise


def _limit_threads() -> None:
    """Leave most cores to the robot's other nodes: typical batches of a planner do not benefit from many threads."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(_MOST_THREADS, (os.cpu_count() or 1) // 2)))


def _fail(error: object) -> int:
    print(f"integrator_node: {' '.join(str(error).split())}", file=sys.stderr)
    return _WRONG_USAGE
