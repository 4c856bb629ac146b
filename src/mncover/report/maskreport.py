"""What masks keep, for people to read."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mncover.masksummary import MaskSummary, Scored
from mncover.percent import display_percent

UNSEEN = {
    "keep": "what training did not see counts",
    "drop": "what training did not see does not count",
    "words": "a pair counts if both of its words do",
}


def describe_masks(masks: MaskSummary) -> RenderableType:
    """Return the share kept, the fidelity, and the most and least important words and pairs."""
    text = Text()
    text.append("Masks", style="bold")
    text.append(f" keep {_share(masks.words_kept, masks.words)} words")
    if masks.pairs:
        text.append(f", {_share(masks.pairs_kept, masks.pairs)} pairs")
    text.append(f"\n  {UNSEEN.get(masks.unseen, masks.unseen)}")
    if masks.fidelity is not None:
        text.append(
            f"\n  fidelity {display_percent(masks.fidelity)} %: so many held-out texts keep their "
            "class through the masks"
        )
    lists = Table.grid(padding=(0, 1, 0, 0))
    for title, scored in (
        ("most important words", masks.top_words),
        ("least important words", masks.low_words),
        ("most important pairs", masks.top_pairs),
        ("least important pairs", masks.low_pairs),
    ):
        if scored:
            lists.add_row(f"  {title}", Text(_list(scored), style="dim"))
    return Group(text, lists)


def _share(part: int, whole: int) -> str:
    percent = display_percent(part / whole, 1) if whole else "0.0"
    return f"{part:,} of {whole:,} ({percent} %)"


def _list(scored: tuple[Scored, ...]) -> str:
    return ", ".join(word for word, _ in scored)
