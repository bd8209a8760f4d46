"""Joint states and batched action sequences to joint trajectories, differentiably; see README.md."""

__version__: str


def __getattr__(name: str) -> str:
    """`__version__` as installed, from setup.py; "0+unknown" where the sources are only on the path.

    Looked up when it is asked for: importlib.metadata takes longer to import than most of the tools.
    """
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:
        return "0+unknown"
