"""The subcommands of `dualmctx`, a module each."""
