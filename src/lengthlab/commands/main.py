"""The dispatcher: `lengthlab X …`. Knows the commands, and says what a user can mend in one line."""

import difflib
import os
import sys
import traceback
from importlib import import_module

from lengthlab import UserError, __version__

COMMANDS = {
    "train": "train at one length, then sweep perplexity over the others",
    "evaluate": "read a run's weights again: another extension, protocol, length or corpus",
    "report": "figures, summary.csv and report.html of a study, from its files alone",
    "audit": "what a run would leave untrained, and what its dtype costs: a run's own command line",
    "schemes": "table of the schemes: hook, learned parameters, paper",
}
USAGE = "usage: lengthlab COMMAND [key=value …] [-m] [--cfg job] [--help]\n\n" + "\n".join(
    f"  {name:10}{text}" for name, text in COMMANDS.items()
)


def main() -> None:
    """Run one command; exit code 0, 1 (a job failed) or 2 (refused before any work)."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return
    name, rest = words[0], words[1:]
    if name == "--version":
        print(f"lengthlab {__version__}")
        return
    if name not in COMMANDS:
        refuse(f"{name}: no such command{nearest(name, COMMANDS)}; see lengthlab --help")
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra hands errors on, instead of printing and exiting itself
    try:
        import_module(f"lengthlab.commands.{name}").main(rest)
    except UserError as error:
        refuse(str(error))
    except BrokenPipeError:  # the reader of our output has gone, as in `lengthlab schemes | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        refuse(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        print("lengthlab: interrupted; finished runs and cells are kept", file=sys.stderr)
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def refuse(message: str) -> None:
    """One line on stderr, exit code 2."""
    print(f"lengthlab: {message}", file=sys.stderr)
    sys.exit(2)


def nearest(word: str, valid) -> str:
    """ "; did you mean …? (valid: …)" for the end of a message."""
    valid = sorted(str(name) for name in valid)
    close = difflib.get_close_matches(word, valid, n=2, cutoff=0.5)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{meant} (valid: {', '.join(valid)})" if len(valid) <= 40 else meant
