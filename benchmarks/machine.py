"""The name of this kind of machine, by its CPU and GPU models alone."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import torch


def machine_name() -> str:
    """E.g. "amd-epyc-family-25-model-17-2-cores", with the GPU behind it where there is one."""
    gpu = f"-{torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return re.sub(r"[^a-z0-9]+", "-", f"{_cpu()}-{os.cpu_count()}-cores{gpu}".lower()).strip("-")


def _cpu() -> str:
    """Model name, with family and model number: hypervisors shorten the name."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return platform.machine()
    fields = dict(re.findall(r"^(.+?)\s*: *(.*)$", info, re.MULTILINE))
    name = re.sub(r"\((R|TM)\)", "", fields.get("model name", platform.machine()))
    if {"cpu family", "model"} <= fields.keys():
        return f"{name} family {fields['cpu family']} model {fields['model']}"
    return name
