"""The door: what a user meets first. Names, help, types, warnings, and files of the user's own that hide a package."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import inference
import models
from inference.host.telling import tell

ROOT = Path(__file__).parents[2]


def _script(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(code)
    return subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, cwd=folder, timeout=120,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip


@pytest.mark.parametrize(("file", "name"), [("models.py", "models"), ("data/__init__.py", "data")])
def test_a_file_of_the_users_that_hides_a_package_is_named(tmp_path, file, name):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    done = _script(tmp_path, "import inference")
    assert f"ImportError: {tmp_path / file} hides Touchstone's own package '{name}'" in done.stderr
    assert "rename it" in done.stderr


def test_a_module_of_the_users_called_inference_is_named(tmp_path):
    (tmp_path / "inference.py").write_text("")
    done = _script(tmp_path, "import diagnostics")
    assert f"ImportError: {tmp_path / 'inference.py'} hides Touchstone's own package 'inference'" in done.stderr


def test_a_plain_folder_hides_nothing(tmp_path):
    (tmp_path / "data").mkdir()
    done = _script(tmp_path, "import inference, data; print(data.__file__)")
    assert done.stdout.strip() == str(ROOT / "data" / "__init__.py"), done.stderr


@pytest.mark.parametrize("method", inference.METHODS)
def test_help_of_a_method_explains_every_option(method):
    record = inference.METHODS[method]
    explained = [line.strip().partition(":")[0] for line in record.__doc__.partition("Attributes:")[2].splitlines()]
    for item in fields(record):
        assert explained.count(item.name) == 1, f"{item.name} of {method}"


def test_warnings_are_of_one_class_and_point_at_the_users_line():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        inference.run(
            models.linear(), 1000 * np.eye(4), np.array([1.0, 2.0, 0.5, 3.0]), method="map", steps=2, progress=False
        )
        tell("directly")
    assert len(said) == 2
    for each in said:
        assert issubclass(each.category, inference.TouchstoneWarning)
        assert each.filename == __file__


def test_an_editor_completes_predictions():
    assert get_type_hints(inference.Posterior.predict)["return"] is inference.Prediction
    for part in ("mean", "std", "epistemic", "aleatoric", "total"):
        for kind in (inference.Prediction, inference.Regression, inference.Classification):
            assert part in dir(kind)
    assert get_type_hints(inference.Posterior.simulate)["return"] == dict[str, np.ndarray]


def test_packages_are_typed():
    for package in ("data", "models", "inference", "diagnostics"):
        assert (ROOT / package / "py.typed").exists()


def test_a_guide_by_name_and_as_a_record_are_the_same():
    record = inference.SVI(guide=inference.Dropout(rate=0.1))
    assert record == inference.SVI(guide="dropout", rate=0.1)
    assert record.guide.rate == inference.Dropout(rate=0.1).rate
    assert "rate:" in inference.Dropout.__doc__
    assert inference.SVI(**record.options()) == record
    with pytest.raises(ValueError, match="'rate' must be set on it"):
        inference.SVI(guide=inference.Dropout(), rate=0.1)
    with pytest.raises(TypeError, match=r"svi has no option 'rat'; it takes .*rate"):
        inference.SVI(guide="dropout", rat=0.1)
