"""Reports as one self-contained HTML file: a run's, a sweep's, a comparison's. Nothing in them needs a network."""

from loadgen.report.page.page import comparison_page, run_page, sweep_page

__all__ = ["comparison_page", "run_page", "sweep_page"]
