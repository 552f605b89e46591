# SPDX-License-Identifier: Apache-2.0
"""The benchmark's parts that are not about throughput: each measures, and prints a table."""
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from common import BUILD, PROGRAM, ROOT, ahead_of_others, broker, durable_write, json_lines, line_of, output

PARTITIONS, RATE, WARM_UP_S = 4, 1000, 3
SYNCS = re.compile(r"^\s*\S+\s+\S+\s+\S+\s+(\d+)\s+(?:\d+\s+)?(fdatasync|fsync)$", re.M)


# ---- what a batch costs, by how it is written


def foreach(options, directory):
    before = durable_write(directory)
    runs = json_lines(PROGRAM, "lua", "bench/foreach.lua", Path(directory) / "foreach")
    return {"batches": runs, "durable_write_ms": [before, durable_write(directory)],
            "syncs_a_batch": syncs(directory)}


def syncs(directory):
    """fsync and fdatasync calls of an empty batch; None where there is no strace."""
    if not shutil.which("strace"):
        return None
    counts = []
    for batches in (20, 120):
        log = Path(directory) / "strace"
        output("strace", "-f", "-c", "-o", log, PROGRAM, "lua", "bench/foreach.lua",
               Path(directory) / f"syncs{batches}", batches)
        counts.append(sum(int(calls) for calls, _ in SYNCS.findall(log.read_text())))
    return (counts[1] - counts[0]) / 100


def print_foreach(found):
    writes, syncs_ = found["durable_write_ms"], found["syncs_a_batch"]
    print(f"a durable write of 200 bytes here, p50: {writes[0]} ms before, {writes[1]} ms after; calls of fsync or "
          f"fdatasync an empty batch: {'not counted, no strace' if syncs_ is None else syncs_}")
    print("the design asks: an empty batch in 0.6 ms p50 or less, 2 of these calls")
    widths = ((34, 0), (10, 0), (10, 2), (10, 2), (10, 2), (10, 2))
    line_of(widths, "", "rows", "p50 ms", "p99 ms", "best ms", "CPU ms")
    for run in found["batches"]:
        line_of(widths, run["name"], run["rows"], run["wall_ms_p50"], run["wall_ms_p99"], run["wall_ms_best"],
                run["cpu_ms_p50"])


# ---- what a row costs


def rows(options, directory):
    return {"functions": json_lines(PROGRAM, "lua", "bench/rows.lua")}


def print_rows(found):
    widths = ((66, 0), (9, 1), (9, 0))
    line_of(widths, "CPU of one thread", "ns/row", "target")
    for one in found["functions"]:
        line_of(widths, one["name"], one["ns"], one.get("target", ""))


def parse(options, directory):
    return {"shapes": json_lines(BUILD / "bench/bench_json")}


def print_parse(found):
    widths = ((30, 0), (9, 0), (9, 0))
    line_of(widths, "reading JSON, CPU", "bytes", "ns/row")
    for one in found["shapes"]:
        line_of(widths, one["name"], one["bytes"], one["ns"])


# ---- from produce to commit


def latency(options, directory):
    runs = []
    with ahead_of_others(), broker(directory) as (folder, address):
        for sink, wanted in (("noop", "1.5, 10"), ("parquet", "")):
            topic = f"latency-{sink}"
            output("scripts/kafka", "topic", folder, topic, PARTITIONS)
            runs.append({"sink": sink, "target": wanted, "durable_write_ms": durable_write(directory),
                         **follow(address, topic, sink, Path(directory) / topic, options.seconds)})
    return {"rate": RATE, "partitions": PARTITIONS, "runs": runs}


def follow(address, topic, sink, out, seconds):
    job = subprocess.Popen([PROGRAM, "run", "bench/latency.lua", "--json", "--set", f"brokers={address}", "--set",
                            f"topic={topic}", "--set", f"sink={sink}", "--set", f"out={out}"],
                           cwd=ROOT, stdout=subprocess.PIPE)
    try:
        time.sleep(1)  # the broker tells the consumer of the new topic
        return json.loads(subprocess.run([BUILD / "bench/bench_latency", address, topic, str(PARTITIONS), str(RATE),
                                        str(seconds)], stdin=job.stdout, stdout=subprocess.PIPE, check=True).stdout)
    finally:
        job.stdout.close()
        job.send_signal(signal.SIGTERM)
        if job.wait() != 0:
            print(f"bench: the job into {sink} ended with {job.returncode}", file=sys.stderr)


def print_latency(found):
    print(f"{found['rate']:,} records a second to {found['partitions']} partitions; until the line of progress is read")
    print("alone: until a consumer of librdkafka beside it has the record; own: from there to the commit, record "
          "by record")
    widths = ((27, 0), (9, 0), (10, 2), (10, 2), (10, 2), (11, 2), (11, 2), (9, 2), (10, 2), (17, 0), (18, 2))
    line_of(widths, "", "batches", "p50 ms", "p99 ms", "max ms", "alone p50", "alone p99", "own p50", "own p99",
            "target p50, p99", "durable write ms")
    for run in found["runs"]:
        name = "noop, default trigger" if run["sink"] == "noop" else "parquet, a batch a second"
        line_of(widths, name, run["batches"], run["p50_ms"], run["p99_ms"], run["max_ms"], run["alone_p50_ms"],
                run["alone_p99_ms"], run["own_p50_ms"], run["own_p99_ms"], run["target"], run["durable_write_ms"])


# ---- keyed state


def state(options, directory):
    return {"runs": json_lines(BUILD / "bench/bench_state", Path(directory) / "state"),
            "durable_write_ms": durable_write(directory)}


def print_state(found):
    print(f"a durable write of 200 bytes here, p50: {found['durable_write_ms']} ms")
    widths = ((12, 0), (12, 0), (20, 0), (12, 1), (18, 0), (10, 2))
    line_of(widths, "keys", "keys/batch", "get and put ns/key", "commit ms", "walk ns/key", "start s")
    for run in found["runs"]:
        line_of(widths, run["keys"], run.get("dirty", ""), run.get("get_put_ns", ""), run.get("commit_ms", ""),
                run.get("key_ns", ""), run.get("seconds", ""))
