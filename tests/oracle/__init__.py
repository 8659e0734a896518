"""The plain-Python twin of the search engine, and what compares the two."""
