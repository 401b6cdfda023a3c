"""The report: one HTML file that shows runs, and needs nothing else to do so."""

from noshow.report.page import page, write_comparison, write_report

__all__ = ["page", "write_comparison", "write_report"]
