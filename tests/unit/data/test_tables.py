"""Tables: what columns are taken for, what is refused and how, and the schema that a new table has to fit."""

from __future__ import annotations

import datetime
import gzip
import importlib.util
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import data
import models
from data.tabular import reading


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "area": rng.normal(120, 30, 40),
            "rooms": rng.integers(1, 9, 40),
            "colour": rng.choice(["red", "green", "blue"], 40),
            "garden": rng.random(40) < 0.5,
            "price": rng.normal(300, 50, 40),
        }
    )
    table.loc[[3, 7], "area"] = np.nan
    table.loc[5, "colour"] = None
    return table


def test_columns_become_numbers_and_the_target_keeps_its_units(frame):
    table = data.table(frame, target="price")
    assert table.inputs == (
        "area", "rooms", "colour=blue", "colour=green", "colour=red", "colour=(missing)", "garden", "area (missing)"
    )  # fmt: skip
    assert table.classes is None
    train, test = table.split(seed=1)
    observed = train.x[:, 7] == 0
    np.testing.assert_allclose(train.x[observed, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(train.x[observed, 0].std(), 1, rtol=1e-5)
    np.testing.assert_allclose(train.y.std(), 1, rtol=1e-5)
    assert set(train.x[:, 2:7].ravel()) == {0.0, 1.0}
    assert (train.x[~observed, 0] == 0).all()  # until an unknown takes its place
    unknowns = int((~observed).sum())
    assert train.x[~observed, 7].tolist() == list(range(1, unknowns + 1))
    assert train.origin.schema.unknowns == unknowns
    assert set(test.x[:, 7]) <= {0.0, -1.0}
    np.testing.assert_allclose(test.y_original, frame["price"].to_numpy()[np.random.default_rng(1).permutation(40)[:4]])


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["a", "b"] * 20, "classification", ("a", "b")),
        ([True, False] * 20, "classification", ("False", "True")),
        ([1, 2, 10, 10] * 10, "classification", ("1", "2", "10")),
        ([1.0, 2.0] * 20, "classification", ("1", "2")),
        (list(range(40)), "regression", None),
        ([0.5, 1.0] * 20, "regression", None),
    ],
)
def test_the_task_is_found_and_told(frame, values, task, classes):
    table = data.table(frame.assign(price=values), target="price")
    assert table.schema.target.classes == classes
    assert task in table.remarks[0]


def test_the_task_can_be_decided(frame):
    numbers = frame.head(15).assign(price=np.arange(3, 18))
    with pytest.raises(
        ValueError, match=r"another class in every row, such as '3'; take it for a number \(--task regr"
    ):
        data.table(numbers, target="price")
    assert data.table(numbers, target="price", task="regression").classes is None
    assert data.table(frame, target="rooms", task="regression").classes is None
    assert data.table(frame, target="rooms").classes == frame["rooms"].nunique()


def test_what_says_nothing_is_left_out_and_told(frame):
    odd = frame.assign(roof="flat", copy=frame["area"], price2=frame["price"], nothing=np.nan)
    odd.insert(0, "Unnamed: 0", range(40))
    table = data.table(odd, target="price")
    assert [column.name for column in table.schema.columns] == ["area", "rooms", "colour", "garden"]
    told = " ".join(table.remarks)
    for words in (
        "'roof' has one value, 'flat'", "'copy' is a copy of 'area'", "'price2' is a copy of the target",
        "'nothing' has no values", "'Unnamed: 0' counts the rows",
        "'area': 2 of 40 values are missing, an unknown each",
        "'colour': 1 of 40 values are missing, a category of its own",
    ):  # fmt: skip
        assert words in told


