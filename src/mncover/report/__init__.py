"""Every report on a data file, and everything that prints or draws. No torch here."""

from __future__ import annotations

from mncover.report.formats import REPORTS as REPORTS
from mncover.report.formats import find_report as find_report
