"""Programs where /dev/shm is small, as in a container; needs the permission to mount."""

from __future__ import annotations

import os
import subprocess
import sys


def command(size: str) -> tuple[str, ...]:
    """What starts a program where /dev/shm has this size, as the option of tmpfs."""
    return ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size={size} none /dev/shm && exec "$@"', "sh")


def is_permitted() -> bool:
    try:
        return subprocess.run([*command("1m"), "true"], capture_output=True).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    python = f"{sys.prefix}/bin/python"  # whose node is in the same mount namespace, in all circumstances
    os.execvp("unshare", [*command("8m"), python, "-m", "traj_integrator_ros", *sys.argv[1:]])
