"""Names of `command`, from before."""

from .command import NotYet, Present

__all__ = ["NotYet", "Present"]
