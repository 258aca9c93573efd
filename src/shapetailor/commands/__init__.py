"""One module a subcommand: `HELP`, `add_arguments(parser)` and `run(args) -> exit status`."""
