"""Notebooks: their stored outputs are there, without faults, and those that the code gives today."""

from __future__ import annotations

import copy
import os

import nbformat
import pytest

from notebooks.execute import NOTEBOOKS, execute, faults
from tests.helpers.notebook_outputs import changed

QUICKEST = "03"
SHORTENED = "from tests.helpers.shortened import shortened\n_shortened = shortened()\n_shortened.__enter__()"
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

RUNS = """
import numpy as np
import inference, models
x = np.linspace(-1, 1, 30)[:, None]
model = models.mlp((2,), "tanh", likelihood=models.Gaussian(scale=0.5))
inference.run(model, x, x[:, 0], method="hmc", draws=20, warmup=20, tuning=20)
inference.sweep(model, x, x[:, 0], test=(x, x[:, 0]), method="map", steps=20, temperature=[0.5, 1.0], seeds=2);
"""


@every_notebook
def test_outputs_are_stored_and_have_no_faults(path):
    assert faults(nbformat.read(path, as_version=4)) == []


def test_the_quickest_runs_with_few_iterations():
    (path,) = (path for path in NOTEBOOKS if path.name.startswith(QUICKEST))
    unoptimised = {"XLA_FLAGS": os.environ["XLA_FLAGS"]}  # programs run for a moment; no number is compared
    stored, fresh = nbformat.read(path, as_version=4), execute(path, before=SHORTENED, settings=unoptimised)
    assert [_pictures(cell) for cell in fresh.cells] == [_pictures(cell) for cell in stored.cells]
    assert changed(stored, fresh)  # the numbers of so short runs are others


@pytest.mark.validation
@every_notebook
def test_outputs_are_what_the_code_gives_today(path):
    fresh = execute(path)
    assert faults(fresh) == []
    assert changed(nbformat.read(path, as_version=4), fresh) == []


def test_progress_leaves_one_line_for_each_stage(tmp_path):
    path = tmp_path / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(RUNS)]), path)
    outputs = execute(path, before="import warnings\nwarnings.simplefilter('ignore')").cells[0].outputs
    assert [output.output_type for output in outputs] == ["display_data"] * 4
    lines = [output.data["text/plain"] for output in outputs]
    assert [line.split(":")[0] for line in lines] == [
        "hmc start, 4 chains", "hmc pilot", "hmc, 4 chains", "sweep of temperature",
    ]  # fmt: skip
    assert all("\n" not in line and "<progress" not in line for line in lines)


def _pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def _notebook(text, source="print(1)", **output):
    cell = nbformat.v4.new_code_cell(source)
    cell.outputs = [nbformat.v4.new_output("stream", **{"name": "stdout", "text": text, **output})] if text else []
    first = nbformat.v4.new_markdown_cell("pip install it")
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python"}}  # fmt: skip
    return nbformat.v4.new_notebook(cells=[first, cell], metadata=metadata)


def test_faults_are_found():
    assert faults(_notebook("fine, 1/2 and and/or")) == []
    assert faults(_notebook("", "path.mkdir()")) == []
    assert faults(_notebook("", "figure;")) == []
    assert faults(_notebook("Writing network.py", "%%writefile network.py\nx = 1")) == []
    for source in ("print(1)", "figure", "diagnostics.plots.band(prediction)", "sweep.plot()", "%%writefile x.py\n1"):
        assert faults(_notebook("", source)) == ["cell 1: what it shows is not stored"]
    assert "stderr" not in str(faults(_notebook("a warning", name="stderr")))
    assert faults(_notebook("a warning", name="stderr")) == ["cell 1: a warning"]
    assert faults(_notebook("written to /tmp/x/report.html")) == ["cell 1: a path, /tmp/x/report.html"]
    assert "more than 1,000,000" in faults(_notebook("x" * 1_000_001))[0]
    unlike = _notebook("1")
    unlike.metadata["widgets"] = {}
    unlike.cells[0].source = "Hello"
    assert len(faults(unlike)) == 2
    failed = _notebook("1")
    failed.cells[1].outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[])]
    assert faults(failed) == ["cell 1: error ValueError"]


TABLE = "method  log score  seconds  gradients\nhmc  -5.43 ± 0.08  {}  44,207\nsvi  -5.44 ± 0.10  6.181  3,000"


@pytest.mark.parametrize(
    ("stored", "shown", "same"),
    [
        ("R-hat 1.003, ESS 2184", "R-hat 1.002, ESS 2101", True),
        ("R-hat 1.003, ESS 2184", "R-hat 1.003, ESS 1901", False),
        ("ESS 2184", "ESS least 2184", False),
        ("difference -0.01 ± 0.02", "difference 0.03 ± 0.02", True),
        ("difference -0.01 ± 0.02", "difference 0.13 ± 0.02", False),
        ("p = 0.003", "p = 0.005", True),
        ("p = 0.003", "p = 0.006", False),
        ("1.2e-05 in 3.1 s", "1.21e-05 in 12 min", True),
        ("map: 50 iterations in 0.1 s, loss 3.1", "map: 50 iterations in 0.3 s, loss 4.9", True),
        (TABLE.format("7.362"), TABLE.format("123.4"), True),
        (TABLE.format("7.362"), TABLE.format("7.362").replace("44,207", "54,207"), False),
        (TABLE.format("7.362"), TABLE.format("7.362").replace("log score", "log_score"), False),
    ],
)
def test_stale_outputs_are_found(stored, shown, same):
    assert (changed(_notebook(stored), _notebook(shown)) == []) is same


CARD = """<style>td { color: red; }</style><div><strong>Converged</strong><table><tbody>
<tr><td>E-BFMI</td><td>{}</td></tr>
<tr><td>least ESS per second</td><td>{}</td></tr></tbody></table></div>"""


def test_stale_cards_are_found():
    def with_card(*numbers):
        notebook = _notebook("1")
        data = {"text/plain": "converged", "text/html": CARD.replace("{}", "%s") % numbers}
        notebook.cells[1].outputs.append(nbformat.v4.new_output("display_data", data=data))
        return notebook

    stored = with_card("1.06", "194")
    assert changed(stored, with_card("1.05", "4,030")) == []
    assert changed(stored, with_card("0.81", "194")) == ["cell 1: 1.06 is stored, 0.81 is shown"]
    other = with_card("1.06", "194")
    other.cells[1].outputs[1].data["text/html"] = CARD.replace("E-BFMI", "BFMI")
    assert changed(stored, other) != []


def test_pictures_that_are_gone_are_found():
    stored = _notebook("1")
    stored.cells[1].outputs.append(nbformat.v4.new_output("display_data", data={"image/png": "", "text/plain": "f"}))
    fresh = copy.deepcopy(stored)
    assert changed(stored, fresh) == []
    del fresh.cells[1].outputs[1]["data"]["image/png"]
    assert changed(stored, fresh) != []


def test_there_is_a_notebook():
    assert NOTEBOOKS
