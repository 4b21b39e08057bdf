"""The entry of `onode` and `python -m onode`: as far as it gets without the extra `cli`, it names what installs it."""

import sys

from .errors import WRONG, missing_extra

__all__ = ["main"]

#: What the command can't start without.
_NEEDED = ("typer", "rich", "watchfiles")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    try:
        from .app import run
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _NEEDED:
            raise
        sys.stderr.write(f"onode: {missing_extra(name)}\n")
        return WRONG
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
