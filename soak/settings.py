"""The option --set of both soaks."""

from __future__ import annotations

import argparse

import yaml


def add_setting(parser: argparse.ArgumentParser) -> None:
    """Let a parser take parameters of the node, as pairs of name and value."""
    about = {"metavar": "NAME:=VALUE", "help": "a parameter of the node; may be repeated"}
    parser.add_argument("--set", type=_setting, action="append", default=[], **about)


def _setting(text: str) -> tuple[str, object]:
    name, given, value = text.partition(":=")
    if not given:
        raise argparse.ArgumentTypeError(f"expected NAME:=VALUE, got {text!r}")
    return name, yaml.safe_load(value)
