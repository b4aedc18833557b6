"""What makes two runs, or two cells, the same: a hash of all that can change their numbers, and the names of it."""

import hashlib
import json
import re
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What a study, a scheme, a corpus … may be called: a name is a part of a folder's name and must not leave it."""


def normalised(value: Any) -> Any:
    """Plain data with numbers that are equal made the same (10000 and 10000.0), and without the keys that are null."""
    if isinstance(value, dict):
        return {str(key): normalised(item) for key, item in sorted(value.items()) if item is not None}
    if isinstance(value, list | tuple):
        return [normalised(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def fingerprint(value: Any) -> str:
    """sha256 (hex) of the normalised value as JSON."""
    return hashlib.sha256(json.dumps(normalised(value), sort_keys=True).encode()).hexdigest()


def training_part(config: dict, corpus: str, tokenizer: str, dtype: str, code: str | None = None) -> dict:
    """What of a run's resolved config decides its weights; fingerprints stand for the paths of corpus and tokenizer.

    `code` is the fingerprint of a scheme's file that is not part of the package; null where it is.
    """
    part = {key: config[key] for key in ("scheme", "positions", "model", "train", "seed")}
    return {**part, "corpus": corpus, "tokenizer": tokenizer, "dtype": dtype, "code": code}


def run_name(training: dict) -> str:
    """`<scheme>-L<train_length>-s<seed>-<hash6>` of a training part."""
    scheme, length, seed = training["scheme"]["name"], training["train"]["length"], training["seed"]
    return f"{scheme}-L{length}-s{seed}-{fingerprint(training)[:6]}"


def cell_name(identity: dict) -> str:
    """`<data>-<split>-<extension>-<protocol>-L<length>-<hash6>`; `identity` is all that can change the cell's sums."""
    data, extension = identity["data"], identity["extension"]["name"]
    protocol, length = identity["protocol"]["name"], identity["length"]
    # What a corpus is called changes nothing: the fingerprints decide.
    hashed = {**identity, "data": {key: value for key, value in data.items() if key != "name"}}
    return f"{data['name']}-{data['split']}-{extension}-{protocol}-L{length}-{fingerprint(hashed)[:6]}"
