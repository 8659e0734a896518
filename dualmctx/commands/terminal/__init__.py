"""`dualmctx play --terminal`: a game against a network in the terminal."""
