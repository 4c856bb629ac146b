"""`mncover next --review`: one case at a time in the terminal, a key for each verdict.

Every verdict is in the journal at once, so that a review can be left and taken up again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text as Line

from mncover.errors import SettingsError
from mncover.selection.finder import Finder, Item
from mncover.selection.journal import Verdict
from mncover.types import display_percent, visible

KEYS: dict[str, Verdict] = {"o": "ok", "w": "wrong"}
SKIP, BACK, LEAVE = "s", "b", "q"
MOST_CLASSES = 9  # more have no key of their own
REASONS = {
    "start": "to begin with: it stands for texts that the model treats alike",
    "likely": "it resembles failures",
    "explore": "to explore: it is unlike what was asked about before",
    "survey": "drawn at random",
    "given": "judged before",
}


def require_terminal() -> None:
    """Refuse a review where nobody can press a key."""
    if not sys.stdin.isatty():
        raise SettingsError(
            "--review needs a terminal; to judge elsewhere, write a file with -o and read it back "
            "with --verdicts."
        )


def read_key() -> str:
    """Wait for a key; what ends a program or its input leaves the review."""
    try:
        return typer.getchar().lower()
    except (KeyboardInterrupt, EOFError):
        return LEAVE


def why_of(item: Item) -> str:
    """Return why a case was chosen; not how likely it is to fail, which would sway the judge."""
    return REASONS[item.why]


class Review:
    """Shows the cases without a verdict, in the order in which they were asked.

    Cases of the same batches that have a verdict already count in "7 of 50, 3 wrong".
    """

    def __init__(self, finder: Finder, console: Console) -> None:
        self.finder, self.console = finder, console
        self.queue = finder.pending
        batches = {item.batch for item in self.queue}
        asked = [one for one in finder.journal.asked if one.batch in batches and one.why != "given"]
        self.cases = [one.case for one in asked]
        self.before = len(self.cases) - len(self.queue)
        self.judged: dict[int, Verdict] = {}

    def run(self) -> None:
        """Ask until every case was shown or the person leaves."""
        self.console.print(_line("Every key is kept at once: leave and come back as you like."))
        at = 0
        while at < len(self.queue):
            item = self.queue[at]
            self._show(item, self.before + at + 1)
            moved = self._answer(item, at)
            if moved is None:
                return
            at = moved

    def _answer(self, item: Item, at: int) -> int | None:
        """Wait for a key that means something; return where to go on, None to leave."""
        while True:
            key = read_key()
            if key == LEAVE:
                return None
            if key == SKIP:
                self._say("skipped")
                return at + 1
            if key == BACK:
                if at > 0:
                    return self._back(at - 1)
                self._say("this is the first one")
            elif verdict := self._verdict(key, item):
                self._tell(item, verdict)
                return at + 1

    def _verdict(self, key: str, item: Item) -> Verdict | None:
        """Return what a key says about a case; None if it says nothing."""
        classes = self._classes(item)
        if key in KEYS:
            return KEYS[key]
        if key.isdecimal() and 1 <= int(key) <= len(classes):
            return "ok" if classes[int(key) - 1] == item.answers[0] else "wrong"
        self._say(f"{key!r} means nothing here")
        return None

    def _classes(self, item: Item) -> Sequence[str]:
        """Return the classes that have a key."""
        labels = self.finder.data.identity.labels
        alone = len(item.texts) == 1 and item.answers[0]
        return labels if alone and len(labels) <= MOST_CLASSES else ()

    def _tell(self, item: Item, verdict: Verdict) -> None:
        self.finder.tell({item.case: verdict})
        self.judged[item.case] = verdict
        self._say(verdict)

    def _back(self, at: int) -> int:
        """Go back to a case, and take its verdict back if it was given in this review."""
        case = self.queue[at].case
        if self.judged.pop(case, None):
            self.finder.journal.forget(case)
            self._say("taken back")
        return at

    def _say(self, what: str) -> None:
        self.console.print(_line(f"  {what}", "dim"))

    def _show(self, item: Item, place: int) -> None:
        wrong = sum(self.finder.journal.verdicts.get(case) == "wrong" for case in self.cases)
        progress = f"{place:,} of {len(self.cases):,}, {wrong:,} wrong"
        self.console.print()
        self.console.print(Rule(_line(progress, "bold"), align="left"))
        for text, answer, share in zip(item.texts, item.answers, item.confidences, strict=True):
            for part in (text,) if isinstance(text, str) else text:
                self.console.print(Padding(_line(part), (0, 2)))
            if answer:
                self.console.print(_line(f"  → {answer} ({display_percent(share, 1)} %)", "cyan"))
        self.console.print(_line(f"  case {item.case}, {why_of(item)}", "dim"))
        self.console.print(self._help(item))

    def _help(self, item: Item) -> Table:
        classes = enumerate(self._classes(item), start=1)
        keys = [("o", "ok"), ("w", "wrong"), *((str(number), name) for number, name in classes)]
        keys += [("s", "skip"), ("b", "back"), ("q", "leave")]
        line = Line("  ")
        for key, meaning in keys:
            line.append(key, style="bold").append(f" {visible(meaning)}   ")
        table = Table.grid()
        table.add_row(line)
        return table


def _line(text: str, style: str = "") -> Line:
    """Return a text as it is: it may come from a stranger, so nothing in it is markup."""
    return Line(visible(text), style=style)
