"""A session in a notebook, offline: open it as cells, or `python examples/notebook.py`.

It needs `pip install 'mncover[demo,pandas]'`, for the model's weights and for DataFrames.
"""

from __future__ import annotations

# %% [markdown]
# A classifier is in use as a pipeline, and there is a table of texts with the right answers.
#
# %%
from pathlib import Path

import pandas as pd
import transformers

import mncover.cli
from mncover import Coverage
from mncover.cli.demo import demo_model

material = Path(mncover.cli.__file__).parent / "demo_files"
pipe = transformers.pipeline("text-classification", model=str(demo_model()))
suite = pd.read_json(material / "suite.jsonl", lines=True)
suite.columns = ["review", "topic", "gold"]
suite = suite[suite.topic.isin(["vocabulary", "negation", "questions and answers"])]
print(suite.sample(3, random_state=0))

# %% [markdown]
# Measure it. The pipeline brings model and tokenizer, and columns are named where they are not
# called text, label and context. A file is given as a Path. With gains, what each text adds is
# kept too.

# %%
cov = Coverage(pipe, max_length=32)
cov.calibrate(material / "calibration.txt")
cov.update(suite, text="review", label="gold", context="topic", gains=True)
cov.report()

# %% [markdown]
# Every row, as a DataFrame: is the model less sure where a text makes it do something new?

# %%
result = cov.result()
texts = result.texts().to_pandas()
texts["sure"] = texts.probabilities.map(max)
print(texts.groupby("context")[["novelty", "sure"]].mean())

# %% [markdown]
# The cases that fail, the surest mistakes first; then how each test went.

# %%
cases = result.cases().to_pandas()
cases["sure"] = cases.confidences.str[0]
failing = cases[cases.failing].sort_values("sure", ascending=False)
print(failing[["test", "texts", "label", "sure"]].head().to_string())
print(result.tests().to_pandas()[["test", "texts", "wrong", "criteria.cover.adds"]])

# %% [markdown]
# What would new texts add? And which of them are worth keeping on top of what is there?

# %%
ideas = pd.DataFrame({"idea": ["Not bad!", "The film was wonderful.", "Was it any good? Hardly."]})
ideas["gain"] = cov.gain(ideas)
kept = cov.filter(ideas, on_top=True, text="idea").kept
print(ideas.assign(kept=ideas.index.isin(kept)))

# %% [markdown]
# Pages to pass on, and a data file that `mncover report` and `Coverage.load` read without torch.

# %%
cov.html("notebook-html")
cov.save("notebook.mncover")
