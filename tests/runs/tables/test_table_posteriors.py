"""Posteriors of tables: they predict data frames in the target's units, and keep their schema on disk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import data
import diagnostics
import inference
import models
from tests.helpers.house_prices import house_prices
from touchstone import predicting


@pytest.fixture(scope="module")
def run():
    frame = house_prices()
    train, test = data.table(frame, target="price", embed=["colour"]).split(seed=0)
    model = models.for_table(models.linear(), train)
    return frame, train, test, inference.run(model, train, method="laplace", steps=300, progress=False)


def test_a_data_frame_is_predicted_in_its_units_with_its_index(run):
    frame, _, test, posterior = run
    rows = frame.iloc[test.rows].set_axis([f"house {i}" for i in test.rows])
    table = posterior.predict(rows).to_frame(0.5)
    assert list(table.columns) == ["mean", "std", "lower", "upper", "epistemic", "aleatoric", "outside"]
    assert table.index.tolist() == rows.index.tolist()
    expected = test.restore(posterior.predict(test))
    np.testing.assert_allclose(table["mean"], expected.mean)
    np.testing.assert_allclose(table["std"] ** 2, table["epistemic"] + table["aleatoric"])
    assert np.abs(table["mean"] - rows["price"]).median() < 15
    some = posterior.predict(rows).at([1, 2])
    assert some.to_frame().index.tolist() == rows.index[1:3].tolist()


def test_a_long_table_is_predicted_block_by_block(run, monkeypatch, capsys):
    frame, train, _, posterior = run
    rows, schema = frame.dropna(), train.origin.schema
    whole = predicting.by_blocks(posterior, schema, rows, 0.8)
    pd.testing.assert_frame_equal(whole, posterior.predict(rows).to_frame(0.8))
    assert not capsys.readouterr().err
    sizes: list[int] = []
    predict = inference.Posterior.predict
    monkeypatch.setattr(inference.Posterior, "predict", lambda self, x: sizes.append(len(x)) or predict(self, x))
    monkeypatch.setattr(predicting, "_AT_ONCE", 25 * posterior.shape[0] * posterior.shape[1])
    pd.testing.assert_frame_equal(predicting.by_blocks(posterior, schema, rows, 0.8), whole, rtol=1e-5)
    assert sizes == [25, 25, 8]
    assert "predict: 58 rows in" in capsys.readouterr().err
    for changed, message in (
        (rows.assign(colour=["red"] * 57 + ["pink"]), "'pink' in row 57"),
        (rows.drop(columns="garden"), "no column 'garden'"),
    ):
        with pytest.raises(ValueError, match=message):
            predicting.by_blocks(posterior, schema, changed, 0.8)
        assert not capsys.readouterr().err


def test_what_is_missing_makes_a_prediction_uncertain_and_what_is_far_is_marked(run):
    _, train, _, posterior = run
    new = pd.DataFrame({"area": [120.0, np.nan, 1e4], "colour": "green", "garden": True})
    table = posterior.predict(new).to_frame()
    spread = 2 * train.scaler.x_scale[0]  # in price, of an area that is not known
    np.testing.assert_allclose(table["std"][1], spread, rtol=0.15)
    assert table["std"][0] < spread / 3
    assert table["outside"].tolist() == ["", "", "area"]
    np.testing.assert_allclose(posterior.predict(new).mean, table["mean"])  # the same unknowns each time
    columns = {name: new[name].tolist() for name in new}
    np.testing.assert_array_equal(posterior.predict(columns).mean, table["mean"])
    with pytest.raises(ValueError, match="column 'colour' has 'pink' in row 0"):
        posterior.predict(new.assign(colour="pink"))
    with pytest.raises(ValueError, match="no rows"):
        posterior.predict(new.head(0))


def test_each_unknown_is_that_of_its_own_row(run):
    """The two rows share the weight of the indicator, so what their prices say is how far their areas are apart."""
    frame, train, _, posterior = run
    area = (frame["price"] - 40 * (frame["colour"] == "red")) / 2  # as the price was made, up to its noise
    first, second = train.rows[train.x[:, 2] == 1][0], train.rows[train.x[:, 2] == 2][0]
    assert {first, second} == {3, 7}
    apart = (area[first] - area[second]) / train.scaler.x_scale[0]
    unknowns = posterior.draws["missing"].mean(axis=(0, 1))
    np.testing.assert_allclose(unknowns[0] - unknowns[1], apart, atol=0.35)
    assert abs(apart) > 0.7


def test_a_point_estimate_says_what_a_missing_number_makes_uncertain(run):
    _, train, _, _ = run
    model = models.for_table(models.linear(), train)
    point = inference.run(model, train, method="map", steps=300, progress=False)
    table = point.predict(pd.DataFrame({"area": [120.0, np.nan], "colour": "green", "garden": True})).to_frame()
    assert table["epistemic"][0] < 1e-12
    np.testing.assert_allclose(np.sqrt(table["epistemic"][1]), 2 * train.scaler.x_scale[0], rtol=0.25)


def test_the_schema_is_kept_in_files_and_directories(run, tmp_path):
    frame, train, _, posterior = run
    posterior.save(tmp_path / "p.npz")
    read = inference.load(tmp_path / "p.npz")
    assert read.origin == posterior.origin == train.origin
    rows = frame.iloc[:9]
    np.testing.assert_array_equal(read.predict(rows).mean, posterior.predict(rows).mean)
    options = {"method": "map", "steps": 20, "progress": False, "directory": tmp_path / "run"}
    inference.run(posterior.model, train, **options)
    for again in (inference.load(tmp_path / "run"), inference.resume(tmp_path / "run", progress=False)):
        assert again.origin == train.origin
    with pytest.raises(ValueError, match="holds the same run"):
        inference.run(posterior.model, train.x, train.y, **options)


def test_minibatches_and_blocks_of_rows_find_their_unknowns(run):
    _, train, _, _ = run
    model = models.for_table(models.linear(), train)
    whole, blocks = (
        inference.run(model, train, method="map", steps=2000, chunk_size=size, progress=False) for size in (None, 10)
    )
    np.testing.assert_allclose(blocks.draws["missing"], whole.draws["missing"], atol=2e-3)
    some = inference.run(model, train, method="map", steps=3000, batch_size=18, progress=False)
    np.testing.assert_allclose(some.draws["missing"], whole.draws["missing"], atol=0.15)


def test_codes_are_not_taken_for_numbers(run, tmp_path):
    _, train, test, posterior = run
    with pytest.raises(ValueError, match=r"run models.for_table\(model, train\)"):
        inference.run(models.linear(), train, method="map")
    with pytest.raises(ValueError, match="predict draws it from its prior"):
        inference.run(posterior.model, _with_a_missing_number(test), method="map")
    codes = posterior.probes[:, list(posterior.model.codes)]
    assert (codes == np.round(codes)).all()
    page = diagnostics.report(posterior, test, tmp_path / "r.html").read_text()
    assert "area, colour, garden" in page
    assert "inferred with the weights" in page


def _with_a_missing_number(test: data.Split) -> data.Split:
    x = test.x.copy()
    x[0, 2] = -1
    return data.Split(x, test.y, test.scaler, test.name, origin=test.origin)


def test_classes_keep_their_names(tmp_path):
    frame = house_prices().dropna()
    train, test = data.table(frame, target="colour").split(seed=0, test=0.3)
    posterior = inference.run(
        models.mlp(3, likelihood=models.Categorical(3)), train, method="ensemble", steps=60, progress=False
    )
    table = posterior.predict(frame.head(4)).to_frame()
    names = ["<i>blue</i>", "green", "red"]
    assert list(table.columns) == [
        "label", *(f"probability {name}" for name in names), "epistemic", "aleatoric", "outside"
    ]  # fmt: skip
    assert set(table["label"]) <= set(names)
    np.testing.assert_allclose(table[[f"probability {name}" for name in names]].sum(axis=1), 1)
    page = diagnostics.report(posterior, test, tmp_path / "r.html").read_text()
    assert "&lt;i&gt;blue&lt;/i&gt;" in page
    assert "<i>blue" not in page


def test_a_prediction_of_several_targets_has_a_column_for_each():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    model = models.linear(likelihood=models.Gaussian(outputs=2))
    posterior = inference.run(model, x, y, method="map", steps=5, progress=False)
    assert list(posterior.predict(x).to_frame().columns[:4]) == ["mean 0", "mean 1", "std 0", "std 1"]
