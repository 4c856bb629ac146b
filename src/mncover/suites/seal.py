"""The seal of a plan: a checksum over the plan and the cases that were drawn for it.

An estimate is only worth something if the cases are those that were drawn, so a plan that was
edited, or that was put before other cases, is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from mncover.errors import MismatchError, TextError
from mncover.suites.model import Suite

SEAL = "checksum"


def sealed(suite: Suite) -> dict[str, Any]:
    """Return the plan of a suite with its checksum."""
    return {**(suite.plan or {}), SEAL: _digest(suite)}


def check_seal(suite: Suite) -> Suite:
    """Return the suite; refuse one whose plan does not belong to its cases."""
    if suite.plan is not None and suite.plan.get(SEAL) != _digest(suite):
        raise TextError(
            "the plan does not belong to these cases, or one of them was edited; "
            "make it again with `mncover plan`."
        )
    return suite


def check_classes(suite: Suite, labels: Sequence[str]) -> None:
    """Refuse a model whose classes differ from those of the earlier runs, if the suite has none."""
    known = [] if suite.plan is None or suite.labels else list(suite.plan.get("classes", []))
    if known and known != list(labels):
        raise MismatchError(
            f"the model's classes ({', '.join(labels) or 'none'}) are not those that the plan was "
            f"made with ({', '.join(known)}); plan with a run of a model that has them."
        )


def _digest(suite: Suite) -> str:
    plan = {name: value for name, value in (suite.plan or {}).items() if name != SEAL}
    digest = hashlib.sha256(json.dumps([plan, suite.labels], sort_keys=True).encode("ascii"))
    for test in suite.tests:
        digest.update(json.dumps(test.to_json(), sort_keys=True).encode("ascii"))
        cases = [[case.texts, case.label] for case in test.cases]
        digest.update(json.dumps(cases).encode("ascii"))
    return digest.hexdigest()
