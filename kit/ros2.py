"""The part of the command `ros2` that this project's pages use, for machines without a ROS 2 installation.

`ros2 run`, `topic pub` and `echo`, `service call`, `param`, `lifecycle`: with the same arguments and the same effect,
by rclpy, which set-up installs from PyPI. docs/without_ros.md has the shell function that gives it its name.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from array import array
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from traj_integrator_ros.tools.command_line import EXIT_FAILED, EXIT_USAGE, ToolFailure, run_tool

if TYPE_CHECKING:
    from .participant import Participant

PACKAGE = "traj_integrator_ros"
TIMEOUT_S = 60.0
SHOWN_NUMBERS = 128
"""`topic echo` shows at most so many numbers of a list, as ros2 does."""
_DISCOVERED_S = 0.3
"""Pause, s: the other side of a topic may find this one a moment later."""


def main(arguments: list[str] | None = None) -> int:
    """Do what `ros2` does with these arguments; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:2] == ["run", PACKAGE] and len(given) > 2:
        return _run(given[2], given[3:])
    verb = " ".join(given[:2])
    if verb not in VERBS:
        known = ", ".join((f"run {PACKAGE}", *VERBS))
        print(f"ros2: expected one of {known}, got {verb or 'nothing'}", file=sys.stderr)
        return EXIT_USAGE
    work, *words = VERBS[verb]
    parser = argparse.ArgumentParser(prog=f"ros2 {verb}")
    for word in words:
        if word.endswith("="):
            parser.add_argument(word[:-1], type=float, default=1.0)
        elif word.startswith("--"):
            parser.add_argument(word, action="store_true")
        else:
            parser.add_argument(word.rstrip("?"), nargs="?" if word.endswith("?") else None)
    options = parser.parse_args(given[2:])
    return run_tool("ros2", lambda: _work(work, options))


def _work(work: Callable[[Participant, argparse.Namespace], int | None], options: argparse.Namespace) -> int:
    os.environ.setdefault("ROS_PYTHON_CHECK_FIELDS", "1")  # wrong types raise an error when a message is filled
    from .participant import Participant

    node = getattr(options, "node", "traj_integrator").lstrip("/")
    with Participant(f"/{node}", name=f"ros2_{os.getpid()}") as participant:
        return work(participant, options) or 0


def _run(tool: str, arguments: list[str]) -> int:
    modules = {"integrator_node": PACKAGE, "demo": f"{PACKAGE}.demo.main"}
    module = modules.get(tool, f"{PACKAGE}.tools.{tool}")
    if not tool.isidentifier() or find_spec(module) is None:
        print(f"ros2: no executable {tool!r} in {PACKAGE}", file=sys.stderr)
        return EXIT_USAGE
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def _type(name: str, kind: str) -> type:
    package, *_, message = name.split("/")
    try:
        return getattr(import_module(f"{package}.{kind}"), message)
    except (ImportError, AttributeError, ValueError):
        raise ToolFailure(f"expected a type such as std_msgs/{kind}/Name, got {name!r}") from None


