# SPDX-License-Identifier: Apache-2.0
"""What the parts of the benchmark share: the programs, the broker, and the machine they ran on."""
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release"
PROGRAM = BUILD / "moontide"


def say(options, text):
    print(text, file=sys.stderr if options.json else sys.stdout, flush=True)


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, cwd=ROOT, text=True,
                          stdout=subprocess.PIPE).stdout


def json_lines(*command):
    return [json.loads(line) for line in output(*command).splitlines()]


@contextmanager
def broker(directory):
    """A real Kafka under directory; gives its folder and address."""
    folder = Path(directory) / "broker"
    address = output("scripts/kafka", "start", folder, "--heap", "2g").split()[-1]
    try:
        yield folder, address
    finally:
        output("scripts/kafka", "stop", folder)


@contextmanager
def ahead_of_others():
    """What is started here goes before other work of the machine, where that is allowed."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except PermissionError:
        pass
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def durable_write(directory, times=300):
    """p50 of writing 200 bytes to the end of a file and forcing them to the disk, in ms: what
    a figure that waits for the disk is held against."""
    path = Path(directory) / "durable"
    took = []
    with open(path, "wb", buffering=0) as file:
        for _ in range(times):
            began = time.monotonic()
            file.write(bytes(200))
            os.fdatasync(file.fileno())
            took.append((time.monotonic() - began) * 1e3)
    path.unlink()
    return round(sorted(took)[times // 2], 3)


def load():
    return round(os.getloadavg()[0], 1)


def line_of(widths, *cells):
    """Cells under each other: the first to the left, numbers to the right."""
    first, *rest = (f"{cell:,.{digits}f}" if isinstance(cell, (int, float)) else str(cell)
                    for cell, (_, digits) in zip(cells, widths))
    print(f"{first:<{widths[0][0]}}" + "".join(f"{cell:>{width}}" for cell, (width, _) in zip(rest, widths[1:])))