def test_rows_with_missing_values_can_be_dropped_or_refused(frame):
    assert len(data.table(frame, target="price", missing="drop")) == 37
    with pytest.raises(ValueError, match="column 'area' has no value in row 3"):
        data.table(frame, target="price", missing="refuse")
    frame.loc[0, "price"] = np.nan
    table = data.table(frame, target="price")
    assert len(table) == 39
    assert "1 rows without a value of the target" in table.remarks[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"day": ["2024-01-31", "2024-02-01"] * 20}, "column 'day' holds dates or times, such as '2024-01-31'"),
        ({"day": ["31.1.2024", "1/2/24"] * 20}, "column 'day' holds dates"),
        ({"day": pd.to_datetime(["2024-01-31", "2024-02-01"] * 20)}, "the year, the month or days since a day"),
        ({"day": ["3 Jan 2024", "17-Feb-24"] * 20}, "column 'day' holds dates"),
        ({"day": ["Jan 3, 2024", "February 14, 2024"] * 20}, "column 'day' holds dates"),
        ({"day": ["2024-01", "2023-12"] * 20}, "column 'day' holds dates"),
        ({"day": ["09:15", "17:30:01"] * 20}, "column 'day' holds dates or times, such as '09:15'"),
        ({"day": pd.period_range("2024-01-31", periods=40)}, "column 'day' holds dates"),
        ({"day": [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)] * 20}, "such as the year, the month"),
        ({"day": [datetime.time(9, 15), datetime.time(17)] * 20}, "column 'day' holds dates or times"),
        ({"price": [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)] * 20}, "the target 'price' holds dates"),
        ({"day": ["Jan 2024", "February 2024"] * 20}, "column 'day' holds dates"),
        ({"day": ["Jan-24", "Mar-24"] * 20}, "column 'day' holds dates"),
        ({"day": ["Q1 2024", "2024-Q2"] * 20}, "column 'day' holds dates"),
        (
            {"size": ["950", "1,200"] * 20},
            "column 'size' is mostly numbers, but they are written as text, such as '1,200'",
        ),
        (
            {"size": ["$950", "12 %"] * 20},
            r"nothing else between or beside their digits; embed it .*, or leave it out \(--drop 'size'",
        ),
        (
            {"price": ["12.5", "13", "unknown"] * 13 + ["14"]},
            "the target 'price' is mostly numbers, .*such as 'unknown'",
        ),
        ({"price": ["$12", "$13"] * 20}, "'price' is mostly numbers, .* or take it for classes"),
        (
            {"price": [f"flat {i}" for i in range(40)]},
            "the target 'price' has another class in every row, such as 'flat 0'$",
        ),
        (
            {"id": [f"flat {i}" for i in range(40)]},
            r"'id' has another value in every row, such as 'flat 0'.*--drop 'id'",
        ),
        ({"size": ["1,5", "2,25"] * 20}, "write numbers with a point before their decimals"),
        ({"size": ["12", "n/k", "13", "14"] * 10}, "such as 'n/k'"),
        ({"where": [f"p{i % 30}" for i in range(40)], "price": "a"}, "the target 'price' has one class, 'a'"),
        ({"price": 7}, "has one class, '7'"),
        ({"price": 7.5}, "the target 'price' has one value, 7.5"),
        ({"price": np.nan}, "has no value in any row"),
        ({"area": [1.0, np.inf] * 20}, "column 'area' is infinite in row 1"),
        ({"price": [1.0, np.inf] * 20}, "column 'price' is infinite in row 1"),
        ({"price": [1.0, 2.0, -np.inf, 3.5] * 10}, "column 'price' is infinite in row 2"),
        ({"area": [[1], [2]] * 20}, "column 'area' holds list"),
        ({"area": [1j, 2j] * 20}, "holds complex numbers"),
    ],
)
def test_what_can_not_be_used_is_refused_by_the_name_of_the_column(frame, change, message):
    with pytest.raises(ValueError, match=message):
        data.table(frame.assign(**change), target="price")


def test_all_columns_that_can_not_be_used_are_named_at_once(frame):
    odd = frame.assign(day=["2024-01-31", "2024-02-01"] * 20, id=[f"flat {i}" for i in range(40)])
    with pytest.raises(ValueError, match=r"(?s)column 'day' holds dates.*\ncolumn 'id' has another value in every row"):
        data.table(odd, target="price")


def test_text_that_only_looks_like_dates_or_names_of_rows_is_categories(frame):
    streets = ["Market 12", "Junction 7", "Mayfield 21", "Q1"] * 10
    few = pd.DataFrame({"who": ["ann", "bob", "cid"], "y": [1.0, 2.5, 3.0]})
    ids = pd.Categorical([f"flat {i}" for i in range(40)])
    assert data.table(frame.assign(street=streets), target="price").schema.columns[-1].kind == "category"
    assert data.table(few, target="y").inputs == ("who=ann", "who=bob", "who=cid")
    assert len(data.table(frame.assign(id=ids), target="price").schema.columns[-1].categories) == 40
    assert data.table(frame.assign(id=ids.astype(str)), target="price", embed=["id"]).schema.embedded
    assert data.table(frame.assign(price=["12", "13"] * 20), target="price", task="classification").classes == 2


