"""Scores that look inside, against slow loops over tiny models, and by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.coverage import Coverage
from mncover.data.columns import Parted
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.errors import DataFileError, MismatchError, SettingsError
from mncover.selection import nearest as search
from mncover.selection.cases import Cases, cases_of
from mncover.selection.chance import compare_methods
from mncover.selection.inside import second_opinion
from mncover.selection.nearest import nearest
from mncover.selection.scores import available, score_cases
from mncover.suites.rows import Rows
from tests import tiny
from tests.folders import suite_of

TRAIN = tiny.texts(50, seed=9)
CLASSES = [i % 3 for i in range(50)]


def measured(
    folder: Path, model: str = "bert", labels: Any = CLASSES, seed: int = 0, **more: Any
) -> Cases:
    cov = Coverage(*tiny.make(model, seed), max_length=12, progress=False, **more)
    train = Rows.make(TRAIN, labels=labels)
    rows = Rows.of_suite(Path("suite.jsonl"), suite_of())
    return cases_of(cov.run(rows, folder / f"{model}{seed}.mncover", train).data)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return measured(tmp_path_factory.mktemp("inside"))


def distances(cases: Cases, row: int) -> list[tuple[float, int]]:
    """Return the distance of a text to every training text, with its class, the nearest first."""
    space, table = cases.data.space, cases.data.table
    assert space is not None
    mine = [float(x) for x in table.signatures[row][: space.dimensions[0]]]
    found = []
    for place, point in enumerate(space.reference):
        apart = sum((a - float(b)) ** 2 for a, b in zip(mine, point, strict=True)) ** 0.5
        found.append((apart, CLASSES[space.places[place]]))
    return sorted(found)


def test_neighbours_and_surprise_are_those_of_a_slow_loop(labelled: Cases) -> None:
    neighbours, surprise = (score_cases(labelled, by) for by in ("neighbours", "surprise"))
    assert len(set(surprise)) > 10
    for case, rows in enumerate(labelled.rows):
        others, far = [], []
        for row in rows:
            known = distances(labelled, int(row))
            answer = labelled.data.table["prediction"][row]
            others.append(1 - sum(label == answer for _, label in known[:20]) / 20)
            far.append(known[9][0])
        assert neighbours[case] == pytest.approx(max(others))
        assert surprise[case] == pytest.approx(max(far))


def altered(cases: Cases, space: dict[str, Any], **columns: Any) -> Cases:
    """Return one-text cases whose table and space have other values."""
    data = CoverageData(cases.data.identity)
    table = cases.data.table.take(np.arange(2))
    values = {name: np.array(column) for name, column in columns.items() if name in table.columns}
    data.table = replace(
        table,
        columns=table.columns | values,
        signatures=np.array(columns.get("signatures", table.signatures), dtype=np.float16),
    )
    assert cases.data.space is not None
    data.space = replace(cases.data.space, **space)
    rows = Parted(np.array([0, 1]), np.arange(3))
    few: dict[str, Any] = {
        "test": cases.test[:2],
        "number": cases.number[:2],
        "verdicts": cases.verdicts[:2],
    }
    return replace(cases, data=data, rows=rows, **few)


def line(n: int, dimensions: int) -> np.ndarray[Any, Any]:
    """Return n points 1, 2, 3 … from the origin along the first dimension."""
    return np.outer(np.arange(1, n + 1), np.eye(dimensions)[0]).astype(np.float16)


def test_neighbours_and_surprise_by_hand(labelled: Cases) -> None:
    space = labelled.data.space
    assert space is not None
    dimensions, size = space.dimensions[0], space.size
    # 30 training texts on a line; the first 5 have class 0, then 10 of class 1, then class 2.
    labels = np.array([0] * 5 + [1] * 10 + [2] * 15)
    known = {"reference": line(30, dimensions), "labels": labels, "places": np.arange(30)}
    origin = np.zeros((2, size))
    mine = altered(labelled, known, signatures=origin, prediction=[0, 1])
    assert score_cases(mine, "neighbours").tolist() == [0.75, 0.5]
    assert score_cases(mine, "surprise").tolist() == [10, 10]
    # Of the 20 nearest, the 5 of class 0 are not known now.
    labels = np.array([UNKNOWN] * 5 + [1] * 10 + [2] * 15)
    mine = altered(labelled, known | {"labels": labels}, signatures=origin, prediction=[0, 1])
    assert score_cases(mine, "neighbours") == pytest.approx([1, 1 / 3])
    # With 4 training texts these are all there are.
    few = {name: values[:4] for name, values in known.items()}
    mine = altered(labelled, few, signatures=origin, prediction=[0, 2])
    assert score_cases(mine, "neighbours").tolist() == [0, 1]
    assert score_cases(mine, "surprise").tolist() == [4, 4]
    # A text without tokens has neither a signature nor an answer.
    empty = np.stack([np.full(size, np.nan), np.zeros(size)])
    mine = altered(labelled, known, signatures=empty, prediction=[UNKNOWN, 0])
    assert score_cases(mine, "neighbours").tolist() == [0, 0.75]
    assert score_cases(mine, "surprise").tolist() == [0, 10]


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(0, 150), st.integers(1, 25))
def test_the_nearest_are_those_of_sorting_everything(
    seed: int, points: int, reference: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(points, 5)), rng.normal(size=(reference, 5)) + 1e3 * rng.integers(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK_BYTES", 5000)  # several blocks
        found = nearest(a, b, k)
    apart = np.sqrt(((a[:, None] - b) ** 2).sum(axis=2))
    assert found.places.tolist() == np.argsort(apart, axis=1)[:, :k].tolist()
    assert found.distances == pytest.approx(np.sort(apart, axis=1)[:, :k])


def test_second_is_the_doubt_of_the_other_model(labelled: Cases, tmp_path: Path) -> None:
    other = measured(tmp_path, seed=1).data
    doubt = second_opinion(labelled, other)
    texts = list(other.table.texts)
    for case, rows in enumerate(labelled.rows):
        by_text = []
        for row in rows:
            there = texts.index(labelled.data.table.texts[row])
            answer = labelled.data.table["prediction"][row]
            by_text.append(1 - float(other.table.probabilities[there, answer]))
        assert doubt[case] == pytest.approx(max(by_text), abs=1e-6)
    both = replace(labelled, given={"second": doubt})
    assert (score_cases(both, "second") == doubt).all()
    assert "second" in available(both)
    assert "second" not in available(labelled)


def test_second_refuses_other_texts_and_other_classes(labelled: Cases) -> None:
    data = labelled.data
    few = CoverageData(data.identity)
    few.table = data.table.take(np.arange(1, len(data.table)))
    missing = f"lacks 1 of {len(data.table)} texts, such as {data.table.texts[0]!r:.60}"
    with pytest.raises(DataFileError) as raised:
        second_opinion(labelled, few)
    assert missing in str(raised.value)
    strange = CoverageData(replace(data.identity, labels=("a", "b", "c")))
    with pytest.raises(MismatchError, match="the classes a, b, c, this one has LABEL_0"):
        second_opinion(labelled, strange)


def test_scores_say_what_the_data_lacks(labelled: Cases, tmp_path: Path) -> None:
    assert {"neighbours", "surprise"} <= set(available(labelled))
    plain = measured(tmp_path, labels=None)
    assert "surprise" in available(plain)
    with pytest.raises(SettingsError, match=r"classes of the training texts: .* --train file"):
        score_cases(plain, "neighbours")
    bare = measured(tmp_path, seed=2, signatures=False)
    for name in ("neighbours", "surprise"):
        with pytest.raises(SettingsError, match="without --no-signatures"):
            score_cases(bare, name)
    for name, needs in (("second", "--other FILE"), ("fitted", "--fit FILE")):
        with pytest.raises(SettingsError, match=f"{name} needs .*{needs}"):
            score_cases(labelled, name)


def test_a_model_without_classes_has_neither_neighbours_nor_a_second_opinion(
    tmp_path: Path,
) -> None:
    cov = Coverage(*tiny.make("bert_encoder"), max_length=12, progress=False)
    rows, train = Rows.make(tiny.texts(6)), Rows.make(TRAIN)
    cases = cases_of(cov.run(rows, tmp_path / "run.mncover", train).data)
    assert "surprise" in available(cases)
    with pytest.raises(SettingsError, match="neighbours needs a model that answers with one class"):
        score_cases(cases, "neighbours")
    with pytest.raises(SettingsError, match="second needs a model that answers with one class"):
        second_opinion(cases, cases.data)


def test_a_comparison_has_every_score_that_the_data_has(labelled: Cases) -> None:
    chosen, groups = np.arange(4), [np.arange(len(labelled))]
    assert {"neighbours", "surprise"} <= {
        row.method for row in compare_methods(labelled, chosen, groups)
    }
    given = replace(labelled, given={"second": np.arange(len(labelled), dtype=float)})
    rows = {row.method: row for row in compare_methods(given, chosen, groups)}
    assert rows["second"].cases == 4
    assert "fitted" not in rows
