"""The steps of set-up: virtual environment; packages, C++ and colcon side by side; this package and its interfaces.

Each step leaves a stamp in .venv when it is done, which holds a hash of everything that the step depends on. Steps with
the right stamp are skipped: an interrupted set-up continues where it stopped, one with nothing to do takes no time.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import set_up_machine
from set_up_environment import LOGS, ROOT, Environment, SetUpError, hashed, write_at_once
from set_up_packages import colcon_inputs, install_colcon, install_packages, make_venv, package_inputs, venv_inputs
from set_up_project import (
    build_interfaces,
    build_native,
    install_project,
    interface_inputs,
    native_inputs,
    project_inputs,
    workspace_has_interfaces,
)


@dataclass(frozen=True)
class Step:
    """One step of set-up: its name, its inputs, and the function that does it."""

    name: str
    inputs: Callable[[Environment], Iterable[str | Path]]
    do: Callable[[Environment], None]
    stands_alone: bool = False
    """Whether no other step is repeated with it."""


# The steps of a stage depend on the previous stages, and not on each other.
STAGES = (
    (Step("virtual environment", venv_inputs, make_venv),),
    (
        Step("packages", package_inputs, install_packages),
        Step("C++ parts", native_inputs, build_native, stands_alone=True),
        Step("colcon", colcon_inputs, install_colcon, stands_alone=True),
    ),
    (
        Step("this package", project_inputs, install_project),
        Step("interface package", interface_inputs, build_interfaces),
    ),
)


class Pending(NamedTuple):
    """A step that has to be done, and the stamp that it will leave."""

    step: Step
    stamp: Path
    fingerprint: str


def main(venv: str, distro: str, use_ros: bool) -> int:
    """Does the steps that are not done yet; returns the exit status."""
    with open(__file__, "rb") as lock:
        environment = Environment(Path(venv), distro, use_ros, lock.fileno(), LOGS)
        try:
            if any(pending_stages(environment)):  # who has nothing to do need not wait for another environment's
                take_turn(environment.lock)
            set_up_all(environment)
        except SetUpError as error:
            print(f"set-up: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nset-up: interrupted; the next one goes on from here", file=sys.stderr)
            return 130
    return 0


def take_turn(lock: int) -> None:
    """Waits until no other set-up of this checkout is running."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("set-up: waits for another one of this checkout to end", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def set_up_all(environment: Environment) -> None:
    """Does the steps whose stamps are missing or out of date, stage by stage."""
    stages = pending_stages(environment)
    if not any(stages):
        print("set-up: up to date", flush=True)
        return
    start = time.monotonic()
    announce(environment, [pending.step for stage in stages for pending in stage])
    before = environment.venv.with_name(f"{environment.venv.name}-before")
    if stages[0] and is_complete(environment):  # it works, and the new one may not
        shutil.rmtree(before, ignore_errors=True)
        environment.venv.rename(before)
    try:
        for number, stage in enumerate(stages, 1):
            if stage:
                names = ", ".join(pending.step.name for pending in stage)
                print(f"  {number}/{len(stages)} {names} ...", end=" ", flush=True)
                stage_start = time.monotonic()
                do_side_by_side(environment, stage)
                print(f"{time.monotonic() - stage_start:.0f} s", flush=True)
    except SetUpError as error:
        if not before.is_dir():
            raise
        shutil.rmtree(environment.venv, ignore_errors=True)
        before.rename(environment.venv)
        raise SetUpError(f"{error}; {environment.venv.name} is as it was before") from None
    shutil.rmtree(before, ignore_errors=True)
    print(f"set-up: done in {time.monotonic() - start:.0f} s", flush=True)


def is_complete(environment: Environment) -> bool:
    """Whether every step has been done, if for other inputs."""
    return all(stamp_of(step, environment).is_file() for steps in STAGES for step in steps)


def stamp_of(step: Step, environment: Environment) -> Path:
    """The file that says that a step is done, and for which inputs."""
    return environment.venv / ".set-up" / step.name.replace(" ", "-")


def pending_stages(environment: Environment) -> list[list[Pending]]:
    """The steps of each stage that have to be done; after a repeated step, all steps of the following stages."""
    stages, before = [], ""
    for steps in STAGES:
        stage = []
        for step in steps:
            fingerprint = hashed([before, step.name, *step.inputs(environment)])
            stage.append(Pending(step, stamp_of(step, environment), fingerprint))
        before = "".join(pending.fingerprint for pending in stage if not pending.step.stands_alone)
        stages.append([it for it in stage if not it.stamp.is_file() or it.stamp.read_text() != it.fingerprint])
    return stages


def do_side_by_side(environment: Environment, stage: list[Pending]) -> None:
    """Does steps that do not depend on each other; when one fails, the others are ended."""
    with ThreadPoolExecutor(len(stage)) as threads:
        futures = [threads.submit(do, pending, environment) for pending in stage]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            environment.stop()
            raise


def do(pending: Pending, environment: Environment) -> None:
    """Does a step, with a log of its own."""
    environment = dataclasses.replace(environment, log=LOGS / f"{pending.stamp.name}.log")
    environment.log.write_text("", encoding="utf-8")
    pending.stamp.unlink(missing_ok=True)
    pending.step.do(environment)
    write_at_once(pending.stamp, pending.fingerprint)


def announce(environment: Environment, steps: list[Step]) -> None:
    """Prints what will be done; raises SetUpError, before anything changes, if messages cannot be built."""
    if any(step.do is build_interfaces for step in steps):
        needs_ros = environment.use_ros and not workspace_has_interfaces()
        missing = set_up_machine.missing_build_tools() or (set_up_machine.missing_generators() if needs_ros else "")
        if missing:
            raise SetUpError(missing)
    LOGS.mkdir(parents=True, exist_ok=True)
    ros = f"ROS 2 wheels ({environment.distro})"
    if environment.use_ros:
        ros = f"the sourced ROS 2 {os.environ.get('ROS_DISTRO', '')}".rstrip()
    about = f"{environment.venv.name} with Python {'.'.join(map(str, sys.version_info[:3]))} and {ros}"
    minutes = ", a few minutes" if any(step.do is install_packages for step in steps) else ""
    print(f"set-up: {about}{minutes}; logs in {LOGS.relative_to(ROOT)}/", flush=True)
