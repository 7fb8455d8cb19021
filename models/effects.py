"""The stack of handlers that NumPyro keeps, and how a message of our own goes through it.

NumPyro does not promise to keep these names. No other file of the project uses them, and
`tests/unit/test_releases.py` says what broke when a release changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpyro.primitives import _PYRO_STACK, Messenger, apply_stack

__all__ = ["Messenger", "ask"]


def ask(kind: str, name: str, function: Callable[..., Any], *args: Any) -> Any:
    """What the handlers around this call answer to a message; `function(*args)` if none of them answers.

    A handler is a `Messenger` whose `process_message` is given the message, a dict with the keys "type" (`kind`),
    "name", "fn" and "args", and answers by setting its "value".
    """
    if not _PYRO_STACK:
        return function(*args)
    message: dict[str, Any] = {
        "type": kind,
        "name": name,
        "fn": function,
        "args": args,
        "kwargs": {},
        "value": None,
        "scale": None,
        "is_observed": False,
        "cond_indep_stack": [],
        "infer": {},
        "stop": False,
    }
    return apply_stack(message)["value"]
