"""Traffic: read line by line, counted, drawn at random."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mncover.suites.formats.records import Fields
from mncover.suites.traffic import read_traffic


def test_equal_texts_are_kept_once_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "logs.jsonl"
    lines = ["b", "a", "b", "c", "b"]
    path.write_text("\n".join(json.dumps({"said": text}) for text in lines))
    found = read_traffic(path, Fields("said"))
    assert dict(zip(found.texts, found.counts.tolist(), strict=True)) == Counter(lines)
    assert (found.lines, found.drawn) == (5, 5)


def test_every_line_is_as_likely_to_be_drawn(tmp_path: Path) -> None:
    path = tmp_path / "logs.txt"
    path.write_text("\n".join(f"text {i}" for i in range(20)))
    seen: Counter[str] = Counter()
    for seed in range(600):
        drawn = read_traffic(path, most=5, seed=seed)
        assert (drawn.lines, drawn.drawn, len(drawn.texts)) == (20, 5, 5)
        seen.update(map(str, drawn.texts))
    assert len(seen) == 20
    share = np.array(list(seen.values())) / 600
    assert share == pytest.approx(0.25, abs=0.09)
    again = [read_traffic(path, most=5, seed=1).texts for _ in range(2)]
    assert again[0] == again[1]
