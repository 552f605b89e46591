# SPDX-License-Identifier: Apache-2.0
"""How fast Moontide moves orders from Kafka through JSON and a Lua filter into Parquet.

Fills a topic, then in every round measures librdkafka alone and the job at each batch size, one
after the other: absolute figures drift with the machine, the ratio within a round drifts less.
Every table that is written is read back by pyarrow and compared with what the producer counted; a
run that lost, doubled or misread a row ends the benchmark.
"""
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from common import BUILD, ROOT, broker, output, say

TOPIC = "orders"
HZ = os.sysconf("SC_CLK_TCK")
COLUMNS = {"user_id": pa.string(), "event": pa.string(), "amount": pa.float64(),
           "ts": pa.timestamp("us", tz="UTC"), "date": pa.date32()}


# ---- what the machine does meanwhile


def machine_cpu():
    """CPU seconds that anybody used so far: user, nice, system, irq, softirq."""
    fields = [int(x) / HZ for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    return sum(fields[:3]) + sum(fields[5:7])


def process_cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


class Meter:
    """CPU of the broker, and of everything that is neither broker nor job."""

    def __init__(self, broker_dir):
        self.broker = int(next(Path(broker_dir).glob("[0-9]*/pid")).read_text())

    def start(self):
        self.busy, self.served = machine_cpu(), process_cpu(self.broker)

    def stop(self, job_cpu):
        served = process_cpu(self.broker) - self.served
        return {"broker_cpu_s": round(served, 2),
                "other_cpu_s": round(max(0.0, machine_cpu() - self.busy - served - job_cpu), 2)}


# ---- runs


def peak_of(pid):
    """The most memory the process had until now. Its rusage would not do: that begins with
    what this program had when it started the process."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    except OSError:
        pass
    return 0


class Watch(threading.Thread):
    """Follows the peak memory of a process that will be gone when it could be asked."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.ended = pid, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.01):
            self.peak = max(self.peak, peak_of(self.pid))

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak


def metered(command, meter, on_line=lambda line: None):
    """Runs command; its wall time, CPU and peak memory, and what the machine did beside it."""
    meter.start()
    began, started = time.time(), time.monotonic()
    process = subprocess.Popen([str(word) for word in command], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    watch = Watch(process.pid)
    for line in process.stdout:
        on_line(line, time.monotonic() - started)
    _, status, use = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))} ended with {process.returncode}")
    cpu = use.ru_utime + use.ru_stime
    return {"began": began, "wall_s": round(wall, 3), "cpu_s": round(cpu, 3),
            "peak_rss_mib": watch.stop(), **meter.stop(cpu)}


def consume(options, brokers, meter):
    lines = []
    run = metered([BUILD / "bench/bench_consume", brokers, TOPIC, options.partitions], meter,
                  lambda line, _: lines.append(json.loads(line)))
    if lines[-1]["rows"] != options.rows:
        sys.exit(f"bench: librdkafka alone read {lines[-1]['rows']} rows of {options.rows}")
    run.update(kind="librdkafka alone", batch=None, wall_s=lines[-1]["seconds"], rows=options.rows)
    return finish(run)


def finish(run):
    run["rows_per_s"] = round(run["rows"] / run["wall_s"])
    run["cpu_s_per_million"] = round(run["cpu_s"] / run["rows"] * 1e6, 3)
    del run["began"]
    return run


