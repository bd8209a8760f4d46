"""Makes .venv, the development environment of this repository: `python3 scripts/set_up.py` or `make setup`.

`--wheels jazzy` (`make setup ROS_DISTRO=jazzy`) makes .venv-jazzy instead, with the wheels of that distribution.

Finds a suitable Python, says in one line what is missing and how to get it, and lets that Python run the steps in
set_up_steps.py. Runs on Python 3.6 and later, so that an old one gets a message and not a traceback: no annotations.
"""

import os
import shutil
import subprocess
import sys

import set_up_machine as machine


def main():
    """Runs the steps, or the first suitable Python on them; returns the exit status."""
    missing = machine.what_is_missing()
    if "--check" in sys.argv:
        return 1 if missing else 0
    if "--python-is-given" not in sys.argv:
        # The Python of an existing .venv is preferred to others, so that the choice does not depend on PATH.
        for python in [python_of_venv()] + (other_pythons() if missing else []):
            if python and python != machine.base_python() and serves(python):
                os.execv(python, [python, *sys.argv, "--python-is-given"])
    if missing:
        sys.stderr.write(f"set-up: {missing}\n")
        return 1
    import set_up_steps  # Python 3.10 and later

    return set_up_steps.main(
        machine.environment_of(machine.DISTRO), machine.DISTRO, use_ros=bool(machine.sourced_ros())
    )


def python_of_venv():
    """The interpreter of the existing environment, or else the first one, whose packages serve this, too."""
    for distro in (machine.DISTRO, machine.DISTROS[0]):
        try:
            with open(os.path.join(machine.environment_of(distro), ".set-up", "python")) as file:
                return file.read()
        except OSError:
            continue
    return ""


def other_pythons():
    """Other interpreters on this machine, newest first."""
    names = [f"python3.{minor}" for minor in range(machine.NEWEST[1], machine.OLDEST[1] - 1, -1)]
    return [path for path in map(shutil.which, [*names, "/usr/bin/python3"]) if path]


def serves(python):
    """Return whether another interpreter has everything that is needed."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.call([python, *sys.argv, "--check"], **quiet) == 0
    except OSError:  # it no longer exists
        return False


if __name__ == "__main__":
    sys.exit(main())
