"""`make check` runs the tests that a change concerns."""

import pytest

from affected import Cause, Project, uses

TREE = {
    "controller/__init__.py": "",
    "controller/__main__.py": "from controller.runtime.launcher import main\n",
    "controller/core/__init__.py": "",
    "controller/core/engine.py": "from controller.core import windows\n",
    "controller/core/windows.py": "",
    "controller/runtime/__init__.py": "",
    "controller/runtime/launcher.py": "from controller.core.engine import Engine\n",
    "controller/ops/__init__.py": '"""Beside the docs, the Makefile and core/windows.py."""\n',
    "mininet/testbed/__init__.py": "",
    "mininet/testbed/lab.py": "",
    "tests/conftest.py": "import testbed.lab\n",
    "tests/controller/conftest.py": "",
    "tests/controller/engine_bench.py": "from controller.core.engine import Engine\n",
    "tests/controller/test_engine.py": "from engine_bench import EngineBench\n",
    "tests/controller/test_launcher.py": 'ARGV = [python, "-m", "controller"]\n',
    "tests/controller/test_ops.py": "import controller.ops\n",
    "tests/packaging/test_docs.py": 'PAGES = (TOP / "docs").glob("*.md"), TOP / "Makefile"\n',
    "tests/packaging/test_tools.py": 'argv = f"exec {TOP}/tools/prepare apps"\n',
    "tests/testbed/test_apps.py": 'SAID = Path(__file__).parent / "said"\n',
    "tests/testbed/test_prompts.py": 'LAB = Path(sys.executable).parent / "weir-lab"\n',
    "tests/transport/test_bindings.py": "import weir_transport\n",
}
ALL = {path for path in TREE if "/test_" in path}


@pytest.fixture(scope="module")
def project() -> Project:
    return Project(TREE)


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        ("controller/core/windows.py", {"controller/test_engine", "controller/test_launcher"}),
        ("controller/runtime/launcher.py", {"controller/test_launcher"}),
        ("controller/ops/__init__.py", {"controller/test_ops"}),
        ("controller/core/gone.py", set()),
        ("tests/controller/engine_bench.py", {"controller/test_engine"}),
        ("tests/controller/test_ops.py", {"controller/test_ops"}),
        ("docs/index.md", {"packaging/test_docs"}),
        ("docs/pictures/house.png", {"packaging/test_docs"}),
        ("Makefile", {"packaging/test_docs"}),
        ("tools/prepare", {"packaging/test_tools"}),
        ("tests/testbed/said/ab.txt", {"testbed/test_apps"}),
        ("mininet/testbed/lab.py", {"testbed/test_prompts"}),
        ("transport/crates/codec/src/lib.rs", {"transport/test_bindings"}),
        ("LICENSE", set()),
    ],
)
def test_a_change_concerns(project: Project, changed: str, concerned: set[str]) -> None:
    assert {*project.concerned([changed])} == {f"tests/{name}.py" for name in concerned}


def test_what_a_package_says_concerns_all_that_is_in_it(project: Project) -> None:
    assert {*project.concerned(["controller/core/__init__.py"])} == {
        "tests/controller/test_engine.py",
        "tests/controller/test_launcher.py",
    }


def test_a_conftest_concerns_what_is_below_it(project: Project) -> None:
    assert {*project.concerned(["tests/conftest.py"])} == ALL
    assert {*project.concerned(["tests/controller/conftest.py"])} == {
        path for path in ALL if path.startswith("tests/controller/")
    }


def test_a_module_that_is_gone_concerns_who_imports_it() -> None:
    texts = {"tests/controller/test_old.py": "from controller.core.old import Old\n"}
    assert Project(texts).concerned(["controller/core/old.py"]) == {
        "tests/controller/test_old.py": Cause("controller/core/old.py")
    }


def test_the_way_to_a_test_is_told(project: Project) -> None:
    changed = "controller/core/windows.py"
    by_way_of = ("controller/core/engine.py", "tests/controller/engine_bench.py")
    causes = project.concerned([changed])
    assert causes["tests/controller/test_engine.py"] == Cause(changed, by_way_of)


def test_nothing_changed_concerns_nothing(project: Project) -> None:
    assert project.concerned([]) == {}


def test_what_a_file_says_of_itself_is_no_use() -> None:
    assert uses('"""Read tools/prepare first."""\n').paths == set()