def job(options, brokers, meter, batch, directory, truth):
    out = Path(directory) / f"out-{batch}"
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(f"{out}.checkpoint", ignore_errors=True)
    progress = []

    def on_line(line, at):
        record = json.loads(line)
        if record.get("numInputRows"):
            progress.append((record, at))

    run = metered([BUILD / "moontide", "run", ROOT / "bench/job.lua", "--json", "--set", f"brokers={brokers}",
                   "--set", f"topic={TOPIC}", "--set", f"rows={batch}", "--set", f"out={out}"], meter, on_line)
    check(out, progress, options, truth)
    first, first_at = progress[0]
    triggered = datetime.strptime(first["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    run.update(kind="Moontide", batch=batch, rows=options.rows, batches=len(progress),
               start_ms=round((triggered.timestamp() - run["began"]) * 1000),
               first_batch_s=round(first_at, 3), bytes_out=size_of(out))
    shutil.rmtree(out)
    shutil.rmtree(f"{out}.checkpoint")
    return finish(run)


def size_of(out):
    return sum(os.path.getsize(path) for path in files_of(out))


def files_of(out):
    return sorted(glob.glob(f"{out}/*.parquet"))


def check(out, progress, options, truth):
    """The table says what the producer said: rows, sum, types, and that the filter held."""
    read = sum(record["numInputRows"] for record, _ in progress)
    table = pa.concat_tables(pq.read_table(path) for path in files_of(out))
    types = {field.name: field.type for field in table.schema}
    cents = pc.sum(pc.cast(pc.round(pc.multiply(table["amount"], 100)), pa.int64())).as_py()
    events = set(pc.unique(table["event"]).to_pylist())
    wrong = [f"{name} is {found}, expected {expected}" for name, found, expected in (
        ("the number of rows read", read, options.rows),
        ("the number of rows in the table", table.num_rows, truth["kept"]),
        ("the sum of amounts in cents", cents, truth["kept_cents"]),
        ("the schema", types, COLUMNS),
        ("the set of events", events, {"purchase", "refund"}),
        ("the number of dates", len(pc.unique(table["date"])), 1),
        ("the number of nulls", sum(column.null_count for column in table.columns), 0),
    ) if found != expected]
    if wrong:
        sys.exit("bench: the table is wrong: " + "; ".join(wrong))


# ---- the report


def with_ratio(round_):
    alone = round_[0]["rows_per_s"]
    for run in round_[1:]:
        run["ratio"] = round(run["rows_per_s"] / alone, 3)
    return round_


def summary(runs):
    """The best run of each kind, with the spread of rates and ratios over the rounds."""
    kinds = {}
    for run in runs:
        kinds.setdefault((run["kind"], run["batch"]), []).append(run)
    best = []
    for same in kinds.values():
        rates = [run["rows_per_s"] for run in same]
        row = dict(max(same, key=lambda run: run["rows_per_s"]), slowest_rows_per_s=min(rates))
        if "ratio" in row:
            row["median_ratio"] = round(statistics.median(run["ratio"] for run in same), 3)
        best.append(row)
    return best


def print_throughput(found):
    print(f"best of {found['rounds']}; ratio: to librdkafka alone in the same round, median")
    print(f"{'':<28}{'M rows/s':>9}{'slowest':>9}{'ratio':>7}{'wall s':>8}{'CPU s/M':>9}{'peak MiB':>10}"
          f"{'start ms':>10}{'first batch s':>15}{'other CPU s':>13}")
    for run in found["best"]:
        name = run["kind"] if run["batch"] is None else f"{run['kind']}, {run['batch']:,} a batch"
        print(f"{name:<28}{run['rows_per_s'] / 1e6:>9.2f}{run['slowest_rows_per_s'] / 1e6:>9.2f}"
              f"{run.get('median_ratio', 1):>7.2f}{run['wall_s']:>8.2f}{run['cpu_s_per_million']:>9.2f}"
              f"{run['peak_rss_mib']:>10}{run.get('start_ms', ''):>10}{run.get('first_batch_s', ''):>15}"
              f"{run['other_cpu_s']:>13.1f}")


def throughput(options, directory):
    with broker(directory) as (folder, brokers):
        output("scripts/kafka", "topic", folder, TOPIC, options.partitions)
        truth = json.loads(output(BUILD / "bench/bench_produce", brokers, TOPIC, options.rows))
        say(options, f"{truth['rows']:,} orders, {truth['bytes'] / truth['rows']:.0f} bytes each, lz4, "
                     f"{options.partitions} partitions; the job keeps {truth['kept']:,}")
        meter, runs = Meter(folder), []
        batches = [int(batch) for batch in options.batches.split(",")]
        for number in range(options.rounds):
            say(options, f"round {number + 1} of {options.rounds}")
            round_ = [consume(options, brokers, meter)]
            round_ += [job(options, brokers, meter, batch, directory, truth) for batch in batches]
            runs += with_ratio(round_)
    return {"topic": truth, "partitions": options.partitions, "rounds": options.rounds, "best": summary(runs),
            "runs": runs}
