"""The steps of set-up: virtual environment; packages, C++, MuJoCo side by side; this package and messages.

Each step leaves a stamp in .venv when it is done, which holds a hash of everything that the step depends on. Steps with
the right stamp are skipped: an interrupted set-up continues where it stopped, one with nothing to do takes no time.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import set_up_machine
import set_up_parts as parts
from set_up_parts import LOGS, REQUIREMENTS, ROOT, Environment, SetUpError, hashed, write_at_once

METADATA = "setup.py", "setup.cfg", "pyproject.toml", "package.xml"


class Step(NamedTuple):
    """One step of set-up: its name, its inputs, and the function that does it."""

    name: str
    inputs: Callable[[Environment], Iterable[str | Path]]
    do: Callable[[Environment], None]
    stands_alone: bool = False
    """True if no other step is repeated with it."""

    def stamp(self, environment: Environment) -> Path:
        """The file that shows that the step is done, and for which inputs."""
        return environment.venv / ".set-up" / self.name.replace(" ", "-")


def files_in(folder: Path) -> list[Path]:
    """All files of a package of messages."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


# The steps of a stage depend on the previous stages, and not on each other.
STAGES = (
    (
        Step(
            "virtual environment",
            lambda at: [set_up_machine.base_python(), sys.version, str(at.venv), str(at.use_ros)],
            parts.make_venv,
        ),
    ),
    (
        Step("packages", parts.package_inputs, parts.install_packages),
        Step("C++ parts", parts.native_inputs, parts.build_native, stands_alone=True),
        Step("physics", lambda _: [REQUIREMENTS / "physics.txt"], parts.install_physics, stands_alone=True),
    ),
    (
        # Files that an editable installation copies or links instead of reading them from the checkout.
        Step(
            "this package",
            lambda _: [*(ROOT / name for name in METADATA), *(path.name for path in parts.LAUNCH_FILES)],
            parts.install_project,
        ),
        Step("interface package", lambda _: files_in(parts.INTERFACES), parts.build_interfaces),
        Step("control_msgs", lambda _: files_in(parts.CONTROL_MSGS), parts.build_control_msgs),
    ),
)
Pending = list[tuple[Step, str]]
"""Steps of a stage that have to be done, and what their stamps will say."""


def main(venv: str, distro: str, use_ros: bool) -> int:
    """Does the steps that are not done yet; returns the exit status."""
    environment = Environment(Path(venv), distro, use_ros)
    try:
        if any(pending_stages(environment)):
            LOGS.mkdir(parents=True, exist_ok=True)
            with (LOGS / "lock").open("w") as lock:  # one set-up of a checkout at a time
                fcntl.flock(lock, fcntl.LOCK_EX)
                set_up_all(environment, pending_stages(environment))
        else:
            print("set-up: up to date", flush=True)
    except SetUpError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the next one goes on from here", file=sys.stderr)
        return 130
    return 0


def pending_stages(environment: Environment) -> list[Pending]:
    """The steps of each stage that have to be done; after a repeated step, all steps of the following stages."""
    stages, before = [], ""
    for steps in STAGES:
        stage = [(step, hashed([before, step.name, *step.inputs(environment)])) for step in steps]
        before = "".join(fingerprint for step, fingerprint in stage if not step.stands_alone)
        stamps = [step.stamp(environment) for step in steps]
        said = [stamp.read_text() if stamp.is_file() else "" for stamp in stamps]
        stages.append([one for one, known in zip(stage, said, strict=True) if known != one[1]])
    return stages


def set_up_all(environment: Environment, stages: list[Pending]) -> None:
    """Does the steps whose stamps are missing or out of date, stage by stage."""
    start = time.monotonic()
    announce(environment, [step for stage in stages for step, _ in stage])
    for number, stage in enumerate(stages, 1):
        if stage:
            print(f"  {number}/{len(stages)} {', '.join(step.name for step, _ in stage)} ...", end=" ", flush=True)
            stage_start = time.monotonic()
            with ThreadPoolExecutor(len(stage)) as threads:
                list(threads.map(lambda pending: do(*pending, environment), stage))
            print(f"{time.monotonic() - stage_start:.0f} s", flush=True)
    print(f"set-up: done in {time.monotonic() - start:.0f} s", flush=True)


def do(step: Step, fingerprint: str, environment: Environment) -> None:
    """Does a step, with a log of its own."""
    stamp = step.stamp(environment)
    environment = dataclasses.replace(environment, log=LOGS / f"{stamp.name}.log")
    environment.log.write_text("", encoding="utf-8")
    stamp.unlink(missing_ok=True)
    step.do(environment)
    write_at_once(stamp, fingerprint)


def announce(environment: Environment, steps: list[Step]) -> None:
    """Prints what will be done; raises SetUpError, before anything changes, if messages cannot be built."""
    if any(step.do is parts.build_interfaces for step in steps):
        needs_ros = environment.use_ros and not parts.workspace_has_interfaces()
        missing = set_up_machine.missing_build_tools() or (set_up_machine.missing_generators() if needs_ros else "")
        if missing:
            raise SetUpError(missing)
    ros = f"ROS 2 wheels ({environment.distro})"
    if environment.use_ros:
        ros = f"the sourced ROS 2 {os.environ.get('ROS_DISTRO', '')}".rstrip()
    about = f"{environment.venv.name} with Python {'.'.join(map(str, sys.version_info[:3]))} and {ros}"
    minutes = ", a few minutes" if any(step.do is parts.install_packages for step in steps) else ""
    print(f"set-up: {about}{minutes}; logs in {LOGS.relative_to(ROOT)}/", flush=True)
