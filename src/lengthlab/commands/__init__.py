"""The command line: thin Hydra mains behind a small dispatcher. Only this room knows Hydra."""
