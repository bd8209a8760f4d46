"""The command `ros2` of the documentation's tests.

`ros2 run traj_integrator_ros` runs from the source tree, so that no installation is needed. `ros2 launch` is checked,
not run: file and arguments must exist (test/launch launches them). Everything else goes to the real command where there
is one; ROS 2 from PyPI brings none, and then the few verbs that the pages use are done here by rclpy, with the same
arguments and the same effect.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import signal
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "traj_integrator_ros"
TIMEOUT_S = 60.0


def main(arguments: list[str]) -> int:
    """Do what `ros2` does with these arguments; returns the exit code."""
    match arguments:
        case ["run", package, tool, *rest] if package == PACKAGE:
            return _run(tool, rest)
        case ["launch", package, file, *rest] if package == PACKAGE:
            return _check_launch(file, rest)
    if real := _real_ros2():
        os.execv(real, ["ros2", *arguments])
    verb = " ".join(arguments[:2])
    if verb not in VERBS:
        print(f"ros2: {verb!r} is not known to the tests of the documentation", file=sys.stderr)
        return 2
    return VERBS[verb](arguments[2:])


def _run(tool: str, arguments: list[str]) -> int:
    modules = {"integrator_node": PACKAGE, "demo": f"{PACKAGE}.demo"}
    module = modules.get(tool, f"{PACKAGE}.tools.{tool}")
    python = os.path.join(os.environ["STAND_IN_FOLDER"], "python")
    os.execv(python, [python, "-m", module, *arguments])


def _real_ros2() -> str | None:
    """The command behind this one in PATH."""
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != os.environ["STAND_IN_FOLDER"]]
    return shutil.which("ros2", path=os.pathsep.join(folders))


def _check_launch(file: str, arguments: list[str]) -> int:
    """Hold arguments against those that the launch file declares."""
    tree = ast.parse((ROOT / "launch" / file).read_text(encoding="utf-8"))
    tables = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "arguments"
    ]
    declared = {key.value for keys in tables for key in keys.keys}
    wrong = [one for one in arguments if one != "--show-args" and one.partition(":=")[0] not in declared]
    if wrong or not declared:
        print(f"ros2 launch: {file} has no argument {wrong}; it has {sorted(declared)}", file=sys.stderr)
        return 2
    print(f"{file}: arguments are declared: {' '.join(arguments)}")
    return 0


# Without a real ros2 ------------------------------------------------------------------------------------------------


def _options(
    command: str, arguments: list[str], *names: str, flags: tuple[str, ...] = (), number: str = ""
) -> argparse.Namespace:
    """Parse positional arguments, `name?` being optional, flags, and an option with a number; all else is refused."""
    parser = argparse.ArgumentParser(prog=f"ros2 {command}")
    if number:
        parser.add_argument(number, type=float, default=1.0)
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    for name in names:
        parser.add_argument(name.rstrip("?"), nargs="?" if name.endswith("?") else None)
    return parser.parse_args(arguments)


@contextmanager
def _participant(node: str = "/traj_integrator") -> Iterator[object]:
    """What talks to this node; ROS is imported where there is a need."""
    from traj_integrator_ros.traffic.participant import Participant

    participant = Participant(node, name="documentation_test")
    try:
        yield participant
    except TimeoutError as error:
        raise SystemExit(f"ros2: {error}") from None
    finally:
        participant.close()


def _type(name: str, kind: str) -> type:
    package, *_, message = name.split("/")
    return getattr(import_module(f"{package}.{kind}"), message)


def _fill(message: object, values: dict[str, object]) -> object:
    """Set the fields of a message from YAML; a name or a type that is wrong raises."""
    for name, value in values.items():
        field = message.get_fields_and_field_types()[name]
        if isinstance(value, dict):
            _fill(getattr(message, name), value)
        elif isinstance(value, list) and re.fullmatch(r"sequence<(float|double|u?int\d+)>", field):
            setattr(message, name, array(getattr(message, name).typecode, value))
        elif field in ("float", "double"):
            setattr(message, name, float(value))
        else:
            setattr(message, name, value)
    return message


def _plain(message: object) -> object:
    if hasattr(message, "get_fields_and_field_types"):
        return {name: _plain(getattr(message, name)) for name in message.get_fields_and_field_types()}
    if isinstance(message, (list, tuple, array)):
        return [_plain(one) for one in message]
    return message if isinstance(message, (str, int, float, bool)) else str(message)


def _topic_pub(arguments: list[str]) -> int:
    options = _options("topic pub", arguments, "topic", "type", "values", flags=("--once",), number="--rate")
    with _participant() as participant:
        kind = _type(options.type, "msg")
        publisher = participant.publisher(kind, options.topic, 10)
        participant.wait_for(publisher.get_subscription_count, f"a subscription of {options.topic}", TIMEOUT_S)
        time.sleep(0.3)  # the other side may find us a moment later
        message = _fill(kind(), yaml.safe_load(options.values))
        publisher.publish(message)
        while not options.once:
            time.sleep(1 / options.rate)
            publisher.publish(message)
        time.sleep(0.3)
    return 0


def _topic_echo(arguments: list[str]) -> int:
    options = _options("topic echo", arguments, "topic", "type", flags=("--once",))
    received: list[object] = []
    with _participant() as participant:
        participant.subscribe(_type(options.type, "msg"), options.topic, received.append, 10)
        while True:
            participant.wait_for(lambda: received, f"a message on {options.topic}", TIMEOUT_S)
            print(yaml.safe_dump(_plain(received.pop(0)), sort_keys=False) + "---", flush=True)
            if options.once:
                return 0


def _service_call(arguments: list[str]) -> int:
    options = _options("service call", arguments, "service", "type", "values?")
    kind = _type(options.type, "srv")
    request = _fill(kind.Request(), yaml.safe_load(options.values or "{}"))
    with _participant() as participant:
        print(f"response:\n{participant.call(kind, options.service, request, TIMEOUT_S)}")
    return 0


def _param_set(arguments: list[str]) -> int:
    options = _options("param set", arguments, "node", "name", "value")
    with _participant(options.node) as participant:
        [(successful, reason)] = participant.set_parameters(**{options.name: yaml.safe_load(options.value)})
    if successful:
        print("Set parameter successful")
    else:
        print(f"Setting parameter failed: {reason}", file=sys.stderr)
    return 0  # as ros2


def _param_get(arguments: list[str]) -> int:
    options = _options("param get", arguments, "node", "name")
    with _participant(options.node) as participant:
        print(f"value is: {participant.parameter(options.name)}")
    return 0


def _lifecycle_get(arguments: list[str]) -> int:
    options = _options("lifecycle get", arguments, "node")
    from lifecycle_msgs.msg import State

    with _participant(options.node) as participant:
        label = participant.state()
    print(f"{label} [{getattr(State, f'PRIMARY_STATE_{label.upper()}')}]")
    return 0


def _lifecycle_set(arguments: list[str]) -> int:
    options = _options("lifecycle set", arguments, "node", "transition")
    with _participant(options.node) as participant:
        succeeded = participant.change_state(options.transition)
    print("Transitioning successful" if succeeded else "Transitioning failed")
    return 0 if succeeded else 1


VERBS = {
    "topic pub": _topic_pub,
    "topic echo": _topic_echo,
    "service call": _service_call,
    "param set": _param_set,
    "param get": _param_get,
    "lifecycle get": _lifecycle_get,
    "lifecycle set": _lifecycle_set,
}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(0)
