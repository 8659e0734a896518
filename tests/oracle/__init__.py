"""The plain-Python twin of the search engine, and functions that compare the two."""
