# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a real Kafka, the built program, and the table read
by others.

Nothing here asks Moontide what it wrote. Rows come back through pyarrow, and which files
count comes from the table's own log in Spark's format, read by the few lines below.
"""
import json
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.dataset as ds
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parents[2]
MOONTIDE = ROOT / "build/release/moontide"
STEPS = ROOT / "build/release/moontide-steps"
LONG = os.environ.get("MOONTIDE_LONG") == "1"

# Exit codes by whose trouble it is.
USAGE, JOB, SCRIPT, DATA, SOURCE, DATA_LOSS, SINK, CHECKPOINT, MACHINE = range(2, 11)


def until(holds, seconds=30, what="", every=0.02):
    """Waits until holds() is true and returns it; fails with `what` after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        answer = holds()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds} s: {what or holds}"
        time.sleep(every)


# ---- Kafka

# What our own clients say of brokers that a test stops.
quiet = logging.getLogger("kafka-clients")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False


class Kafka:
    """A broker of our own, or one that runs already."""

    names = 0

    def __init__(self, directory=None, bootstrap=None, settings=()):
        self.directory, self.bootstrap, self.settings = directory, bootstrap, settings
        self.clients = {}

    def start(self):
        sets = [word for setting in self.settings for word in ("--set", setting)]
        done = subprocess.run([ROOT / "scripts/kafka", "start", self.directory, *sets],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=120)
        self.bootstrap = done.stdout.split()[-1]
        return self

    def stop(self, kill=False):
        subprocess.run([ROOT / "scripts/kafka", "stop", self.directory, *(["--kill"] if kill else [])],
                       check=True, timeout=60)

    def client(self, kind, **config):
        if kind not in self.clients or config:
            self.clients[kind] = kind({"bootstrap.servers": self.bootstrap, **config}, logger=quiet)
        return self.clients[kind]

    @property
    def admin(self):
        return self.client(AdminClient)

    @property
    def producer(self):
        if Producer not in self.clients:
            self.client(Producer, **{"linger.ms": 5, "enable.idempotence": True, "message.max.bytes": 4000000,
                                     "queue.buffering.max.messages": 2000000,
                                     "queue.buffering.max.kbytes": 2000000})
        return self.clients[Producer]

    def topic(self, partitions=1, name=None, **config):
        if name is None:
            Kafka.names += 1
            name = f"t{os.getpid()}-{Kafka.names}"
        new = NewTopic(name, partitions, config={k.replace("_", "."): str(v) for k, v in config.items()})
        self.admin.create_topics([new])[name].result(20)
        until(lambda: self.leaders(name) == partitions, what=f"leaders of {name}")
        return name

    def leaders(self, topic):
        parts = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return sum(p.leader >= 0 for p in parts.values())

    def delete_topic(self, name):
        self.admin.delete_topics([name])[name].result(20)
        until(lambda: name not in self.admin.list_topics(timeout=10).topics, what=f"{name} to go")

    def produce(self, topic, messages):
        """Sends dicts of value, key, partition, headers, timestamp; all are stored on return."""
        failed = []

        def delivered(err, _):
            if err:
                failed.append(err)

        producer = self.producer
        for message in messages:
            producer.produce(topic, on_delivery=delivered, **message)
        assert producer.flush(60) == 0 and not failed, failed[:3]

    def produce_values(self, topic, partition, values):
        """Many values to one partition, quickly."""
        failed = []
        count = self.producer.produce_batch(topic, [{"value": v} for v in values], partition,
                                            on_delivery=lambda err, _: err and failed.append(err))
        assert count == len(values)
        assert self.producer.flush(120) == 0 and not failed, failed[:3]

    def watermarks(self, topic, partition=0):
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "watermarks"}, logger=quiet)
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        finally:
            consumer.close()

    def delete_records(self, topic, before):
        """Raises the log start of each partition to the offset given."""
        wanted = [TopicPartition(topic, p, offset) for p, offset in before.items()]
        for future in self.admin.delete_records(wanted).values():
            future.result(20)

    def messages(self, topic, isolation="read_uncommitted"):
        """Everything in the topic now: (partition, offset, key, value)."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.partition.eof": True,
                             "isolation.level": isolation, "enable.auto.commit": False}, logger=quiet)
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        found, ended = [], set()
        while len(ended) < len(partitions):
            message = consumer.poll(10)
            assert message is not None, f"no end of {topic}"
            if message.error():
                ended.add(message.partition())
            else:
                found.append((message.partition(), message.offset(), message.key(), message.value()))
        consumer.close()
        return sorted(found, key=lambda m: m[:2])

    def transactional(self, name, **config):
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": name, **config}, logger=quiet)
        producer.init_transactions(30)
        return producer


class Stream(threading.Thread):
    """A producer that goes on until stopped, and knows where each of its rows went."""

    def __init__(self, kafka, topic, partitions, rows_per_second=2000):
        super().__init__(daemon=True)
        self.kafka, self.topic, self.partitions, self.rate = kafka, topic, partitions, rows_per_second
        self.rows, self.failed, self.ended = {}, [], threading.Event()

    def delivered(self, err, message):
        if err:
            self.failed.append(err)
        else:
            self.rows[message.partition(), message.offset()] = message.value().decode()

    def run(self):
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "linger.ms": 2, "enable.idempotence": True},
                            logger=quiet)
        n = 0
        while not self.ended.wait(0.01):
            for _ in range(self.rate // 100):
                value = json.dumps({"n": n, "part": f"p{n % 3}", "amount": n / 4})
                producer.produce(self.topic, value, partition=n % self.partitions, on_delivery=self.delivered)
                n += 1
            producer.poll(0)
        assert producer.flush(60) == 0

    def stop(self):
        """Ends it; every row that it sent is in `rows` on return."""
        self.ended.set()
        self.join(90)
        assert not self.is_alive() and not self.failed
        return self.rows


def two_partitions(kafka, rows):
    """A new topic with so many rows in each of two partitions, and {(partition, offset): value}."""
    topic, produced = kafka.topic(2), {}
    for p in range(2):
        values = [f'{{"n":{2 * n + p},"part":"p{n % 2}","amount":{n / 4}}}' for n in range(rows)]
        kafka.produce_values(topic, p, values)
        produced.update({(p, n): value for n, value in enumerate(values)})
    return topic, produced


# ---- the program


class Done:
    """A run that ended."""

    def __init__(self, code, out, err, peak_kb, seconds):
        self.code, self.out, self.err, self.peak_kb, self.seconds = code, out, err, peak_kb, seconds

    def progress(self):
        """The progress objects of --json, one a line and nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]

    def __repr__(self):
        return f"<exit {self.code} after {self.seconds:.1f} s>\n{self.err[-3000:]}"


