"""The rooms' import rules, read from the source: data flows one way, and heavy packages stay where they belong."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "lengthlab"
FILES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
SCHEMES = {path.stem for path in (SOURCE.parents[1] / "conf" / "scheme").glob("*.yaml")}

ABOVE = {  # the rooms that a room may import from
    "schemes": set(),
    "model": {"schemes"},
    "data": set(),
    "training": {"data", "schemes", "model"},
    "measurement": {"data"},
    "measurement/sweep.py": {"schemes", "model", "training"},
    "study": {"measurement"},
    "figures": {"measurement", "study"},
    "commands": {"data", "schemes", "model", "training", "measurement", "study", "figures"},
    "__main__.py": {"commands"},
    "__init__.py": set(),
}
HOME = {  # where a package may be imported; a file or a room
    "torch": ("schemes/", "model/", "training/", "measurement/sweep.py", "commands/"),
    "hydra": ("commands/",),
    "omegaconf": ("commands/",),
    "wandb": ("commands/tracking.py",),
    "datasets": ("data/",),
    "tokenizers": ("data/",),
}


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports, at its top or inside a function."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), "imports are absolute"
    from_ = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return plain | {f"{node.module}.{alias.name}" for node in from_ for alias in node.names}


@pytest.mark.parametrize("file", FILES)
def test_data_flows_one_way(file):
    room = file.split("/")[0]
    allowed = {room} | ABOVE[room] | ABOVE.get(file, set())
    ours = {name.split(".")[1] for name in imports(FILES[file]) if name.startswith("lengthlab.")}
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert ours & rooms <= allowed


@pytest.mark.parametrize("file", FILES)
def test_packages_stay_at_home(file):
    for package in {name.split(".")[0] for name in imports(FILES[file])}:
        assert file.startswith(HOME.get(package, "")), f"{file} imports {package}"


def test_schemes_need_torch_alone():
    for file in (file for file in FILES if file.startswith("schemes/")):
        packages = {name.split(".")[0] for name in imports(FILES[file])}
        assert packages <= {"torch", "jaxtyping", "lengthlab"} | sys.stdlib_module_names, file


def test_results_are_read_without_torch():
    """Not even through another room."""
    code = "import sys, lengthlab.study, lengthlab.figures, lengthlab.measurement; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class WithoutDocstrings(ast.NodeTransformer):
    """Leaves the code: no comment, no docstring."""

    def visit_Expr(self, node):
        return None if isinstance(node.value, ast.Constant) else node


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("model/")])
def test_the_model_knows_no_scheme_by_name(file):
    tree = ast.parse(FILES[file].read_text())
    interface = {f"lengthlab.schemes.{name}" for name in ("Scheme", "DistanceBias", "ContentScheme", "Kept")}
    assert not {name for name in imports(FILES[file]) if name.startswith("lengthlab.schemes.")} - interface
    words = re.findall(r"[a-z]+", ast.unparse(WithoutDocstrings().visit(tree)).lower())
    assert not SCHEMES & set(words)
