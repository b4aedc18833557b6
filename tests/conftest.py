"""What every test stands on: hooks whose shapes are checked, one thread, no network, no folder of the user's."""

import inspect
from functools import cache
from pathlib import Path

import pytest
import torch
from beartype import beartype
from jaxtyping import install_import_hook, jaxtyped
from omegaconf import OmegaConf

install_import_hook(["lengthlab.schemes"], "beartype.beartype")  # before lengthlab is imported

from lengthlab.commands import build  # noqa: E402
from lengthlab.schemes import Scheme  # noqa: E402

CONF = Path(__file__).parents[1] / "conf"


def _held_to_the_interface(cls, **options):
    """Overriding hooks take over the annotations of the hook they override, so every scheme's shapes are checked."""
    super(Scheme, cls).__init_subclass__(**options)
    for name, member in vars(cls).copy().items():
        for above in cls.__mro__[1 : cls.__mro__.index(Scheme) + 1]:
            if inspect.isfunction(member) and name in vars(above):
                hook = inspect.unwrap(member)
                interface = inspect.get_annotations(inspect.unwrap(vars(above)[name]))
                hook.__annotations__ = {**interface, **inspect.get_annotations(hook)}
                setattr(cls, name, jaxtyped(typechecker=beartype)(hook))
                break


Scheme.__init_subclass__ = classmethod(_held_to_the_interface)


@pytest.fixture(scope="session", autouse=True)
def apart_from_the_user(tmp_path_factory):
    """Caches and dashboards lie in a folder of the session's; numbers do not depend on the machine's cores."""
    torch.set_num_threads(1)  # small models on a busy machine: two threads wait for each other, 15 times slower
    folder = tmp_path_factory.mktemp("session")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LENGTHLAB_CACHE", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
            patch.setenv(name, str(folder / name.lower()))
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.delenv("WANDB_API_KEY", raising=False)
        yield


@pytest.fixture(autouse=True)
def same_draws():
    """Random tensors are the same in every run and every order of the tests."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed also notes the stack for CUDA: a millisecond per test


@cache
def loaded(group: str, name: str):
    """conf/GROUP/NAME.yaml, read once: it takes longer than a forward pass."""
    return OmegaConf.load(CONF / group / f"{name}.yaml")


@pytest.fixture
def config_of():
    """`config_of(scheme, length=64, seed=0, **model)`: a plain config for `build`, of a scheme named in conf/scheme."""

    def make(scheme: str, length: int = 64, seed: int = 0, **model) -> dict:
        chosen = {"scheme": scheme, "positions": "sequential"}
        groups = {group: OmegaConf.to_container(loaded(group, name)) for group, name in chosen.items()}
        sizes = {"layers": 2, "width": 32, "heads": 4, **model}
        return {**groups, "model": sizes, "train": {"length": length}, "seed": seed}

    return make


@pytest.fixture
def scheme_of(config_of):
    """`scheme_of(name, length=64, **model)`: the scheme alone, as it is at initialisation."""
    return lambda name, **options: build.scheme_of(config_of(name, **options))


@pytest.fixture
def model_of(config_of):
    """`model_of(name, length=64, seed=0, **model)`: vocab 97, eval mode, weights so large that attention is peaked."""

    def make(name: str, seed: int = 0, **options):
        model = build.model_of(config_of(name, seed=seed, **options), vocab=97)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():  # the scheme's are the last: the others are the same for all schemes
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
        return model.eval()

    return make
