"""What a long job shows on a terminal, and what it cost. In a log file it stays quiet."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm


def bar(what: str, tokens: int) -> tqdm:
    """A bar over tokens, with tokens/s and the time left, on a terminal only."""
    return tqdm(total=tokens, desc=what, unit="tok", unit_scale=True, disable=None, leave=False, dynamic_ncols=True)


@contextmanager
def measured() -> Iterator[dict]:
    """Fills the dict with the seconds and the peak memory (bytes; the GPU's where there is one) of its body."""
    import torch

    on_gpu = torch.cuda.is_available()
    torch.cuda.reset_peak_memory_stats() if on_gpu else _forget_peak()
    cost, start = {}, time.perf_counter()
    try:
        yield cost
    finally:
        cost["seconds"] = time.perf_counter() - start
        cost["peak_memory_bytes"] = torch.cuda.max_memory_allocated() if on_gpu else _peak()


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again from what is held now
    except OSError:
        pass


def _peak() -> int:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
