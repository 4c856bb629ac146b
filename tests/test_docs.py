"""The documentation says what the program does: help texts, options, links, messages, modules."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from mncover.cli import app, main
from mncover.cli.options import Config
from tests import messages, modules

ROOT = Path(__file__).resolve().parents[1]
COMMAND_PAGES = sorted((ROOT / "docs" / "commands").glob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

HELP_BLOCK = re.compile(r"^```text\n\$ mncover ([^\n]*?) ?--help\n(.*?)^```$", re.M | re.S)
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HELP_BLOCKS = [
    (page.name, command, block)
    for page in COMMAND_PAGES
    for command, block in HELP_BLOCK.findall(page.read_text(encoding="utf-8"))
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_of(group: object, prefix: str = "") -> set[str]:
    """Return the names of a command, if it has one, and of all commands below it."""
    below: dict[str, object] = getattr(group, "commands", {})
    found = {prefix.strip()} if prefix else set()
    return found.union(*(commands_of(inner, f"{prefix} {name}") for name, inner in below.items()))


@pytest.mark.parametrize(("page", "command", "block"), HELP_BLOCKS)
def test_help_in_the_docs_is_what_the_program_prints(
    page: str,
    command: str,
    block: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    assert main([*command.split(), "--help"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()]
    assert [line.rstrip() for line in block.rstrip().splitlines()] == printed, page


def test_every_command_has_its_help_on_its_own_page() -> None:
    commands = commands_of(typer.main.get_command(app))
    assert {"run", "debug data"} <= commands
    assert {(page, command) for page, command, _ in HELP_BLOCKS} == {
        (f"{command.split()[0]}.md", command) for command in commands
    }


@pytest.mark.parametrize("option", [field.name for field in fields(Config)])
def test_every_option_is_explained_in_the_configuration_page(option: str) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert f"| `{option}` |" in page


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_existing_files_and_headings(page: Path) -> None:
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors_of(target), link


def anchors_of(page: Path) -> set[str]:
    """Return the names under which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short_and_links_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 170
    linked = {link.partition("#")[0] for link in LINK.findall(FENCED.sub("", readme))}
    assert {name_of(page) for page in PAGES} - {"README.md"} <= linked


def test_the_architecture_page_lists_every_module_and_no_other() -> None:
    names = [path for path, _ in modules.listed()]
    assert len(set(names)) == len(names)
    assert set(names) == modules.existing().keys(), "python -m tests.modules --write"


def test_every_message_is_explained() -> None:
    missing = messages.missing()
    assert not missing, "\n".join(["python -m tests.messages", *missing])


def test_every_message_that_is_explained_exists() -> None:
    stale = messages.stale()
    assert not stale, "\n".join(["python -m tests.messages", *stale])


def test_the_notebook_runs_and_finds_the_mistakes_of_its_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(ROOT / "examples" / "notebook.py"), run_name="__main__")
    shown = capsys.readouterr().out
    suite, pipe = found["suite"], found["pipe"]
    answers = [answer["label"] for answer in pipe(suite.review.tolist())]
    wrong = suite[suite.gold != answers]
    assert sorted(text for [text] in found["failing"].texts) == sorted(wrong.review)
    tests = found["result"].tests().to_pandas().set_index("test")
    assert (
        tests.wrong.to_dict()
        == wrong.topic.value_counts().reindex(tests.index, fill_value=0).to_dict()
    )
    for name, mine in found["texts"].groupby("context"):
        assert mine["gains.cover"].sum() == pytest.approx(tests["criteria.cover.adds"][name])
    assert found["kept"] == [0, 2]  # the second idea is in the suite
    assert re.search(r"^Coverage of minilm-sst2 by 134 texts$", shown, re.M)
    assert (tmp_path / "notebook-html" / "index.html").is_file()
    assert (tmp_path / "notebook.mncover").is_file()


def test_the_quickstart_prints_cover_by_context_and_the_kept_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = ROOT / "examples" / "quickstart.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    runpy.run_path(str(path), run_name="__main__")
    shown = capsys.readouterr().out
    for context in ("praise", "blame", "negation"):
        assert re.search(rf"^{context} +Cover \d+\.\d\d%, adds \d+\.\d\d%$", shown, re.M)
    kept = re.findall(r"^kept case (\d)", shown, re.M)
    assert kept == ["0", "2"]  # the middle case is part of the first
