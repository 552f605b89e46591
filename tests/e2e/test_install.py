# SPDX-License-Identifier: Apache-2.0
"""An installed program needs nothing of the tree that it was built in."""
import os
import re
import shlex
import subprocess

import pyarrow.dataset as ds
import pytest

from harness import ROOT


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Where scripts/install put it, given as a relative path."""
    folder = tmp_path_factory.mktemp("installed")
    done = subprocess.run([ROOT / "scripts/install", "here"], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout == f"{folder}/here/bin/moontide\n", done
    return folder / "here"


def without_the_tree(command, cwd):
    """Runs a command where the tree, and what scripts/setup prepared for it, are not there."""
    hidden = {str(ROOT), os.path.realpath(ROOT / ".deps")}
    hide = " && ".join(f"mount -t tmpfs none {shlex.quote(path)}" for path in sorted(hidden, reverse=True))
    script = f'{hide} && [ ! -e {ROOT}/lua ] && exec "$@"'
    return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *map(str, command)], cwd=cwd,
                          capture_output=True, text=True, timeout=60)


def package_of(library):
    path = os.path.realpath(library).removeprefix("/usr") # where /lib is a link, packages name either
    return subprocess.run(["dpkg-query", "-S", f"*{path}"], capture_output=True, text=True).stdout.split(":")[0]


def test_it_says_its_version(prefix, tmp_path):
    done = without_the_tree([prefix / "bin/moontide", "--version"], tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("moontide "), done


def test_its_demo_runs_the_job_that_came_along(prefix, tmp_path):
    job = prefix / "share/doc/moontide/jobs/orders_to_parquet.lua"
    done = without_the_tree([prefix / "bin/moontide", "demo", job, "--rows", "1000", "--seconds", "1",
                             "--set", f"out={tmp_path}/out"], tmp_path)
    assert done.returncode == 0, done
    assert ds.dataset(str(tmp_path / "out"), format="parquet").count_rows() > 0


def test_the_packages_it_needs_are_those_that_it_says(prefix):
    said = set(subprocess.run([ROOT / "scripts/install", "--needs"], capture_output=True, text=True).stdout.split())
    ours = [prefix / "bin/moontide", *(prefix / "lib/moontide").glob("*.so*")]
    asked = set(re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-d", *ours], capture_output=True,
                                                                  text=True).stdout))
    linked = subprocess.run(["ldd", prefix / "bin/moontide"], capture_output=True, text=True).stdout
    outside = [path for name, path in re.findall(r"(\S+) => (/\S+)", linked)
               if name in asked and not path.startswith(str(prefix))]
    assert len(outside) > 5
    owners = {package_of(path) for path in outside}
    assert owners <= said | {"libc6", "libgcc-s1"}, owners - said


def test_the_pages_came_along_and_what_they_link_to(prefix):
    pages = prefix / "share/doc/moontide"
    assert {"README.md", "LICENSE", "docs", "examples", "jobs"} <= {path.name for path in pages.iterdir()}
    assert (pages / "docs/guide.md").exists() and (pages / "examples/steps").is_dir()


def test_without_a_prefix_it_says_how_to_call_it():
    done = subprocess.run([ROOT / "scripts/install"], capture_output=True, text=True)
    assert done.returncode == 2 and "scripts/install PREFIX" in done.stderr