class Running:
    """A run that goes on. Its output goes to files, so that it can be looked at meanwhile."""

    def __init__(self, work, argv, env):
        self.began = time.monotonic()
        n = len(work.runs)
        self.out_path, self.err_path = work.dir / f"run{n}.out", work.dir / f"run{n}.err"
        self.argv = [str(word) for word in argv]
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            cwd=work.dir, env={**os.environ, **env})
        self.pid, self.peak_kb = self.process.pid, 0
        work.runs.append(self)

    def out(self):
        return self.out_path.read_text(errors="backslashreplace")

    def err(self):
        return self.err_path.read_text(errors="backslashreplace")

    def progress(self):
        """The progress objects whose lines are complete."""
        return [json.loads(line) for line in self.out().splitlines(keepends=True) if line.endswith("\n")]

    def alive(self):
        # VmHWM is this process's own; rusage would count what the fork of this test held.
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
            self.peak_kb = max(self.peak_kb, int(found[1])) if found else self.peak_kb
        except (FileNotFoundError, ProcessLookupError):
            pass
        return self.process.poll() is None

    def wait_for(self, holds, seconds=30, what=""):
        """Until holds(self) is true, while it runs. A text is looked for in standard error."""
        test = (lambda run: holds in run.err()) if isinstance(holds, str) else holds

        def look():
            going = self.alive()
            answer = test(self)
            assert answer or going, f"ended before {what or holds!r}: {self.done()}"
            return answer

        return until(look, seconds, what or f"{holds!r} in {self.err()[-2000:]!r}")

    def wait_batches(self, n, seconds=30):
        return self.wait_for(lambda run: len(run.progress()) >= n and run.progress(), seconds, f"{n} batches")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def finish(self, seconds=60):
        """Waits for its own end."""
        try:
            until(lambda: not self.alive(), seconds, f"the end of {self.argv}")
        except AssertionError:
            self.kill()
            raise AssertionError(f"still running after {seconds} s, killed: {self.done()!r}") from None
        return self.done()

    def stop(self, seconds=30):
        """Asks it to end after its batch."""
        self.signal(signal.SIGTERM)
        return self.finish(seconds)

    def done(self):
        return Done(self.process.poll(), self.out(), self.err(), self.peak_kb, time.monotonic() - self.began)


