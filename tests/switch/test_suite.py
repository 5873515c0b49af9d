"""What the checks of the series make of an autotest run."""

from pathlib import Path

import pytest

import suite
import trees

OUTPUT = """\
## ------------------------------ ##
## openvswitch 3.1.0 test suite. ##
## ------------------------------ ##
 12: ofp-actions - OpenFlow 1.3                      ok
  7: ofproto - flow mod (OpenFlow 1.1)               ok
 13: ofp-actions - OpenFlow 1.3                      skipped (ofp-actions.at:7)
 14: OFPST_FLOW request                              FAILED (ofp-print.at:31)
 15: dpif-netdev - sometimes                         FAILED (dpif-netdev.at:5)
 16: bond, known not to work                         expected failure (bond.at:1)
"""
AGAIN = """\
 14: OFPST_FLOW request                              FAILED (ofp-print.at:31)
 15: dpif-netdev - sometimes                         ok
"""


class Tree(trees.Tree):
    """A source tree with nothing but a make target, which says what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.source = directory
        (directory / "first").write_text(OUTPUT)
        (directory / "again").write_text(AGAIN)
        (directory / "Makefile").write_text(
            "check:\n"
            "\t@echo '$(TESTSUITEFLAGS)' >>flags\n"
            "\t@case '$(TESTSUITEFLAGS)' in"
            " '14 15') cat again;; *nothing*) ;; *) cat first;; esac\n"
        )

    def require(self) -> None:
        pass

    @property
    def flags(self) -> list[str]:
        return (self.source / "flags").read_text().splitlines()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.netns
@pytest.mark.parametrize("directory", ["0014", "014", "14"])
def test_groups_are_told_by_title_and_failures_get_a_second_chance(
    tree: Tree, directory: str
) -> None:
    logs = tree.source / "tests/testsuite.dir"
    for name in ("at-groups", "114", directory):
        (logs / name).mkdir(parents=True)
    result = suite.run(tree, "check", ["odp", "pmd"], lambda _: None, jobs=3)
    assert tree.flags == ["-j3 -k odp -k pmd", "14 15"]
    assert result.outcomes == {
        "ofp-actions - OpenFlow 1.3": "ok",
        "ofproto - flow mod (OpenFlow 1.1)": "ok",
        "ofp-actions - OpenFlow 1.3 #2": "skipped",
        "OFPST_FLOW request": "FAILED",
        "dpif-netdev - sometimes": "ok",
        "bond, known not to work": "expected failure",
    }
    assert result.failed == {"OFPST_FLOW request"}
    assert result.counts() == {"passed": 4, "failed": 1, "skipped": 1}
    assert result.logs["OFPST_FLOW request"] == logs / directory / "testsuite.log"


@pytest.mark.netns
def test_a_suite_without_groups_is_no_success(tree: Tree) -> None:
    with pytest.raises(trees.CheckError, match="make check ran no group of nothing"):
        suite.run(tree, "check", ["nothing"], lambda _: None)