def test_what_columns_were_taken_for_is_told(frame):
    more = frame.assign(city=["Ulm", "Bonn"] * 20)
    assert data.table(more, target="price", embed=["city"]).remarks[-1] == (
        "the inputs are numbers: 'area', 'rooms'; booleans: 'garden'; categories: 'colour' (4); "
        "embedded categories: 'city' (2)"
    )
    many = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 13)), columns=list("abcdefghijkly"))
    assert data.table(many, target="y").remarks[-1].endswith("'i', 'j' and 2 more")


def test_a_table_shows_what_it_is_and_no_numbers(frame):
    table = data.table(frame, target="price")
    first, *remarks = repr(table).splitlines()
    assert first == "<Table 'table': 40 rows of 8 inputs, 1 target>"
    assert remarks == list(table.remarks)
    train, _ = data.table(frame.assign(price=["a", "b"] * 20), target="price").split()
    assert repr(train) == "<Split 'table, train': 36 rows of 8 inputs, 2 classes>"
    assert repr(data.load("gap", n=30)) == "<Dataset 'gap': 30 rows of 1 input, 1 target>"
    assert repr(data.load("digits")) == "<Dataset 'digits': 1,797 rows of 64 inputs, 10 classes>"


def test_many_categories_are_refused_with_a_way_out():
    many = pd.DataFrame(
        {"id": [f"customer {i}" for i in range(10_000)], "a": np.arange(10_000.0), "y": [0.5, 1] * 5000}
    )
    with pytest.raises(ValueError, match=r"column 'id' has 10,000 different values, .*at most 100.*leave it out"):
        data.table(many, target="y")
    with pytest.raises(ValueError, match="at most 1,000"):
        data.table(many, target="y", embed=["id"])
    with pytest.raises(ValueError, match="the target 'id' has 10,000 different values"):
        data.table(many, target="id")
    assert data.table(many, target="y", drop=["id"]).inputs == ("a",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "pric"}, "target: the table has no column 'pric'; did you mean 'price'"),
        ({"target": "price", "drop": ["are"]}, "drop: the table has no column 'are'"),
        ({"target": "price", "embed": ["price"]}, "can't be dropped or embedded"),
        ({"target": "price", "embed": ["colour"], "drop": ["colour"]}, "'colour' can't be both dropped and embedded"),
        ({"target": "price", "task": "ranking"}, "task must be one of regression, classification"),
        ({"target": "price", "missing": "mean"}, "missing must be one of unknown, drop, refuse"),
        ({"target": "colour", "task": "regression"}, "regression needs numbers"),
    ],
)
def test_wrong_options(frame, options, message):
    with pytest.raises(ValueError, match=message):
        data.table(frame, **options)
    with pytest.raises(TypeError, match=r"write \('area',\)"):
        data.table(frame, target="price", drop="area")
    with pytest.raises(ValueError, match="the table has no rows"):
        data.table(frame.head(0), target="price")
    with pytest.raises(TypeError, match="a table must be a pandas data frame"):
        data.table(3, target="price")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "semicolons.csv"])
def test_files_are_read_as_frames_are(frame, tmp_path, name):
    path = tmp_path / name
    separator = {"t.tsv": "\t", "semicolons.csv": ";"}.get(name, ",")
    text = frame.to_csv(index=False, sep=separator, na_rep="?").encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    read, given = data.table(path, target="price"), data.table(frame, target="price")
    np.testing.assert_allclose(read.x, given.x)
    assert read.remarks == given.remarks
    train, test = read.split(seed=4, test=0.25)
    again = data.Origin.from_json(json.loads(json.dumps(train.origin.to_json())))
    assert again == train.origin
    np.testing.assert_array_equal(again.splits()[1].x, test.x)
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(ValueError, match="is not what it was when the run was made"):
        again.splits()
    path.unlink()
    with pytest.raises(FileNotFoundError, match="which is not there"):
        again.splits()


