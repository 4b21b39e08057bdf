"""Print the lowest declared version of each runtime dependency, those of extras too, as constraints for pip."""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def pin_to_lowest(requirement: Requirement) -> str:
    """Return `name==version`, with the version of the one `>=` that the requirement must have.

    Raises:
        SystemExit: The requirement has no lower bound, or several.
    """
    bounds = [specifier.version for specifier in requirement.specifier if specifier.operator == ">="]
    if len(bounds) != 1:
        sys.exit(f"pyproject.toml: '{requirement}' needs one lower bound, such as {requirement.name}>=1.0")
    return f"{requirement.name}=={bounds[0]}"


def main() -> None:
    """Print one constraint a line, for the dependencies that this interpreter needs."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    declared = [*project["dependencies"], *(one for extra in extras for one in extra)]
    for requirement in map(Requirement, declared):
        if requirement.marker is None or requirement.marker.evaluate():
            print(pin_to_lowest(requirement))


if __name__ == "__main__":
    main()
