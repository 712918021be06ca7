"""Nothing in the package reads or writes a form that runs code when it is read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nasheval

SOURCE = Path(nasheval.__file__).parent
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "jsonpickle"}
# Functions that pickle, or run what they are given.
CALLS = {
    "eval", "exec", "__import__", "compile", "joblib.dump", "joblib.load", "torch.load", "torch.save", "torch.jit.load",
    "pd.read_pickle", "pandas.read_pickle", "yaml.load",
}  # fmt: skip
ATTRIBUTES = {"to_pickle", "read_pickle", "Unpickler", "Pickler", "PyExtensionType"}
ARGUMENTS = {"allow_pickle", "trust_remote_code"}  # fine where they say False
ARRAYS = {"np.load", "numpy.load", "np.save", "numpy.save"}  # fine where they say that they do not pickle


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def refused(call: ast.Call) -> list[str]:
    called, told = dotted(call.func), {keyword.arg: keyword.value for keyword in call.keywords}
    off = {name for name, value in told.items() if isinstance(value, ast.Constant) and value.value is False}
    found = [called] * (called in CALLS) + sorted((ARGUMENTS & set(told)) - off)
    return found + [called] * (called in ARRAYS and "allow_pickle" not in off)


def found_in(code: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or ""] * ((node.module or "").split(".")[0] in MODULES)
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [each for each in whole if each in CALLS or each.split(".")[-1] in ATTRIBUTES]
        elif isinstance(node, ast.Call):
            found += refused(node)
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            found.append(node.attr)
    return found


def test_the_package_uses_nothing_that_runs_what_it_reads():
    files = {str(file.relative_to(SOURCE)): file for file in sorted(SOURCE.rglob("*.py"))}
    assert len(files) > 100
    assert {name: found for name, file in files.items() if (found := found_in(file.read_text()))} == {}


def test_the_store_imports_nothing_by_a_name_that_it_was_told():
    assert not any("import_module" in file.read_text() for file in (SOURCE / "store").rglob("*.py"))


@pytest.mark.parametrize(
    "code",
    ["import pickle", "import pickle as p", "from pickle import loads", "import dill", "def f():\n    import marshal",
     "joblib.dump(x, 'f')", "torch.load('f')", "np.load('f', allow_pickle=True)", "np.load('f')", "df.to_pickle('f')",
     "eval('1')", "__import__(name)", "np.load('f', allow_pickle=maybe)", "np.save('f', x)", "from joblib import load",
     "from torch import load", "open_it(trust_remote_code=True)"],
)  # fmt: skip
def test_the_scan_finds_what_it_looks_for(code):
    assert found_in(code)


@pytest.mark.parametrize(
    "code",
    ["model.eval()", "re.compile('a')", "json.loads(x)", "from joblib import Parallel", "x = 'pickle'",
     "np.load('f', allow_pickle=False)", "np.savez('f')"],
)  # fmt: skip
def test_the_scan_lets_the_rest_be(code):
    assert not found_in(code)
