"""Hostile names, texts, labels and paths over every command and format: shown, never obeyed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mncover.cli import main
from mncover.data.harmless import FORMULA, as_code, in_build_log, in_cell, in_markdown, in_xml
from mncover.report.tables import write_csv
from mncover.suites.expectations import Expectation
from mncover.suites.formats import save_suite
from mncover.suites.model import Case, Suite, Test
from mncover.types import visible
from tests.folders import Material, write_material

PAYLOADS = [
    *("\x00", "\x07bell", "\x08\x08\x08back", "a\rb", "\x0b", "\x0c", "\x1b[2J", "\x1b[31mred"),
    *("\x1b]0;title\x07", "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "\x1bc", "\x7f"),
    *("\x85next", "\x9b2J", "\x9d0;title\x9c", "\u061c", "\u200e\u200f", "\u202eevil", "\u2028"),
    *("\u2029", "\u2066a\u2069", "\ud800", "\udfff end", "\ufff9a\ufffb", "::error::no", "  ::x::"),
    *(
        "::set-output name=a::b",
        "::add-mask::a",
        "a\n::error file=x::b",
        "##[error]no",
        "a ##[group]",
    ),
    *(
        "##vso[task.setvariable variable=a]b",
        "::stop-commands::t",
        "@everyone",
        "@org/team",
        "#123",
    ),
    *(
        "https://evil.example/?a=b",
        "www.evil.example",
        "GH-12",
        "$\\rm math$",
        "$$x$$",
        "a@b.example",
    ),
    *("org/repo#1", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "[link](http://a.example)"),
    *("![image](//a.example/x.png)", "<img src=x onerror=alert(1)>", "<script>alert(1)</script>"),
    *(
        "</td></tr></table><h1>",
        "&lt;b&gt;",
        "]]>",
        "<!--",
        "-->",
        "'\"><b>",
        "{{ 7 * 7 }}",
        "{% if %}",
    ),
    *(
        "=1+1",
        "+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "=cmd|'/C calc'!A0",
        "|",
        "a | b",
        "```",
        "~~~",
    ),
    *(
        "[bold]x[/bold]",
        "[link=https://a.example]x[/]",
        ":smile:",
        "%s%n",
        "../../etc/passwd",
        "`x`",
    ),
]
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COMMAND = re.compile(r"^\s*::|##\[|##vso\[", re.MULTILINE)


def wicked_suite() -> Suite:
    """Return a suite in which each payload is a name, a capability, a text and a label."""
    labels = (PAYLOADS[6], "::error::label", "=label")
    tests = [
        Test(
            f"{payload}{number}" if number % 2 else f"{number} {payload}",
            "MFT",
            Expectation("label"),
            (Case((f"good {payload}",), number % 3), Case((f"{payload} bad film",), 0)),
            payload,
        )
        for number, payload in enumerate(PAYLOADS)
    ]
    return Suite(tuple(tests), labels)


@pytest.fixture(scope="module")
def wicked(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """A model and a folder with hostile names, and a data file of a hostile suite."""
    place = tmp_path_factory.mktemp("w") / "::error::\x1b[2J\u202e@all"
    place.mkdir()
    made = write_material(place)
    config = json.loads((made.model / "config.json").read_text())
    names = dict(enumerate(wicked_suite().labels))
    config |= {"id2label": names, "label2id": {name: n for n, name in names.items()}}
    (made.model / "config.json").write_text(json.dumps(config))
    save_suite(wicked_suite(), made.suite)
    made.model.rename(place / "\x1b[31m::mod")
    (place / "recipe.toml").write_text('[[test]]\nname = "\\u001b[2J"\n')
    made = replace(made, model=place / "\x1b[31m::mod")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(made.run("-q", "-o", "run.mncover")) == 0
        assert main(["html", "run.mncover", "-q", "-o", "pages"]) == 0
    return made


def commands(made: Material) -> list[list[str]]:
    suite, run = str(made.suite), ["report", "run.mncover"]
    gates = ["--max-failing", "1", "--since", "run.mncover"]
    return [
        made.run("-o", "run.mncover"),
        *([*run, "--format", kind] for kind in ("text", "markdown", "github", "json", "junit")),
        *([*run, "--failures", "2", "--format", kind, *gates] for kind in ("text", "markdown")),
        ["json", "run.mncover", "--texts", "--pretty"],
        ["html", "run.mncover"],
        ["suite", "show", suite],
        ["suite", "convert", suite, "-o", "\x1b[2Jb.jsonl"],
        ["suite", "export", suite, "-o", "\u202eb.txt"],
        ["select", "run.mncover", "--budget", "1", "-o", "::c.jsonl"],
        ["next", "run.mncover", "-n", "90"],
        ["next", "run.mncover", "-n", "90", "--json"],
        ["found", "run.mncover"],
        ["debug", "data", "run.mncover"],
        ["debug", "model", str(made.model), "--max-length", "8"],
        ["cache"],
        ["transform", "WordSwapQWERTY", "\x1b[2J film \u202e", "-n", "1"],
        ["run", str(made.model), suite, "--train", "::none\n::error::\x1b[2J"],
        ["run", str(made.model), suite, "--train", "train.txt", "--matching", "\x1b[2J\n::x::"],
        ["report", "\x1b[2J\n::error::none"],
        ["suite", "make", "recipe.toml", "-o", "d.jsonl"],
        ["--debug", "report", "\x1b[2J\n::error::none"],
        ["no\x1b[2Jcommand"],
        ["combine", "run.mncover", "run.mncover", "-o", "\x9b2J.mncover"],
    ]


def test_there_are_many_payloads() -> None:
    assert len(set(PAYLOADS)) >= 40


def test_nothing_that_is_printed_is_obeyed_by_a_terminal_or_a_build(
    wicked: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wicked.folder)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for arguments in commands(wicked):
        capsys.readouterr()
        main(arguments)
        shown = "".join(capsys.readouterr())
        assert shown, arguments
        assert not CONTROL.findall(shown), (arguments, CONTROL.search(shown))
        found = COMMAND.search(shown)
        assert not found, (arguments, shown[found.start() - 80 : found.end() + 80])


def test_markdown_notifies_nobody_and_links_nowhere() -> None:
    for payload in PAYLOADS:
        shown = in_markdown(payload)
        assert not CONTROL.search(shown)
        assert not re.search(r"@\w|://|(?i:www\.\w)|(?<![\\&])#\d", shown), payload
        assert not re.search(r"(?<!<span>)\$|(?<!\\)[`*_\[\]|~]|<(?!/?span>)", shown), payload
        assert "\n" not in shown


def test_a_block_of_code_is_not_left() -> None:
    block = as_code("a\n```\n@all\n`````` b")
    fence = block.split("text\n")[0]
    assert block.count(fence) == 2
    assert block.startswith(fence)
    assert block.endswith(f"\n{fence}\n")


def test_spreadsheets_compute_nothing(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [{"name": payload, "n": -1} for payload in PAYLOADS])
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        for row, payload in zip(csv.DictReader(file), PAYLOADS, strict=True):
            assert not row["name"].startswith(FORMULA)
            assert not CONTROL.search(row["name"])
            assert row["n"] == "-1"
            assert payload.startswith(FORMULA) == row["name"].startswith("'") or payload[0] == "'"
    assert in_cell(-1.5) == -1.5


def test_xml_holds_every_payload() -> None:
    for payload in PAYLOADS:
        element = ElementTree.Element("a", name=in_xml(payload))
        element.text = in_xml(payload)
        content = ElementTree.tostring(element, encoding="utf-8").decode()
        assert not CONTROL.search(content)
        assert ElementTree.fromstring(content).text == in_xml(payload)


def test_build_logs_have_no_commands_and_lose_nothing() -> None:
    for payload in PAYLOADS:
        shown = in_build_log(visible(payload))
        assert not COMMAND.search(shown)
        assert shown.replace("\\", "") == visible(payload).replace("\\", "")


def test_pages_show_no_control_characters(wicked: Material) -> None:
    pages = [*(wicked.folder / "pages").rglob("*.html")]
    assert len(pages) == 1 + len(PAYLOADS)
    for page in pages:
        content = page.read_text(encoding="utf-8")
        assert not CONTROL.search(content), page
        assert "<script>alert" not in content
        assert "<img src=x" not in content


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_terminals_show_what_they_can(wicked: Material, encoding: str) -> None:
    script = """
import sys
from mncover.cli import main
for line in sys.argv[1:]:
    code = main(line.split(" "))
    assert code in (0, 2), (line, code)
"""
    lines = ["suite show suite.jsonl", "report run.mncover", "report run.mncover --failures 2"]
    lines += ["report run.mncover --format markdown", "report run.mncover --format junit"]
    root = str(Path(__file__).resolve().parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", script, *lines],
        cwd=wicked.folder,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": root},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-800:]
    assert io.TextIOWrapper(io.BytesIO(done.stdout), encoding).read()
