# SPDX-License-Identifier: Apache-2.0
"""One broker for all tests, a folder and unique topics for each, and what every run of the
program printed beside a failure."""
import signal

import pytest

import harness


def pytest_collection_modifyitems(items):
    skip = pytest.mark.skip(reason="long: set MOONTIDE_LONG=1")
    for item in items:
        if item.get_closest_marker("long") and not harness.LONG:
            item.add_marker(skip)


def pytest_sessionstart(session):
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # brokers are stopped then too
    for program in (harness.MOONTIDE, harness.STEPS):
        if not program.exists() and not session.config.option.collectonly:
            pytest.exit(f"{program} is not built: scripts/build release", 2)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    broker = harness.Kafka(tmp_path_factory.mktemp("kafka")).start()
    yield broker
    broker.stop(kill=True)


@pytest.fixture
def work(request, tmp_path, kafka):
    place = request.node.work = harness.Work(tmp_path, kafka)
    yield place
    place.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    place = getattr(item, "work", None)
    if report.failed and place:
        for run in place.runs:
            report.sections.append((f"{' '.join(run.argv)}: exit {run.process.poll()}", run.err()[-4000:]))
