"""Parameters of the node on the command line."""

from __future__ import annotations

import argparse

import yaml


def setting(text: str) -> tuple[str, object]:
    """An argument NAME:=VALUE, the value as in YAML."""
    name, given, value = text.partition(":=")
    if not given:
        raise argparse.ArgumentTypeError(f"expected NAME:=VALUE, got {text!r}")
    return name, yaml.safe_load(value)
