"""Schemes are in one registry, and whoever compares some names them by it."""

from dataclasses import replace

import pytest

from experiments import demo
from experiments.bench.apps import matrix
from experiments.bench.incast import plan
from experiments.bench.suites import SUITES
from experiments.bench.transport import dfcp, dfcp_sharing, fairness
from experiments.hosts import hosts
from experiments.runner import RunSpec, bed_config
from experiments.schemes import (
    SCHEMES,
    Scheme,
    described,
    over_any_control,
    over_atp,
    over_lttp,
    over_tcp,
    scheme,
)
from experiments.schemes.dctcp import named
from experiments.workloads.reads import Reads
from testbed import dctcp
from testbed.config import BedConfig, HostSettings
from testbed.registry import Registry


def named_elsewhere() -> set[str]:
    cells = [cell for cells in plan.GROUPS.values() for cell in cells()]
    groups = [group for suite in SUITES.values() for group in suite.groups.values()]
    return {
        *demo.SCHEMES,
        *plan.PAPER_SCHEMES,
        *(str(who["scheme"]) for cell in cells for who in cell.contenders.values()),
        *({name for group in groups for name in group.known} - set(matrix.CONTENDERS)),
        *matrix.CONTENDERS.values(),
        *(name for mix in fairness.MIXES.values() for name in (mix.scheme, mix.tcp)),
        *dfcp.TCPS,
        dfcp_sharing._TCP,
    }


def test_names_are_those_of_the_registry() -> None:
    assert named_elsewhere() <= set(SCHEMES)
    assert {*over_tcp(), *over_lttp(), *over_atp()} == set(SCHEMES)
    assert all(f"  {name} " in described(SCHEMES) for name in SCHEMES)


def test_dctcp_has_its_three_parts() -> None:
    chosen = scheme("dctcp")
    assert chosen.host == HostSettings(congestion_control=dctcp.NAME, ecn=True)
    assert chosen.queue["ecn-threshold"] == str(20 * 1514)


def test_a_scheme_is_all_of_its_parts_or_none() -> None:
    mine = BedConfig(
        senders=4,
        scheme="weir",
        queue={"delay-us": "500", "ecn-threshold": "1514"},
        host=HostSettings(initcwnd=2),
        controller={"regulation": {"ttl": "1 s", "repeat_notices": True}, "log": {}},
    )
    config = scheme("dctcp").on(mine)
    assert (config.senders, config.scheme) == (4, "none")
    assert config.host == HostSettings(congestion_control=dctcp.NAME, initcwnd=2, ecn=True)
    assert config.queue["delay-us"] == "500"
    assert config.queue["ecn-threshold"] == str(20 * 1514)
    letter = scheme("sdtcp_letter").on(mine).controller
    assert letter == {"regulation": {"ttl": "1 s", "repeat_notices": False}, "log": {}}


@pytest.mark.parametrize("control", ["weir-dctcp", "dctcp"])
def test_dctcp_without_marks_cannot_be_run_by_mistake(control: str) -> None:
    host = HostSettings(congestion_control=control, ecn=True)
    with pytest.raises(ValueError, match=r'scheme\("dctcp"\).on\(config\)'):
        BedConfig(host=host)
    with pytest.raises(ValueError, match="add ecn=True"):
        replace(scheme("dctcp").on(BedConfig()), host=HostSettings(congestion_control=control))
    # Nor by way of a run, whose hosts and scheme are two values.
    with pytest.raises(ValueError, match="queues mark"):
        bed_config(RunSpec("weir", Reads(senders=2), host=host))


@pytest.mark.parametrize("name", [*over_lttp(), *over_atp()])
def test_a_workload_does_not_run_where_tcp_carries_nothing(name: str) -> None:
    """It would be TCP under another's name, whichever way the run was asked for."""
    with pytest.raises(ValueError, match=f"TCP carries nothing under {name}"):
        bed_config(RunSpec(name, Reads(senders=2)))


def test_a_family_of_dctcp_has_its_parameters_in_the_name() -> None:
    made = scheme("dctcp_k4_g0.15")
    assert made.name == named(4, 0.15) == "dctcp_k4_g0.15"
    assert made.host.dctcp_gain == 0.15
    assert made.queue["ecn-threshold"] == str(4 * 1514)
    assert "dctcp_k4_g0.15" not in SCHEMES
    for wrong in ("dctcp_k4", "dctcp_k4_g1.5", "dctcp_kx_g0.1"):
        with pytest.raises(ValueError, match=f"no scheme '{wrong}'"):
            scheme(wrong)


@pytest.mark.parametrize("gain", [0.0, 1.0, -0.1])
def test_an_estimate_has_a_gain_between_0_and_1(gain: float) -> None:
    host = HostSettings(congestion_control=dctcp.NAME, ecn=True, dctcp_gain=gain)
    with pytest.raises(ValueError, match="more than 0 and less than 1"):
        BedConfig(host=host, queue=dctcp.MARKING)
    with pytest.raises(ValueError, match="dctcp_gain is that of"):
        BedConfig(host=HostSettings(congestion_control="reno", dctcp_gain=0.1))


def test_sdtcp_as_printed_has_the_hosts_of_its_paper() -> None:
    letter, paper = scheme("sdtcp_letter"), scheme("sdtcp_paper")
    assert paper.host == hosts("paper").settings.over(letter.host)
    assert (paper.controller, paper.regulation) == (letter.controller, "sdtcp")
    assert paper.reacts


def test_what_a_scheme_sets_prevails() -> None:
    wanted = HostSettings(congestion_control="bbr", initcwnd=2, ecn=False)
    host = scheme("dctcp").host.over(wanted)
    assert host == HostSettings(congestion_control=dctcp.NAME, initcwnd=2, ecn=True)


def test_a_congestion_control_is_the_schemes_or_where_it_leaves_it_open_the_runs() -> None:
    cubic = HostSettings(congestion_control="cubic", initcwnd=2)
    assert scheme("weir").hosts(HostSettings()).congestion_control == "reno"
    assert scheme("weir").hosts(cubic) == cubic
    assert scheme("cubic").hosts(cubic) == cubic
    assert bed_config(RunSpec("fair", Reads(senders=2), host=cubic)).host == cubic
    for name in ("reno", "reno_rto10", "bbr", "dctcp"):
        with pytest.raises(ValueError, match=f"{name} is congestion control .*cubic.*, weir"):
            scheme(name).on(BedConfig(host=cubic))
        assert name not in over_any_control()


def test_a_name_that_is_not_there_and_one_that_is_taken() -> None:
    with pytest.raises(
        ValueError, match=r"no scheme 'wier': did you mean weir\? There are acc, .*weir"
    ):
        scheme("wier")
    mine: Registry[Scheme] = Registry("scheme", "experiments.network")
    mine.add(Scheme("one", "One", "the first"))
    with pytest.raises(ValueError, match="two things of the kind scheme are called 'one'"):
        mine.add(Scheme("one", "Another", "the second"))