def test_files_that_are_no_tables(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        data.table(tmp_path / "no.csv", target="y")
    with pytest.raises(ValueError, match="is a folder"):
        data.table(tmp_path, target="y")
    empty, binary, packed, large = (tmp_path / name for name in ("e.csv", "b.csv", "p.csv.gz", "large.csv"))
    empty.write_text("")
    binary.write_bytes(bytes(range(256)) * 20)
    packed.write_bytes(b"not packed")
    with open(large, "wb") as file:
        file.truncate(2 * 10**9)
    for path, message in ((empty, "is empty"), (binary, "can't be read as CSV"), (packed, "can't be read as CSV"),
                          (large, "has 2.0 GB, and a table may have 1 GB")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            data.table(path, target="y")
    for name, contents, message in (
        ("latin.csv", "town,y\nK\xf6ln,1\n".encode("latin-1"), "it is not text in UTF-8; save it as CSV UTF-8"),
        ("utf16.csv", "town,y\nBonn,1\n".encode("utf-16"), "it is not text in UTF-8"),
        ("twice.csv", b"a,b,a,y\n1,2,3,4\n", "it has several columns named 'a'; rename them"),
        ("unnamed.csv", b"a,y\n1,2,3.5\n2,3,4.5\n", "its rows have more values than there are names of columns"),
    ):
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(ValueError, match=message):
            data.table(tmp_path / name, target="y")
    monkeypatch.setattr(reading, "LARGEST", 1000)
    packed.write_bytes(gzip.compress(b"a,y\n" + b"1,2\n" * 1000))
    with pytest.raises(ValueError, match="unpacked it has more than"):
        data.table(packed, target="y")


def test_parquet_is_read_where_pyarrow_is(frame, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    if importlib.util.find_spec("pyarrow"):
        reading.write(frame, path)
        assert data.table(path, target="price").inputs == data.table(frame, target="price").inputs
        reading.write(pd.DataFrame({"a": np.zeros(100_000), "y": 1.0}), path)
        monkeypatch.setattr(reading, "LARGEST", 10**6)
        assert path.stat().st_size < reading.LARGEST
        with pytest.raises(ValueError, match="unpacked it has more than"):
            data.table(path, target="y")
        return
    with pytest.raises(ValueError, match="needs pyarrow"):
        reading.write(frame, path)
    assert not list(tmp_path.iterdir())
    path.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="needs pyarrow"):
        data.table(path, target="price")


def test_what_the_user_calls_a_category_is_one_and_decimals_are_numbers(frame):
    grades = pd.Categorical(["1", "2", "3", "4"] * 10)
    prices = [Decimal(f"{price:.2f}") for price in frame["price"]]
    table = data.table(frame.assign(grade=grades, price=prices, area=frame["area"].map(Decimal)), target="price")
    kinds = {column.name: (column.kind, column.missing) for column in table.schema.columns}
    assert kinds["grade"] == ("category", False)
    assert kinds["area"] == ("number", True)
    np.testing.assert_allclose(table.y, frame["price"], atol=0.006)
    read = frame.assign(grade=[1, 2, 3, 4] * 10)  # as they come back from a CSV file
    np.testing.assert_array_equal(table.schema.raw(read)[:, :9], table.schema.raw(frame.assign(grade=grades))[:, :9])


def test_columns_with_numbers_for_names():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 4)))
    table = data.table(frame, target=3, drop=[0])
    assert (table.inputs, table.schema.target.name) == (("1", "2"), "3")


@pytest.mark.parametrize("odd", [pd.Series([1.0, 2.0]), pd.DataFrame({"y": [1.0, 2.0]})["y"].to_numpy()])
def test_one_column_is_no_table(odd):
    with pytest.raises(TypeError, match="a table must be a"):
        data.table(odd, target="y")


def test_codes_are_categories_whatever_a_file_makes_of_them(frame):
    """A file of rows that hold "01" and no "2A" is read as numbers, and one of "true" and no "maybe" as booleans."""
    coded = frame.assign(place=["01", "02", "2A", "2B"] * 10, sure=["true", "false", "maybe", "1"] * 10)
    schema = data.table(coded, target="price").schema
    some = coded.iloc[[0, 1, 4]]
    as_read = some.assign(place=[1, 2, 1], sure=[True, False, True])
    np.testing.assert_array_equal(schema.raw(as_read), schema.raw(some))
    with pytest.raises(ValueError, match="column 'place' has '4' in row 0"):
        schema.raw(some.assign(place=4))
    twins = data.table(frame.assign(place=["1", "01", "2A", "2B"] * 10), target="price").schema
    with pytest.raises(ValueError, match="column 'place' has '1' in row 0"):  # which of the two is not known any more
        twins.raw(some.assign(place=1))
    mostly = frame.assign(place=["01", "02", "03", "2A"] * 10)
    with pytest.raises(ValueError, match=r"such as '2A'.*embed it if they are codes \(--embed 'place'"):
        data.table(mostly, target="price")
    assert data.table(mostly, target="price", embed=["place"]).schema.embedded[0].categories == ("01", "02", "03", "2A")


