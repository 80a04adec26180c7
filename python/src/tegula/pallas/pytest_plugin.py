"""A fixture of pytest: `pallas_simulator` runs a test's kernels on the simulated chip, and the test
fails on what is found. Nothing of JAX is imported before a test asks for it."""

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("tegula")
    group.addoption(
        "--pallas-chip", default="v5e", metavar="NAME",
        help="the chip that the fixture pallas_simulator simulates (default: v5e)",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "pallas(chip=..., precision=..., races=..., values=..., allow=[codes]): how the fixture"
        " pallas_simulator runs this test's kernels, and findings that it may have",
    )


@pytest.fixture
def pallas_simulator(request):
    """A simulator that is active during the test."""
    from tegula.pallas import simulator

    marker = request.node.get_closest_marker("pallas")
    options = dict(marker.kwargs) if marker else {}
    allowed = set(options.pop("allow", ()))
    options.setdefault("chip", request.config.getoption("--pallas-chip"))
    with simulator(**options) as sim:
        yield sim
    found = [finding for finding in sim.findings if finding.code not in allowed]
    if found:
        text = "\n".join(str(finding) for finding in found)
        pytest.fail(f"{len(found)} findings in Pallas kernels:\n{text}", pytrace=False)
