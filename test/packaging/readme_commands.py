"""The commands of the README's workspace, which the tests run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def readme_command(first: str) -> list[str]:
    """The words of the command that begins with these."""
    section = README.read_text(encoding="utf-8").partition("## In a ROS 2 workspace")[2]
    [line] = re.findall(rf"^{re.escape(first)} .*$", section.split("```")[1], re.MULTILINE)
    return shlex.split(line)