def _values(text: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ToolFailure(f"expected YAML, got {text!r}: {str(error).splitlines()[0]}") from None


def _filled(message: object, text: str) -> object:
    try:
        return _fill(message, _values(text) or {})
    except (KeyError, AttributeError, TypeError, ValueError, AssertionError) as error:
        problem = f"no field {error}" if isinstance(error, KeyError) else error
        raise ToolFailure(f"expected values of {type(message).__name__}, got {text[:60]!r}: {problem}") from None


def _fill(message: object, values: dict[str, object]) -> object:
    """Set the fields of a message from YAML; a name or a type that is wrong raises."""
    for name, value in values.items():
        field = message.get_fields_and_field_types()[name]
        if isinstance(value, dict):
            _fill(getattr(message, name), value)
        elif isinstance(value, list) and re.fullmatch(r"sequence<(float|double|u?int\d+)>", field):
            setattr(message, name, array(getattr(message, name).typecode, value))
        elif isinstance(value, list) and (found := re.fullmatch(r"sequence<(\w+)/(\w+)>", field)):
            kind = _type(f"{found[1]}/{found[2]}", "msg")
            setattr(message, name, [_fill(kind(), one) for one in value])
        elif field in ("float", "double"):
            setattr(message, name, float(value))
        else:
            setattr(message, name, value)
    return message


def _plain(message: object, longest: int | None = None) -> object:
    """A message as YAML shows it; lists of numbers up to this length."""
    if hasattr(message, "get_fields_and_field_types"):
        return {name: _plain(getattr(message, name), longest) for name in message.get_fields_and_field_types()}
    if isinstance(message, (list, tuple, array)):
        shown = [_plain(one, longest) for one in message[:longest]]
        return shown if len(shown) == len(message) else [*shown, "..."]
    return message if isinstance(message, (str, int, float, bool)) else str(message)


def _topic_pub(participant: Participant, options: argparse.Namespace) -> None:
    message = _filled(_type(options.type, "msg")(), options.values)
    publisher = participant.publisher(type(message), options.topic, 10)
    participant.wait_for(publisher.get_subscription_count, f"a subscription of {options.topic}", TIMEOUT_S)
    time.sleep(_DISCOVERED_S)
    publisher.publish(message)
    while not options.once:
        time.sleep(1 / options.rate)
        publisher.publish(message)
    time.sleep(_DISCOVERED_S)


def _topic_echo(participant: Participant, options: argparse.Namespace) -> None:
    import yaml

    received: list[object] = []
    node, name, kind = participant.node, options.topic, options.type
    if not kind:
        what = f"a publisher of {name}, whose type was not given"
        participant.wait_for(lambda: node.count_publishers(name), what, TIMEOUT_S)
        kind = node.get_publishers_info_by_topic(name)[0].topic_type
    node.create_subscription(_type(kind, "msg"), name, received.append, participant.qos_for(name, 10))
    longest = None if options.full_length else SHOWN_NUMBERS
    while True:
        participant.wait_for(lambda: received, f"a message on {name}", TIMEOUT_S)
        print(yaml.safe_dump(_plain(received.pop(0), longest), sort_keys=False) + "---", flush=True)
        if options.once:
            return


def _service_call(participant: Participant, options: argparse.Namespace) -> None:
    kind = _type(options.type, "srv")
    request = _filled(kind.Request(), options.values or "{}")
    print(f"response:\n{participant.call(kind, options.service, request, TIMEOUT_S)}")


def _param_set(participant: Participant, options: argparse.Namespace) -> None:
    [(successful, reason)] = participant.set_parameters(**{options.name: _values(options.value)})
    if successful:
        print("Set parameter successful")
    else:  # exit code 0, like ros2's
        print(f"Setting parameter failed: {reason}", file=sys.stderr)


def _param_get(participant: Participant, options: argparse.Namespace) -> None:
    print(f"value is: {participant.parameter(options.name)}")


def _lifecycle_get(participant: Participant, options: argparse.Namespace) -> None:
    from lifecycle_msgs.msg import State

    label = participant.state()
    print(f"{label} [{getattr(State, f'PRIMARY_STATE_{label.upper()}')}]")


def _lifecycle_set(participant: Participant, options: argparse.Namespace) -> int:
    transitions = ("configure", "activate", "deactivate", "cleanup", "shutdown")
    if options.transition not in transitions:
        raise ToolFailure(f"expected one of {', '.join(transitions)}, got {options.transition!r}")
    succeeded = participant.change_state(options.transition)
    print("Transitioning successful" if succeeded else "Transitioning failed")
    return 0 if succeeded else EXIT_FAILED


VERBS = {
    "topic pub": (_topic_pub, "topic", "type", "values", "--once", "--rate="),
    "topic echo": (_topic_echo, "topic", "type?", "--once", "--full-length"),
    "service call": (_service_call, "service", "type", "values?"),
    "param get": (_param_get, "node", "name"),
    "param set": (_param_set, "node", "name", "value"),
    "lifecycle get": (_lifecycle_get, "node"),
    "lifecycle set": (_lifecycle_set, "node", "transition"),
}
"""Function that does the work, and its arguments: `name?` is optional, --flag is a flag, --option= takes a number."""

if __name__ == "__main__":
    sys.exit(main())
