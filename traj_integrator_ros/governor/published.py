"""The name of `Command` from before."""

from .command import Command as PublishedMotion

__all__ = ["PublishedMotion"]
