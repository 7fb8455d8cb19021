"""A user's own `models.py` or `data/` beside a script hides our package of that name; refused before anything fails."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["refuse_shadows"]

_HOME = Path(__file__).parents[2]


def refuse_shadows(*names: str) -> None:
    """Raise ImportError if a package of ours is hidden by a file or folder of the user's.

    Args:
        names: the packages that are about to be imported.
    """
    for name in names:
        spec = find_spec(name)
        origin = None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        if origin is not None and Path(origin).resolve() != (_HOME / name / "__init__.py").resolve():
            raise ImportError(
                f"{origin} hides Touchstone's own package '{name}', because Python looks beside the script first; "
                "rename it, or start Python in another folder"
            )