class _Foreign:
    """A frame of another library: all that is known of it is the protocol."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __dataframe__(self, *args, **kwargs):
        with (
            pytest.warns(match="Interchange") if hasattr(pd.errors, "Pandas4Warning") else pytest.MonkeyPatch.context()
        ):
            return self._frame.__dataframe__(*args, **kwargs)


def test_frames_of_other_libraries_and_mappings(frame):
    whole = frame.dropna()
    given = data.table(whole, target="price")
    for other in (_Foreign(whole), {name: whole[name].to_numpy() for name in whole}):
        np.testing.assert_allclose(data.table(other, target="price").x, given.x)


def test_a_new_table_is_encoded_by_the_schema_or_refused_by_column(frame):
    frame = frame.assign(sort=["new", "old"] * 20)
    train, test = data.table(frame, target="price").split(seed=1)
    schema = data.Schema.from_json(json.loads(json.dumps(train.origin.schema.to_json())))
    assert schema == train.origin.schema
    rows = np.random.default_rng(1).permutation(40)[:4]
    np.testing.assert_array_equal(schema.inputs(frame.iloc[rows].drop(columns="price").assign(more=1)), test.x)
    for change, message in (
        ({"area": "large"}, "column 'area' must hold numbers, got the text 'large'"),
        ({"area": pd.Timestamp("2024-01-31")}, "column 'area' must hold numbers, got '2024-01-31 00:00:00'"),
        ({"garden": "True"}, "column 'garden' must hold booleans, got the text 'True'"),
        ({"colour": "pink"}, "column 'colour' has 'pink' in row 0, which is not one of 'blue', 'green', 'red'"),
        ({"rooms": np.nan}, "column 'rooms' has no value in row 0, and had one in every row"),
        ({"sort": None}, "column 'sort' has no value in row 0, and had one in every row of the table"),
        ({"garden": 7}, "column 'garden' must hold booleans"),
    ):
        with pytest.raises(ValueError, match=message):
            schema.inputs(frame.assign(**change))
    with pytest.raises(ValueError, match="the table has no column 'area', 'colour'"):
        schema.inputs(frame[["rooms", "garden"]])
    assert schema.outside(frame.assign(area=[1e4, 120.0] * 20, rooms=100))[:2] == ["area; rooms", "rooms"]


@pytest.mark.parametrize("damage", [{"columns": 3}, {"missing": "?"}, {"unknowns": -1}, {"target": {}}])
def test_a_damaged_schema_is_refused(frame, damage):
    written = data.table(frame, target="price").whole().origin.schema.to_json()
    with pytest.raises(ValueError, match="can't be read, or it is damaged"):
        data.Schema.from_json({**written, **damage})


def test_known_sets_know_where_they_came_from():
    for name, options, how in (("moons", {}, {"seed": 3}), ("gap", {"n": 30}, {"seed": 1, "test": 0.5})):
        train, test = data.load(name, **options).split(**how)
        made = data.Origin.from_json(json.loads(json.dumps(train.origin.to_json()))).splits()
        np.testing.assert_array_equal(made[0].x, train.x)
        np.testing.assert_array_equal(made[1].y, test.y)
    with pytest.raises(ValueError, match="no test rows"):
        data.load("moons").whole().origin.splits()


def test_for_table_puts_in_front_what_is_needed_and_nothing_else(frame):
    plain = models.mlp(3)
    whole = data.table(frame.dropna(), target="price").whole()
    assert models.for_table(plain, whole) is plain
    train = data.table(frame, target="price", embed=["colour"]).whole()
    model = models.for_table(plain, train)
    assert model.codes == (3, 4)
    assert model.weights(train.x)["hidden0.weight"] == (3 + 1 + 2, 3)  # numbers, an indicator, 2 units of a colour
    assert model.weights(train.x)["embedding0.weight"] == (4, 2)
    assert models.from_recipe(json.loads(json.dumps(models.to_recipe(model)))) == model
    shared = models.shared_shapes(model, train.x, model.weights(train.x))
    assert shared == {"embedding0.weight": (4, 1), "hidden0.weight": (6, 1), "hidden0.bias": (1,),
                      "output.weight": (1, 1), "output.bias": (1,)}  # fmt: skip
    new = train.x[:1].copy()
    new[0, 3] = -1
    with pytest.raises(ValueError, match="predict draws it from its prior"):
        model.validate(new)
    wrong = train.x.copy()
    wrong[0, 4] = 9
    with pytest.raises(ValueError, match="places or codes that are not those of the table"):
        model.validate(wrong)
    with pytest.raises(TypeError, match="linear, logistic or mlp"):
        models.for_table(models.lenet(), train)
    with pytest.raises(TypeError, match="the training split of a table"):
        models.for_table(plain, data.load("moons").whole())
