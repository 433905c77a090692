"""Reports: a comparison as one page of HTML, and one model as a page of HTML or Markdown."""

from __future__ import annotations

from bayesmkl.evaluation.report.comparison import write_report
from bayesmkl.evaluation.report.model import ModelReport, report_model

__all__ = ["ModelReport", "report_model", "write_report"]
