"""The command line of all tools: help with examples, one line for each mistake of a user, exit codes, Ctrl-C."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from ..execution.native import NotCompiled
from ..motions.samples import RecordingError
from ..motions.table_times import TIME_UNITS
from ..motions.units import ANGLES, GivenUnits

RUN = "ros2 run traj_integrator_ros"
EXIT_FAILED = 1
"""Exit code: the tool could not do its job, or its answer is no."""
EXIT_USAGE = 2
"""Exit code: wrong usage, or an unreadable file."""
EXIT_INTERRUPTED = 130
"""Exit code after SIGINT: 128 plus the number of the signal."""
EXIT_TERMINATED = 143
"""Exit code after SIGTERM: 128 plus the number of the signal."""
AGAIN_S = 1.0
"""Time after a signal, s, in which further signals are ignored: ros2 launch passes on a Ctrl-C a second time."""


class UserError(Exception):
    """A wrong argument or file; the message is one line that names it, what was expected and what was given."""


class ToolFailure(Exception):
    """The tool could not do its job, for example because no message arrived; the message is one line."""


class _Terminated(BaseException):
    """Raised by SIGTERM, so that everything is cleaned up."""


def filled(text: str) -> str:
    """Parse a name that is not empty; an empty one would stand for the default."""
    if not text:
        raise argparse.ArgumentTypeError("expected a name, got ''")
    return text


class ToolParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line.

    `examples` are command lines, without `ros2 run traj_integrator_ros`, each with a comment.
    """

    def __init__(
        self, name: str, description: str, examples: Sequence[tuple[str, str]], *, uses_ros: bool = False
    ) -> None:
        self._uses_ros = uses_ros
        lines = [line for command, comment in examples for line in (f"  # {comment}", f"  {RUN} {command}", "")]
        exits = "exit codes: 0 success, 1 failure, 2 wrong usage or unreadable input, 130 interrupted"
        ros = "--ros-args and what follows goes to ROS 2 (for example -r joint_states:=/arm/joint_states)"
        super().__init__(
            prog=name,
            description=description,
            epilog="\n".join(["examples:", *lines, exits, *([ros] if uses_ros else [])]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def option(
        self,
        name: str,
        description: str,
        metavar: str | None = None,
        kind: Callable[[str], object] = filled,
        default: object = None,
    ) -> None:
        """Add an option with a value, or an argument."""
        self.add_argument(name, help=description, metavar=metavar, type=kind, default=default)

    def flag(self, name: str, description: str) -> None:
        """Add an option without a value."""
        self.add_argument(name, help=description, action="store_true")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Return the options, by default from the process's arguments; `ros_arguments` are those from --ros-args on."""
        given = list(sys.argv[1:] if arguments is None else arguments)
        at = given.index("--ros-args") if self._uses_ros and "--ros-args" in given else len(given)
        return self.parse_args(given[:at], argparse.Namespace(ros_arguments=given[at:]))

    def error(self, message: str) -> NoReturn:
        """Exit with one line on standard error."""
        print(f"{self.prog}: {one_line(message)}; see {self.prog} --help", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def run_tool(name: str, body: Callable[[], int]) -> int:
    """Run a tool; mistakes of users and signals become one line and an exit code."""
    begun = -math.inf

    def unwind(number: int, frame: object) -> None:
        nonlocal begun
        if time.monotonic() - begun > AGAIN_S:
            begun = time.monotonic()
            raise KeyboardInterrupt if number == signal.SIGINT else _Terminated

    for number in (signal.SIGTERM, signal.SIGINT):  # Shells start processes in the background with SIGINT ignored.
        signal.signal(number, unwind)
    sys.stdout.reconfigure(errors="backslashreplace")  # Names may have letters that the terminal's encoding lacks.
    try:
        code = body()
        sys.stdout.flush()
        return code
    except (UserError, RecordingError) as error:
        message, code = error, EXIT_USAGE
    except (ToolFailure, NotCompiled) as error:
        message, code = error, EXIT_FAILED
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except _Terminated:
        return EXIT_TERMINATED
    except BrokenPipeError:
        # The reader (such as head) has closed the pipe; discard what Python would still flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""  # The message leaves out the error number.
        message, code = f"{where}{error.strerror or error}", EXIT_FAILED
    finally:
        if begun > -math.inf:  # Python gives the signals back before it ends, and one that comes again would kill it.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
    print(f"{name}: {one_line(message)}", file=sys.stderr)
    return code


def note(text: object) -> None:
    """Report in a line on standard error what the tool did without being asked."""
    print(f"note: {one_line(text)}", file=sys.stderr, flush=True)


def positive(text: str) -> float:
    """Parse a finite number above 0."""
    value = number(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a number > 0, got {text!r}")
    return value


def add_unit_options(parser: ToolParser) -> None:
    """Add the options --time-unit and --angle-unit, which `units_of` reads."""
    for name, known, else_ in (("time", TIME_UNITS, "by steps and size"), ("angle", ANGLES, "rad")):
        description = f"unit of the {name}s of a table or NPZ that names none (default: {else_})"
        parser.add_argument(f"--{name}-unit", choices=[*known], help=description)


def units_of(options: argparse.Namespace) -> GivenUnits:
    """Return the units that options give for a file that names none."""
    return GivenUnits(options.time_unit, options.angle_unit)


def number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return value


def count(text: str) -> int:
    """Parse a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {text!r}")
    return int(text)


def numbers(text: str) -> list[float]:
    """Parse numbers with commas between them."""
    return [number(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Parse names with commas between them."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between them, got {text!r}")
    return found


def file(text: str) -> Path:
    """Parse a path to read from; an empty one would stand for the present folder."""
    return Path(filled(text))


def folder(text: str) -> Path:
    """Parse the path of a folder to write to, which need not exist."""
    found = file(text)
    if not _is_writable(next(one for one in (found, *found.absolute().parents) if os.path.lexists(one))):
        raise argparse.ArgumentTypeError(f"expected a folder that can be written to, got {text!r}")
    return found


def output(text: str) -> Path:
    """Parse the path of a file to write, in a folder that can be written to."""
    path = Path(text)
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"expected a name that no folder has, got {text!r}")
    if not _is_writable(path.parent):
        raise argparse.ArgumentTypeError(f"expected a folder that can be written to, got {str(path.parent)!r}")
    return path


def _is_writable(folder: Path) -> bool:
    return os.path.isdir(folder) and os.access(folder, os.W_OK)


def one_line(text: object) -> str:
    """Return the text without line breaks."""
    return " ".join(str(text).split())
