"""The report of a tournament: numbers, pictures, a page."""
