"""What a report says in words: the yardstick, and warnings where numbers mean little. No torch."""

from __future__ import annotations

from mncover.criteria import CRITERIA
from mncover.criteria.binned import BINS, COVER, MNCOVER
from mncover.data.calibration import ENOUGH, Yardstick, outside_expected, texts_enough
from mncover.data.identity import MaskSummary
from mncover.data.results import CriterionResult, Result
from mncover.types import counted, display_percent

KEEP_ALL = "The masks keep nearly everything, so mnCover says what Cover says."
KEPT = 0.99  # the share of words and of pairs from which masks leave out nothing to speak of
STRANGE = 0.02  # the share of values outside the ranges that is worth a warning


def headline(result: Result, criterion: CriterionResult) -> tuple[str, str]:
    """Return a criterion's share of the reachable bins, and how it compares with the yardstick."""
    share = criterion.tally.share_of_reachable
    shown, cells = f"{criterion.title} {display_percent(share)} %", cells_of(criterion)
    found = result.yardstick(criterion.name)
    if found is None:
        return shown, f" of the reachable {cells}"
    than = "as much as"
    if not found.low <= share <= found.high:
        than = "less than" if share < found.low else "more than"
    return shown, f" of the reachable {cells}: {than} {_drawn(result, found)}"


def cells_of(criterion: CriterionResult) -> str:
    """Return what a criterion's cells are called: bins, where they are sections of a range."""
    known = CRITERIA.get(criterion.name.partition(":")[0])
    return "bins" if known is not None and known.coding is BINS else "cells"


def _drawn(result: Result, found: Yardstick) -> str:
    reached, verb = (
        f"the {display_percent(found.share)} %",
        "reaches" if found.texts == 1 else "reach",
    )
    if found.texts == result.identity.calibration_texts:
        return f"{reached} that all of {counted(found.texts, 'calibration text')} {verb}"
    most = ", the most that were drawn," if found.texts < result.n_texts else ""
    between = f"{display_percent(found.low)} to {display_percent(found.high)}"
    return (
        f"{reached} ({between}) that {counted(found.texts, 'random calibration text')}{most} {verb}"
    )


def of_all(criterion: CriterionResult) -> str:
    """Return a criterion's share of all bins in words: for Cover, the paper's definition."""
    paper = ", as the paper counts" if criterion.name in (COVER.name, MNCOVER.name) else ""
    return f"{display_percent(criterion.tally.share)} % of all {cells_of(criterion)}{paper}"


def little_words(result: Result) -> str:
    """Say how many texts add little, and how many of these fail; "" if none or if not known."""
    counts = [(c.adds_little, c.little_failing) for c in result.contexts]
    little = sum(n or 0 for n, _ in counts)
    if not little or any(n is None for n, _ in counts):
        return ""
    words = f"{little:,} of {counted(result.n_texts, 'text')} add little"
    if not result.judged:
        return words
    failing = sum(n or 0 for _, n in counts)
    return f"{words}; {failing:,} of these {'fails' if failing == 1 else 'fail'}"


def warnings_of(result: Result) -> list[str]:
    """Return what a reader must know before trusting the numbers."""
    lengths = None if result.calibration is None else result.calibration.reaching(result.identity)
    expected = None if lengths is None else outside_expected(lengths)
    found = []
    if expected is not None and lengths is not None and expected > ENOUGH:
        needed = texts_enough(lengths)
        found.append(
            f"Calibrated on few texts: of another text like them about "
            f"{display_percent(expected, 1)} % of the values would lie outside the ranges. "
            f"About {needed:,} texts would be enough for {100 * ENOUGH:g} %."
        )
    masks = result.identity.masks
    if masks is not None and keep_all(masks):
        found.append(KEEP_ALL)
    outside = result.outside
    if outside is not None and outside > max(STRANGE, 2 * (expected or 0.0)):
        like = f" ({display_percent(expected, 1)} % of texts like those)" if expected else ""
        found.append(
            f"{display_percent(outside, 1)} % of the values lie outside the ranges{like}: "
            "the texts are unlike the calibration texts, and what is outside is in no bin."
        )
    return found


def keep_all(masks: MaskSummary) -> bool:
    """Return whether masks leave out next to nothing of what training saw."""
    kept = (masks.words_kept, masks.words), (masks.pairs_kept, masks.pairs)
    return all(part >= KEPT * whole for part, whole in kept)


def footnotes(result: Result) -> list[str]:
    """Return what was cut, is empty or missing, and what the columns mean."""
    notes = []
    truncated = sum(context.truncated for context in result.contexts)
    empty = sum(context.empty for context in result.contexts)
    if truncated:
        length = result.identity.settings.max_length
        notes.append(f"{counted(truncated, 'text')} cut to {length} tokens (--max-length).")
    if empty:
        notes.append(f"{counted(empty, 'text')} without tokens, covering nothing.")
    notes += [f"The run of {s} was interrupted: texts are missing." for s in result.interrupted]
    little = little_words(result)
    return [
        *notes,
        *([f"{little}. Adding little is no reason to delete a test."] if little else []),
    ]


def column_notes(result: Result) -> list[str]:
    """Return what the columns of the table of tests mean."""
    notes = [
        "Percentages are of the bins that the calibration texts show to be reachable.",
        "Adds: what no test before it covers. Only: what no other test covers.",
        f"Adds little: texts that hit a new bin in at most {result.adds_little_at * 100:g} % of "
        "the neurons they touch (--adds-little).",
    ]
    if result.outside is not None:
        notes.append("Out: values that no range holds, the mean over its texts, from a sample.")
    if result.judged:
        notes.append("Failing: cases that break their test's expectation, or miss their label.")
    return notes
