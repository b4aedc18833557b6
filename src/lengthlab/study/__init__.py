"""Runs and cells as files: their names, their folders, and one tidy frame of all of them. No torch."""

from lengthlab.study.collect import cells_of, collect, frame_of
from lengthlab.study.identity import cell_name, fingerprint, run_name, training_part
from lengthlab.study.runs import Run, RunError, runs_of

__all__ = [
    "Run", "RunError", "cell_name", "cells_of", "collect", "fingerprint", "frame_of", "run_name", "runs_of",
    "training_part",
]  # fmt: skip
