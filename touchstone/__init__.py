"""The `touchstone` command: fit a network to a data set or to your own table, and judge, compare and use posteriors."""

from __future__ import annotations

from collections.abc import Callable

import typer

from touchstone.continuing import extend, resume
from touchstone.judging import compare, report
from touchstone.listing import list_data
from touchstone.predicting import predict
from touchstone.reproducing import reproduce
from touchstone.running import run
from touchstone.sweeping import sweep

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help=__doc__,
    epilog="Exit codes: 0 done, 2 wrong input, 3 the run failed, 130 interrupted, 1 an error of ours.",
)

_COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "run": (run, "touchstone run --data houses.csv --target price --hidden 20 --method hmc --chains 4 --out runs/a"),
    "predict": (predict, "touchstone predict runs/a new.csv -o predicted.csv"),
    "report": (report, "touchstone report runs/a --out report.html"),
    "compare": (compare, "touchstone compare runs/hmc.npz runs/svi.npz --reference hmc"),
    "sweep": (sweep, "touchstone sweep moons --temperature 0.1,0.3,1,3 --hidden 20 --plot sweep.png"),
    "resume": (resume, "touchstone resume runs/b"),
    "extend": (extend, "touchstone extend runs/b --draws 2000"),
    "reproduce": (reproduce, "touchstone reproduce cold_posteriors --quick --plot cold.png"),
    "data": (list_data, "touchstone data --json"),
}

for _name, (_function, _example) in _COMMANDS.items():
    app.command(_name, epilog=f"Example: {_example}")(_function)
