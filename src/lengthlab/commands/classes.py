"""Classes named in a config: found where they may be, and called with options of the right kind."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from lengthlab.commands.compose import Refusal
from lengthlab.commands.main import nearest


def called(make, options: Mapping, key: str, *args) -> Any:
    """`make(*args, **options)` with its complaints as Refusals that name the config's key."""
    parameters = {name: one.annotation for name, one in signature(make).parameters.items() if name != "dims"}
    for name, value in options.items():
        if name not in parameters:
            raise Refusal(f"{key}.{name}: no such key{nearest(name, parameters)}")
        if not _fits(value, parameters[name]):
            raise Refusal(f"{key}.{name}={value}: must be {_words(parameters[name])}")
    try:
        return make(*args, **{name: _as(value, parameters[name]) for name, value in options.items()})
    except (ValueError, TypeError, RuntimeError) as error:
        dot = "." if re.match(r"\w+=", str(error)) else ": "
        raise Refusal(f"{key}{dot}{error}") from error


def _fits(value: Any, kind: Any) -> bool:
    """Whether a config's value is of the annotated kind; true is no number, and an integer is a float."""
    if isinstance(kind, UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, get_args(kind)[0]) for item in value)
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) and kind is not Parameter.empty else True


def _as(value: Any, kind: Any) -> Any:
    """An integer where a real number is asked for becomes one; everything else stays."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return float(value) if type(value) is int and float in kinds and int not in kinds else value


def _words(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_words(one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return f"a list, each {_words(get_args(kind)[0])}"
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a name", NoneType: "null"}
    return words.get(kind, str(kind))


def made(group: str, config: Mapping, room: str, base: type, beside: Path | None, *args) -> Any:
    """An object of the class named by `_target_`: a `base`, from `room` or from beside a --config-dir."""
    options = {key: value for key, value in config.items() if key not in ("name", "_target_")}
    return called(_class(group, config.get("_target_"), room, base, beside), options, group, *args)


def file_beside(target: Any, beside: Path | None) -> Path | None:
    """The file beside a --config-dir that holds the class of a `_target_`; None where there is none."""
    module = str(target).rpartition(".")[0]
    file = beside / f"{module}.py" if beside and module.isidentifier() else None
    return file if file and file.is_file() else None


def _class(group: str, target: str, room: str, base: type, beside: Path | None) -> type:
    """The class that a config names: from its own room, or from a file beside a --config-dir of this command line.

    Nothing else is imported, whatever a run's folder says.
    """
    module, _, name = str(target).rpartition(".")
    file = file_beside(target, beside)
    try:
        if module == room or module.startswith(f"{room}."):
            found = getattr(importlib.import_module(module), name)
        elif file:
            found = getattr(_loaded(group, file), name)
        else:
            raise Refusal(
                f"{group}._target_={target}: only classes of {room} are loaded, or of a file beside the --config-dir "
                "of this command line"
            )
    except (ImportError, AttributeError) as error:
        raise Refusal(f"{group}._target_={target}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise Refusal(f"{group}._target_={target}: not a {base.__name__}")
    return found


def _loaded(group: str, file: Path):
    """The module of a file beside a --config-dir."""
    spec = importlib.util.spec_from_file_location(f"lengthlab_beside_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Refusal(f"{group}: {file} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
