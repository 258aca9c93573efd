"""One module a subcommand: `add_arguments(parser)` and `run(args) -> exit status`."""
