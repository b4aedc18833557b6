"""From a command line to the config of every job, with an error of one line that names the nearest valid names."""

import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hydra import compose, version
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

import lengthlab
from lengthlab import UserError
from lengthlab.commands.main import nearest

PACKAGE = Path(lengthlab.__file__).parent
CONF = next(path for path in (PACKAGE / "conf", PACKAGE.parents[1] / "conf") if path.is_dir())
"""The configs: inside an installed package, or at the root of a checkout."""


def _longest(*, _root_: DictConfig) -> int | None:
    """`${lengthlab.longest:}`: the longest length that a job reads; None where eval.lengths are none, said later."""
    try:
        return max(int(length) for length in (*_root_.eval.lengths, _root_.train.length))
    except (TypeError, ValueError):
        return None


OmegaConf.register_new_resolver("lengthlab.longest", _longest, replace=True)


DECIDED = ("scheme", "positions", "model", "train", "seed", "dtype")
"""What `evaluate` cannot change."""


class Refusal(UserError):
    """What is wrong with a command line: one line that names the key, the value and the way out."""


@dataclass(frozen=True)
class Job:
    """One job of a command line: the overrides that are its own, and the whole config."""

    overrides: tuple[str, ...]
    config: DictConfig


@dataclass(frozen=True)
class CommandLine:
    """What was typed after the command, understood but not yet composed."""

    config_name: str
    flags: tuple[str, ...]
    args: Namespace

    @property
    def only_shows(self) -> bool:
        """Whether Hydra only prints something (--help, --cfg, …) and no job runs."""
        args = self.args
        return bool(args.help or args.hydra_help or args.cfg or args.info or args.shell_completion)

    @property
    def config_dir(self) -> Path | None:
        """The folder of --config-dir."""
        return Path(self.args.config_dir).absolute() if self.args.config_dir else None

    def to_hydra(self) -> None:
        """Put flags before overrides in sys.argv: Hydra's own parser does not take them mixed."""
        sys.argv = [sys.argv[0], *self.flags, *self.args.overrides]


def parse(config_name: str, words: list[str]) -> CommandLine:
    """Split a command's words into flags, anywhere, and overrides. Raises Refusal."""
    parser = get_args_parser()

    def fail(message: str):
        raise Refusal(f"{message}; see --help")

    parser.error = fail
    args = parser.parse_intermixed_args(words)
    flags = list(words)
    for override in args.overrides:
        flags.remove(override)
    if args.multirun and args.cfg:
        raise Refusal("--cfg shows one job: leave out -m and the several values")
    if args.config_dir and not Path(args.config_dir).is_dir():
        raise Refusal(f"--config-dir {args.config_dir}: no such folder")
    return CommandLine(config_name, tuple(flags), args)


def jobs_of(line: CommandLine) -> list[Job]:
    """The config of every job that Hydra will run. Raises Refusal for an unknown name or key, before any work."""
    name, words = line.config_name, line.args.overrides
    with _hydra(line.config_dir) as parser:
        try:
            overrides = parser.parse_overrides(words)
        except HydraException as error:
            raise Refusal(f"{_first_line(error)}; a list wants quotes: 'eval.lengths=[64,128]'") from error
        for override in overrides:
            if override.is_add() or override.is_delete() or override.is_force_add():
                raise Refusal(f"{override.input_line}: keys can be set, not added or removed (no +, ++ or ~)")
        base = _compose(name, [o.input_line for o in overrides if not o.is_sweep_override()], hydra=True)
        if not (line.args.multirun or str(base.hydra.get("mode")).endswith("MULTIRUN")):
            swept = next((o.input_line for o in overrides if o.is_sweep_override()), None)
            if swept:
                raise Refusal(f"{swept}: several values for one run; add -m to run a sweep")
            return [Job(tuple(words), _compose(name, words))]
        params = [f"{key}={value}" for key, value in (base.hydra.sweeper.get("params") or {}).items()]
        try:
            (jobs,) = BasicSweeper.split_arguments(parser.parse_overrides([*params, *words]), max_batch_size=None)
        except HydraException as error:
            raise Refusal(_first_line(error)) from error
        return [Job(tuple(job), _compose(name, job)) for job in jobs]


@contextmanager
def _hydra(config_dir: Path | None) -> Iterator[OverridesParser]:
    """Hydra with the search path of its own main, ready to compose; gives the parser of overrides."""
    version.setbase("1.3")
    path = create_config_search_path(str(CONF))
    if config_dir:
        path.prepend("command-line", f"file://{config_dir}", SearchPathQuery(provider="schema"))
    GlobalHydra.instance().clear()
    try:
        yield OverridesParser.create(Hydra.create_main_hydra2("lengthlab", path).config_loader)
    finally:
        GlobalHydra.instance().clear()


def _compose(name: str, overrides: list[str], hydra: bool = False) -> DictConfig:
    try:
        return compose(name, list(overrides), return_hydra_config=hydra)
    except (HydraException, OmegaConfBaseException) as error:
        raise Refusal(_explain(name, overrides, error)) from error
    except ValueError as error:  # what Hydra says of scheme=null
        culprit = next((one for one in overrides if one.endswith("=null")), " ".join(overrides))
        raise Refusal(f"{culprit}: {_first_line(error)}; name one of the group, see --help") from error


def _explain(name: str, overrides: list[str], error: Exception) -> str:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options is not None:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        return f"{group}={choice}: no such {group}{nearest(choice, error.options)}"
    if isinstance(error, MissingMandatoryValue):
        return f"{_first_line(error)}; give it on the command line"
    found = re.search(r"Could not override '(?:[\w/]+@)?([^']+)'", str(error))
    if isinstance(error, ConfigCompositionException) and found:
        key = found.group(1)
        chosen = [o for o in overrides if "." not in o.split("=")[0] and not o.startswith(key)]
        try:
            valid = list(keys_of(compose(name, chosen)))
        except (HydraException, OmegaConfBaseException):
            valid = list(keys_of(compose(name)))
        if name == "evaluate" and key.split(".")[0] in DECIDED:
            return f"{key}: the run's training has decided it; train another run"
        near = [known for known in valid if known.rpartition(".")[0] == key.rpartition(".")[0]]
        return f"{key}: no such key{nearest(key, near or valid)}"
    return _first_line(error)


def config_dir_of(hydra: DictConfig) -> Path | None:
    """The folder of the --config-dir on this very command line, from Hydra's own config."""
    sources = hydra.runtime.config_sources
    return next((Path(source.path) for source in sources if source.provider == "command-line"), None)


def config_dir_of_job() -> Path | None:
    """The same inside a job."""
    return config_dir_of(HydraConfig.get())


def keys_of(config: DictConfig, prefix: str = "") -> list[str]:
    """All keys of a config, dotted; of lists only the key."""
    keys = []
    for key in config:
        keys.append(f"{prefix}{key}")
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_none() and not node._is_missing():
            keys += keys_of(node, f"{prefix}{key}.")
    return keys


def plain(config: DictConfig) -> dict:
    """The config as plain containers, every value there. Raises Refusal for one that must be given."""
    try:
        return OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        key = getattr(error, "full_key", None) or _first_line(error)
        raise Refusal(f"{key}: must be given, as in {key}=…") from error
    except OmegaConfBaseException as error:
        raise Refusal(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
