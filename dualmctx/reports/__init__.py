"""The kit of all reports: number formats, tables, plots in one style, and the HTML page."""

__all__ = ("numbers", "page", "plots", "table")
