"""What workers finish before its turn is kept, and is not run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.data.owners import Block
from mncover.engine.ahead import Ahead
from mncover.engine.asked import Stretch
from mncover.engine.engine import Engine
from mncover.engine.jobs import JOBS
from mncover.engine.shards import Covered, Hits, Shard
from tests import tiny
from tests.engine.crews import TRAIN, Hasty, contents, pair_of_coverages

pytestmark = pytest.mark.usefixtures("small_windows")

RUN: dict[str, Any] = {
    "bert": {"masked": True, "criteria": ["cover", "mncover", "nbc"]},
    "llama": {},
}


@pytest.mark.parametrize(("name", "stop"), [("bert", 2), ("bert", 5), ("llama", 6)])
def test_what_was_finished_before_its_turn_is_not_run_again_after_an_interrupt(
    tmp_path: Path, name: str, stop: int
) -> None:
    """Of eight parts the odd ones are done first: with 2 done, none is added yet."""
    here, there, _ = pair_of_coverages(name, **RUN[name])
    every = list(dict.fromkeys(tiny.texts(400, seed=5)))[:120]
    suite = {"text": every}
    here.run(suite, tmp_path / "whole.mncover", TRAIN)
    crew, output = Hasty(there.engine.crew.engine, stop), tmp_path / "parts.mncover"  # type: ignore[union-attr]
    there.engine.crew = crew
    with pytest.raises(KeyboardInterrupt):
        there.run(suite, output, TRAIN)
    assert crew.asked.count("record") == stop
    kept = sorted(path.name for path in tmp_path.glob("parts.mncover.*.partial"))
    assert len(kept) == {2: 2, 5: 3, 6: 2}[stop]
    assert output.with_name("parts.mncover.partial").exists()
    crew.asked.clear()
    crew.stop = None
    there.run(suite, output)
    assert crew.asked.count("record") == 8 - stop
    assert contents(output) == contents(tmp_path / "whole.mncover")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "parts.mncover",
        "whole.mncover",
    ]


def plain(value: Any) -> Any:
    """Return nested values with bytes in place of arrays, which can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def shards_of(name: str, texts: list[str], **options: Any) -> tuple[Engine, list[Shard]]:
    """Return shards of some texts in two contexts."""
    here, _, _ = pair_of_coverages(name, **options)
    here.calibrate(TRAIN, cache=False)
    contexts = ["a"] * (len(texts) // 2) + ["b\n"] * (len(texts) - len(texts) // 2)
    asked = Stretch(texts, contexts)
    return here.engine, JOBS["record"].run(here.engine, asked, lambda n: None)


@pytest.mark.parametrize("bins", [10, 100])
def test_kept_shards_come_back_as_they_were_and_only_to_their_run(
    tmp_path: Path, bins: int
) -> None:
    engine, shards = shards_of("bert", tiny.texts(40, seed=7), masked=True, bins=bins)
    shards[0] = shards[0]._replace(answers={b"\0key": np.arange(3, dtype=np.int32)})
    ahead = Ahead(tmp_path / "x.mncover", "one", engine)
    ahead.keep([(16, shards), (32, shards[:1])])
    found = ahead.read()
    assert plain(found[16]) == plain(shards)
    assert sorted(found) == [16, 32]
    assert Ahead(tmp_path / "x.mncover", "two", engine).read() == {}
    assert Ahead(tmp_path / "y.mncover", "one", engine).read() == {}
    ahead.keep([(32, shards[:1])])
    assert [path.name for path in tmp_path.iterdir()] == ["x.mncover.32.partial"]


def test_damaged_shards_are_run_again_and_files_of_a_user_stay(tmp_path: Path) -> None:
    engine, shards = shards_of("bert", tiny.texts(20, seed=7))
    said: list[str] = []
    ahead = Ahead(tmp_path / "x.mncover", "one", engine, said.append)
    ahead.keep([(16, shards)])
    path = tmp_path / "x.mncover.16.partial"
    whole = path.read_bytes()
    for place in range(7, len(whole), len(whole) // 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        found = ahead.read()
        assert not found or plain(found[16]) == plain(shards)
    assert len(said) > 30
    assert f"{path} is damaged: its texts are run again." in said
    path.write_text("of a user")
    ahead.keep([])
    ahead.remove()
    assert path.read_text() == "of a user"


def test_shards_that_would_write_beyond_a_map_are_refused(tmp_path: Path) -> None:
    engine, [shard, *_] = shards_of("bert", tiny.texts(20, seed=7))
    hits, n = shard.hits["cover"], len(shard.lengths)
    slots = engine.setups.layout_of("cover").slots * 10
    far = hits.cells.copy()
    far[3] = slots
    more = hits.counts.copy()
    more[0] += 1
    wrong = [
        shard._replace(hits={"cover": Hits(far, hits.counts)}),
        shard._replace(hits={"cover": Hits(hits.cells, more)}),
        shard._replace(hits={"cover": Hits(hits.cells, hits.counts[: n - 1])}),
        shard._replace(lengths=shard.lengths[1:]),
        shard._replace(lengths=shard.lengths.astype(np.float32)),
        shard._replace(lengths=shard.lengths + 12),
        shard._replace(probabilities=shard.probabilities[:, :1]),
        shard._replace(signatures=shard.signatures[:, 1:]),
        shard._replace(sampled=[Block(shard.sampled[0].texts + n, shard.sampled[0].cells)]),
        shard._replace(sampled=[Block(shard.sampled[0].texts, shard.sampled[0].cells + 10**6)]),
        shard._replace(answers={b"key": np.array([-1], dtype=np.int32)}),
        shard._replace(contexts={"a": {"cover": Covered(far)}}),
        shard._replace(contexts={"a": {"cover": Covered(None, np.zeros(3, np.uint16))}}),
    ]
    for number, one in enumerate(wrong):
        said: list[str] = []
        ahead = Ahead(tmp_path / f"{number}.mncover", "one", engine, said.append)
        ahead.keep([(0, [one])])
        assert ahead.read() == {}, number
        assert len(said) == 1
