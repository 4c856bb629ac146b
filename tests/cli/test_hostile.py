"""Hostile names, texts, labels and paths over every command and format: shown, never obeyed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mncover.cli import main
from mncover.data.harmless import (
    FORMULA,
    as_code,
    in_build_log,
    in_cell,
    in_figure,
    in_markdown,
    in_xml,
)
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
WORDS = ("\x1b[2Jplot", "=1+1", "::error::room", "\u202eyes")
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
    lines = [f"{payload} film".replace("\n", " ") for payload in PAYLOADS]
    with made.train.open("a", encoding="utf-8", errors="replace", newline="") as train:
        train.write("\n" + "\n".join(lines))
    rows = [{"text": f"{payload} not good {payload}", "label": 1} for payload in PAYLOADS]
    (place / "=more.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rename_words(made.model)
    made.model.rename(place / "\x1b[31m::mod")
    (place / "recipe.toml").write_text('[[test]]\nname = "\\u001b[2J"\n')
    made = replace(made, model=place / "\x1b[31m::mod")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(made.run("-q", "-o", "run.mncover")) == 0
        assert main(["html", "run.mncover", "-q", "-o", "pages"]) == 0
    return made


def rename_words(model: Path) -> None:
    """Give a tokenizer hostile words."""
    path, content = model / "tokenizer.json", json.loads((model / "tokenizer.json").read_text())
    words = content["model"]["vocab"]
    for word, payload in zip(("plot", "actor", "room", "yes"), WORDS, strict=True):
        words[payload] = words.pop(word)
    path.write_text(json.dumps(content))


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


def more_commands(made: Material) -> list[list[str]]:
    """Return the commands that measure, choose or judge, each with an output of a hostile name."""
    model, suite, more = str(made.model), str(made.suite), "=more.jsonl"
    measured = ["--train", "train.txt", "--max-length", "12"]
    planned = "out/\x1b[2Jplan.jsonl"
    words, masks = ["--words", "words.txt"], "out/\x1b[2Jw.safetensors"
    changed = ["--similarity", "-1", "--max-iter", "1", "--transform", "WordSwapQWERTY"]
    changed += ["--transform", "WordSwapRandomCharacterDeletion", "--limit", "9"]
    gaps = ["gaps", model, suite, "--traffic", more, "--fdr", "90%", *measured]
    drawn = [f"{n} {payload}" for n, payload in enumerate(PAYLOADS) if n % 2 == 0 and n % 10 == 0]
    few = [part for name in drawn for part in ("--test", name)]
    table = ["reproduce", "figure4", "--model", model, "--suite", suite, *measured, *few[:2]]
    return [
        ["plan", "run.mncover", "--budget", "100%", "-o", planned, "--ids", "out/::ids.txt"],
        ["run", model, planned, *measured, "-o", "out/\u202eplan.mncover"],
        *(
            ["report", "out/\u202eplan.mncover", "--format", kind]
            for kind in ("text", "markdown", "github", "junit")
        ),
        ["suite", "judge", suite, "guesses.txt"],
        ["suite", "judge", suite, "guesses.txt", "--json"],
        ["suite", "export", suite, "-o", "out/\u202eb.txt"],
        ["suite", "make", "good.toml", "-o", "out/::made.jsonl"],
        ["suite", "show", "out/::made.jsonl"],
        *(
            [*gaps, "-o", f"out/\x1b[2Jgaps{suffix}", "--html", "out/\u202egaps.html"]
            for suffix in (".csv", ".tsv", ".jsonl", ".mncover")
        ),
        [*gaps, "--json"],
        ["next", "out/\x1b[2Jgaps.mncover", "-n", "9"],
        ["next", "run.mncover", "-n", "50", "-o", "out/::b.csv"],
        ["next", "run.mncover", "-n", "50", "-o", "out/\x1b[2Jb.tsv"],
        ["next", "run.mncover", "-n", "50", "--judge"],
        ["next", "run.mncover", "-n", "9", "--review"],
        ["found", "run.mncover"],
        ["found", "run.mncover", "--json"],
        ["found", "run.mncover", "--html", "out/\x1b[2Jfound.html"],
        ["select", "run.mncover", "--budget", "1", "--json"],
        ["select", "run.mncover", "--by", "greedy", "--budget", "1", *measured[:2]],
        ["report", "run.mncover", "--missing", *measured[:2], "-o", "out/::m.jsonl"],
        ["report", "run.mncover", "--junit", "out/\x1b[2Ja.xml"],
        ["json", "run.mncover", "-o", "out/\x9b2J.json"],
        ["curve", model, suite, *measured, *few, "-o", "out/\x1b[2Jcurve"],
        ["compare", model, suite, more, *measured, "--draws", "2", "-o", "out/\u202esets"],
        ["augment", model, more, *measured, *changed, "-o", "out/\x1b[2Jnew.jsonl"],
        ["augment", model, more, *measured, *changed, "--target", "tests", "-o", "out/::t.jsonl"],
        ["masks", model, *words, "-o", masks],
        ["masks", "--show", masks],
        [*MASKS, model, "-o", "out/::m.safetensors", "--sweep", "seed=1,2"],
        [
            "run",
            model,
            suite,
            *measured,
            "--masks",
            "out/\x1b[2Jw.safetensors",
            "-o",
            "out/x.mncover",
        ],
        [*table, "-o", "out/\x1b[2Jfigure"],
        [*table, "--test", PAYLOADS[6], "--test", "::error::no", "-o", "out/no"],
        ["reproduce", "table5", "--row", "sst2=\x1b[2J,::a,\u202eb", "-o", "out/::t5"],
        ["reproduce", "table4", "--task", "\x1b[2J", "--model", "\x1b[2J", "--base", "::x::"],
    ]


MASKS = ["masks", "--train", "train.txt", "--max-length", "12", "--set", "epochs=1"]


def test_there_are_many_payloads() -> None:
    assert len(set(PAYLOADS)) >= 40


def test_nothing_that_is_printed_is_obeyed_by_a_terminal_or_a_build(
    wicked: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wicked.folder)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for arguments in commands(wicked):
        harmless(arguments, capsys)


def harmless(arguments: list[str], capsys: pytest.CaptureFixture[str], build: bool = True) -> str:
    """Give a command, look at everything that it prints, and return the error if it failed."""
    capsys.readouterr()
    code = main(arguments)
    shown = "".join(capsys.readouterr())
    assert shown or arguments[0] == "json", arguments
    assert not CONTROL.findall(shown), (arguments, CONTROL.search(shown))
    found = COMMAND.search(shown) if build else None
    assert not found, (arguments, shown[found.start() - 80 : found.end() + 80])
    return shown if code == 1 else ""


def test_neither_is_what_measures_and_judges_nor_what_it_writes(
    wicked: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wicked.folder)
    monkeypatch.setenv("TF_BUILD", "True")
    monkeypatch.setattr("mncover.cli.next.require_terminal", lambda: None)
    keys = iter("w1wx2s" * 10)
    monkeypatch.setattr("mncover.cli.review.read_key", lambda: next(keys))
    texts = wicked_suite().texts
    Path("guesses.txt").write_text("0.2 0.3 0.5\n" * texts)
    Path("words.txt").write_text("\n".join(("good", *WORDS)), encoding="utf-8")
    Path("good.toml").write_text(GOOD_RECIPE)
    Path("out").mkdir()
    for arguments in more_commands(wicked):
        error = harmless(arguments, capsys)
        wrong = arguments[0] == "reproduce" and "out/\x1b[2Jfigure" not in arguments
        assert bool(error) == wrong, (arguments, error)
    assert {path.suffix for path in Path("out").rglob("*.*")} >= {".csv", ".tsv", ".html", ".xml"}
    for path in Path("out").rglob("*.*sv"):
        check_table(path)
    for path in (*Path("out").rglob("*.html"), *Path("out").rglob("*.xml")):
        check_page(path.read_text(encoding="utf-8"))
    for path in Path("out").rglob("*.svg"):
        check_page(path.read_text(encoding="utf-8"))


GOOD_RECIPE = """
labels = ["\\u001b[2J", "::error::x"]
[[tests]]
name = "\\u202e::error::name"
capability = "=1+1"
template = "The \\u001b[31m film is good."
label = 1
"""


def check_table(path: Path) -> None:
    """No cell of a table is computed by a spreadsheet, or moves the cursor."""
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.reader(file, delimiter=delimiter):
            for cell in row:
                assert not CONTROL.search(cell.replace("\n", "")), (path, cell)
                assert not cell.startswith(FORMULA) or _is_number(cell), (path, cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def check_page(content: str) -> None:
    """No page or picture has a character that acts, or an element of a stranger."""
    assert not CONTROL.search(content)
    assert "<script>alert" not in content
    assert "<img src=x" not in content


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


def test_figures_draw_every_payload_as_it_is() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    for number, payload in enumerate(PAYLOADS):
        figure.text(0, number / len(PAYLOADS), in_figure(payload), parse_math=True)
    drawn = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font lacks some characters
        figure.savefig(drawn, format="svg")
    assert not CONTROL.search(drawn.getvalue())
    comments = re.findall("<!-- (.*?) -->", drawn.getvalue(), re.DOTALL)
    assert "$$x$$" in comments


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
        check_page(page.read_text(encoding="utf-8"))


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
