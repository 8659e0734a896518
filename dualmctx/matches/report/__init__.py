"""The report of a tournament: tables, plots and an HTML page."""