class Work:
    """A folder for one test: its job files, its table, its checkpoint and its runs."""

    def __init__(self, directory, kafka):
        self.dir, self.kafka, self.runs = directory, kafka, []
        self.out, self.checkpoint = directory / "table", directory / "ckpt"

    def job(self, topic, steps="", **more):
        return kafka_job(more.pop("kafka", self.kafka), topic, more.pop("out", self.out),
                         more.pop("checkpoint", self.checkpoint), steps, **more)

    def command(self, *words, env=(), program=(MOONTIDE,)):
        return Running(self, [*program, *words], dict(env))

    def start(self, text, *words, kill=None, fail=None, name="job.lua", env=()):
        """Writes the job file and starts `moontide run` on it, progress as JSON."""
        path = self.dir / name
        path.write_text(text)
        env = {**dict(env), **({"MOONTIDE_KILL": kill} if kill else {}), **({"MOONTIDE_FAIL": fail} if fail else {})}
        return self.command("run", path, "--json", *words, env=env,
                            program=[STEPS if kill or fail else MOONTIDE])

    def run(self, text, *words, seconds=60, **more):
        return self.start(text, *words, **more).finish(seconds)

    def run_ok(self, text, *words, **more):
        done = self.run(text, *words, **more)
        assert done.code == 0, repr(done)
        return done

    def end(self):
        for run in self.runs:
            if run.alive():
                run.kill()


def lua(value):
    """A Python value as a Lua literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{lua(k)}] = {lua(v)}" for k, v in value.items()) + "}"
    return json.dumps(str(value), ensure_ascii=False)


def kafka_job(kafka, topic, out, checkpoint, steps="", trigger="availableNow = true", source=None, sink=None,
              partition_by=(), writer="", form="parquet", each=None):
    """The text of a job: topic → steps → a table, or what the text `each` makes of a batch."""
    reads = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest",
             **(source or {})}
    writes = {**({"path": out} if form == "parquet" and not each else {}), "checkpointLocation": checkpoint, **(sink or {})}
    lines = ['local mt = require "moontide"', "", f"return mt.readStream:format {lua('kafka')}"]
    lines += [f"  :option({lua(k)}, {lua(v)})" for k, v in reads.items() if v is not None]
    lines += ["  :load()", *(f"  {line}" for line in steps.strip().splitlines())]
    if each:
        body = [f"    {line}" for line in each.strip().splitlines()]
        lines += ["  .writeStream:foreachBatch(function(batch, id, state)", *body, "  end)"]
    else:
        lines += [f"  .writeStream:format {lua(form)}"]
    lines += [f"  :option({lua(k)}, {lua(v)})" for k, v in writes.items() if v is not None]
    lines += [f"  :partitionBy({', '.join(map(lua, partition_by))})"] if partition_by else []
    lines += [f"  :trigger {{ {trigger} }}"] if trigger else []
    lines += [f"  {writer}"] if writer else []
    return "\n".join(lines) + "\n"


# ---- the named steps of the built program


def named(*calls):
    """The step names that the core's sources pass to these calls: a new step is tested by itself."""
    call = re.compile(r'\b(?:%s)\([^;]*?"([a-z]+\.[a-z_]+)"' % "|".join(calls), re.DOTALL)
    texts = [p.read_text() for p in sorted((ROOT / "core").rglob("*.c")) if p.stem not in ("step_kill", "step_none")]
    return sorted({name for text in texts for name in call.findall(text)})


def without(steps, *rooms):
    return [s for s in steps if s.split(".")[0] not in rooms]


ALL_STEPS = named("mt_step", "mt_store_write")
# A batch goes by those of its own sink. Here: of files.
KILL_STEPS = without(ALL_STEPS, "kafka", "odbc", "delta")
KAFKA_KILL_STEPS = without(ALL_STEPS, "file", "odbc", "delta")
FAIL_STEPS = without(named("mt_step_fails", "mt_store_write", "files_out_open", "files_out_sync"),
                     "kafka", "odbc", "delta")
