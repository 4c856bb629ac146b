"""Which words may meet: as the model is gated, drawn for people, kept in data files."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.meetings import MOST_MEETINGS, MOST_WORDS, Meeting
from mncover.engine.masking import MaskTable
from mncover.errors import DataFileError
from mncover.masks.masks import Masks
from mncover.masks.meeting import pair_name, scored_pairs
from mncover.report.html import write_html
from mncover.report.meetings import draw_meeting, pair_lists
from tests import tiny
from tests.masks.test_learning import subject_of
from tests.masks.test_mncover import V, random_masks


@pytest.mark.parametrize("unseen", ["keep", "drop", "words"])
def test_a_meeting_says_what_the_gates_of_attention_do(unseen: Any) -> None:
    subject = subject_of()
    masks = replace(random_masks(subject.tokenizer, 3), unseen=unseen)
    table = MaskTable(masks, subject.device)
    marks = set()
    for ids in subject.encode(tiny.texts(40, 5), 20).ids():
        meeting = masks.meeting(ids)
        plain = [place for place, word in enumerate(ids) if word not in masks.special]
        tokens = torch.from_numpy(ids[None]).long()
        gates, keep = table.pairs_of(tokens)[0], table.tokens_of(tokens)[0]
        assert meeting.words == tuple(masks.words[ids[place]] for place in plain)
        for i, (_, kept, line) in enumerate(meeting.rows()):
            assert kept == bool(keep[plain[i]])
            assert [one != "-" for one in line] == gates[plain[i]][plain[:i]].tolist()
            marks |= set(line)
    assert marks == ({"+", "-"} if unseen == "drop" else {"+", "-", "?"})


def one_pair(first: str, second: str, score: float) -> Masks:
    """Return masks that saw two pairs, one of them with a bad score."""
    numbers = [tiny.VOCABULARY[word] for word in (first, second, "film")]
    keys = sorted({min(a, b) * V + max(a, b) for a, b in (numbers[:2], numbers[1:])})
    scores = [score if key == _key(first, second) else 0.1 for key in keys]
    return replace(
        random_masks(tiny.tokenizer(), 1),
        pair_keys=np.array(keys),
        pair_scores=np.array(scores, np.float32),
        pair_counts=np.array([3, 4]),
        word_scores=np.ones(V, np.float32),
        word_counts=np.ones(V, np.int64),
        word_threshold=0.5,
        pair_threshold=0.5,
        unseen="keep",
    )


def _key(first: str, second: str) -> int:
    low, high = sorted((tiny.VOCABULARY[first], tiny.VOCABULARY[second]))
    return low * V + high


def test_the_drawing_shows_each_pair_under_its_first_word() -> None:
    masks = one_pair("bad", "good", 0.9)
    ids = [tiny.VOCABULARY[word] for word in ("bad", "good", "film", "good")]
    meeting = masks.meeting(ids)
    assert meeting == Meeting(("bad", "good", "film", "good"), "1111", ("", "+", "?-", "++-"))
    names, scores = zip(*scored_pairs(masks, ids), strict=True)
    assert names == (pair_name("bad", "good"), pair_name("good", "film"))
    assert scores == pytest.approx((0.9, 0.1))
    shown = printed(draw_meeting(replace(meeting, kept="1101"), scored_pairs(masks, ids)))
    assert shown.splitlines()[:4] == ["  bad", "  ● good", "  ○ · (film)", "  ● ● · good"]
    assert "(word) is dropped by the word mask" in shown
    assert f"{pair_name('bad', 'good')} 0.900" in shown


def printed(what: Any) -> str:
    console = Console(width=100, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(what)
    return console.export_text()


def test_pairs_are_listed_with_scores_and_how_often_they_were_seen() -> None:
    masks = one_pair("bad", "good", 0.9)
    shown = printed(pair_lists(masks.extreme_pairs(12)))
    line = shown.splitlines()[1]
    assert "0.100" in line
    seen = dict(zip(masks.pair_keys.tolist(), masks.pair_counts.tolist(), strict=True))
    assert line.split("0.900")[1].split()[0] == str(seen[_key("bad", "good")])


def test_frequent_pairs_are_listed_if_there_are_enough_of_them() -> None:
    masks = random_masks(tiny.tokenizer(), 1)
    counts = np.where(np.arange(len(masks.pair_keys)) % 3 == 0, 10, 9)
    masks = replace(masks, pair_counts=counts.astype(np.int64))
    high, low = masks.extreme_pairs(3)
    assert {seen for _, _, seen in [*high, *low]} == {10}
    often = np.sort(masks.pair_scores[counts == 10])
    assert [score for _, score, _ in high] == often[::-1][:3].tolist()
    assert [score for _, score, _ in low] == often[:3].tolist()
    most = len(counts) // 2
    assert 9 in {seen for _, _, seen in masks.extreme_pairs(most)[0]}


def measured(tmp_path: Path, names: tuple[str, ...] = ("a", "b")) -> Coverage:
    """Run texts under masks, of which those of context a fail."""
    model, tokenizer = tiny.BUILDERS["bert"](), tiny.tokenizer()
    cov = Coverage(model, tokenizer, masks=random_masks(tokenizer, 1), max_length=30)
    texts = tiny.texts(12, 4)
    cov.calibrate(tiny.texts(20, 2), cache=False)
    predicted = cov.engine.subject.labels
    rows = [
        {"text": text, "context": names[i % len(names)], "label": predicted[0]}
        for i, text in enumerate(texts)
    ]
    path = tmp_path / "suite.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return cov.run(path, tmp_path / "run.mncover", text="text", label="label", context="context")


def test_a_run_with_masks_keeps_drawings_of_failing_texts_first(tmp_path: Path) -> None:
    data = measured(tmp_path).data
    table, again = data.table, datafile.read(tmp_path / "run.mncover")
    assert 0 < len(data.meetings) <= MOST_MEETINGS
    assert again.meetings == data.meetings
    fails = (table["label"] != table["prediction"]).tolist()
    assert any(fails)
    first = " ".join(data.meetings[0].words)
    failing = [text for text, fail in zip(table.texts, fails, strict=True) if fail]
    assert any(str(text).lower().startswith(first) for text in failing)
    assert all(len(one.words) <= MOST_WORDS for one in data.meetings)
    united = data.union(again)
    assert united.meetings == data.meetings


def test_the_first_page_draws_which_words_may_meet_and_escapes_them(tmp_path: Path) -> None:
    data = measured(tmp_path).data
    data.meetings = (Meeting(("<script>x", "film", "good"), "101", ("", "+", "?-")),)
    page = write_html(data, tmp_path / "run.mncover", tmp_path / "html").read_text()
    drawing = page.split('<table class="triangle">')[1].split("</table>")[0]
    rows = [re.findall(r'class="(\w+)"', row) for row in drawing.split("<tr>")[1:]]
    assert rows == [[], ["meets"], ["unseen", "apart"]]
    assert "<s>film</s>" in drawing
    assert "&lt;script&gt;x" in drawing
    assert "<script>x" not in page


def test_without_masks_nothing_is_drawn_and_the_file_has_no_such_member(tmp_path: Path) -> None:
    cov = Coverage(tiny.BUILDERS["bert"](), tiny.tokenizer(), max_length=30)
    cov.calibrate(tiny.texts(20, 2), cache=False)
    cov.run(tiny.texts(5, 4), tmp_path / "run.mncover")
    assert datafile.read(tmp_path / "run.mncover").meetings == ()
    assert "meetings.json" not in zipfile.ZipFile(tmp_path / "run.mncover").namelist()


@pytest.mark.parametrize(
    "meetings",
    [
        {"words": ["a"]},
        [{"words": ["a"], "kept": "1"}],
        [{"words": ["a", "b"], "kept": "11", "pairs": ["", "x"]}],
        [{"words": ["a", "b"], "kept": "1", "pairs": ["", "+"]}],
        [{"words": ["a", "b"], "kept": "12", "pairs": ["", "+"]}],
        [{"words": ["a", "b"], "kept": "11", "pairs": ["", "++"]}],
        [{"words": ["a"], "kept": "1", "pairs": [""]}] * (MOST_MEETINGS + 1),
    ],
)
def test_damaged_drawings_are_refused(meetings: Any, tmp_path: Path) -> None:
    measured(tmp_path)
    whole, broken = zipfile.ZipFile(tmp_path / "run.mncover"), tmp_path / "broken.mncover"
    content = json.dumps(meetings).encode()
    with zipfile.ZipFile(broken, "w") as archive:
        for name in whole.namelist():
            if name == "header.json":
                header = json.loads(whole.read(name))
                header["checksums"]["meetings.json"] = sha256(content).hexdigest()
                archive.writestr(name, json.dumps(header))
            else:
                archive.writestr(name, content if name == "meetings.json" else whole.read(name))
    with pytest.raises(DataFileError, match=r"meetings|drawings"):
        datafile.read(broken)