# Steps of a new checkpoint, not of a batch.
ONCE_STEPS = {s for s in ALL_STEPS
              if s.startswith("start.") or s in ("store.first", "store.meta", "store.built", "store.renamed")}


# ---- the table, as others see it


def log_path(out, text):
    path = Path(unquote(urlparse(text).path) if text.startswith("file:") else text)
    return path if path.is_absolute() else out / path


def log_entries(out):
    """The table's log: {number: lines}, from the newest .compact on. Fails on a gap."""
    folder = out / "_spark_metadata"
    if not folder.exists():
        return {}
    found = {}
    for path in folder.iterdir():
        number, _, kind = path.name.partition(".")
        if number.isdigit() and kind in ("", "compact"):
            found.setdefault(int(number), {})[kind] = path
    first = max((n for n in found if "compact" in found[n]), default=0)
    numbers = sorted(n for n in found if n >= first)
    assert numbers == list(range(first, first + len(numbers))), f"the log has a gap: {sorted(found)}"
    for n in found:
        assert (n % 10 == 9) == ("compact" in found[n]), f"entry {n} is {list(found[n])}"
    entries = {}
    for n in numbers:
        version, *lines = found[n].get("compact", found[n].get("")).read_text().splitlines()
        assert version == "v1"
        entries[n] = [json.loads(line) for line in lines]
    return entries


def logged_files(out):
    return sorted(log_path(out, line["path"]) for lines in log_entries(out).values() for line in lines)


def listed_files(out):
    """What a reader finds that only lists the folder: leading dots and underscores are not data."""
    if not out.exists():
        return []
    return sorted(p for p in out.rglob("*") if p.is_file()
                  and not any(part[0] in "._" for part in p.relative_to(out).parts))


def stray_files(out):
    """What is neither data that the log names, nor an entry of the log."""
    if not out.exists():
        return []
    known = set(logged_files(out))
    entry = re.compile(r"_spark_metadata/\d+(\.compact)?$")
    return sorted(str(p.relative_to(out)) for p in out.rglob("*")
                  if p.is_file() and p not in known and not entry.match(str(p.relative_to(out))))


def read_files(out, files):
    """The rows of these files with their partition folders as columns."""
    if not files:
        return pa.table({})
    return ds.dataset([str(f) for f in files], format="parquet", partition_base_dir=str(out),
                      partitioning="hive").to_table()


def read_table(out):
    """The rows that count. Fails unless log and folder name the same files and nothing is left over."""
    logged, listed = logged_files(out), listed_files(out)
    assert len(set(logged)) == len(logged), "the log names a file twice"
    assert listed == logged, f"only logged: {set(logged) - set(listed)}; only listed: {set(listed) - set(logged)}"
    assert stray_files(out) == []
    return read_files(out, logged)


def rows_of(table, *columns):
    """Rows as tuples, sorted; None sorts first."""
    names = columns or table.column_names
    rows = zip(*(table.column(c).to_pylist() for c in names)) if table.num_rows else []
    return sorted(rows, key=lambda row: [(v is not None, v) for v in row])


def assert_exactly_once(table, produced):
    """Every produced row once: produced maps (partition, offset) to the value's text."""
    assert table.num_rows == 0 or {"partition", "offset", "value"} <= set(table.column_names)
    places = Counter(zip(table["partition"].to_pylist(), table["offset"].to_pylist())) if table.num_rows else {}
    doubled = [place for place, count in places.items() if count > 1]
    missing = [place for place in produced if place not in places]
    extra = [place for place in places if place not in produced]
    assert not doubled and not missing and not extra, (
        f"doubled {len(doubled)}: {sorted(doubled)[:5]}, missing {len(missing)}: {sorted(missing)[:5]}, "
        f"not produced {len(extra)}: {sorted(extra)[:5]}")
    values = [v.decode() if isinstance(v, bytes) else v for v in table["value"].to_pylist()] if table.num_rows else []
    for place, value in zip(zip(table["partition"].to_pylist(), table["offset"].to_pylist()) if values else [], values):
        assert produced[place] == value, f"{place}: {value!r} instead of {produced[place]!r}"
