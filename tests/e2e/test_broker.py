# SPDX-License-Identifier: Apache-2.0
"""A broker that is away, comes back, or no longer has what was planned."""
import os
import re
import signal
import socket
import threading
from collections import Counter

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, OffsetSpec

from harness import DATA_LOSS, SOURCE, Kafka, Stream, Work, assert_exactly_once, read_table, rows_of, until

PLACES = ':select("partition", "offset", "value")'


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A broker that a test may kill, if it starts it again."""
    broker = Kafka(tmp_path_factory.mktemp("own-kafka")).start()
    yield broker
    broker.stop(kill=True)


def closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def lines_with(run, *words):
    return [line for line in run.err().splitlines() if all(w.lower() in line.lower() for w in words)]


def test_a_broker_that_cannot_be_reached_is_named_with_the_reason_every_five_seconds(kafka, work):
    refused = f"127.0.0.1:{closed_port()}"
    cases = {
        "nobody.invalid:9092": ({}, ["nobody.invalid:9092"], r"resolve|not known|lookup"),
        refused: ({}, [refused], r"refused"),
        kafka.bootstrap: ({"kafka.security.protocol": "SSL"}, [kafka.bootstrap], r"ssl|tls"),
    }
    runs = []
    for n, (address, (options, _, _)) in enumerate(cases.items()):
        place = Work(work.dir / str(n), kafka)
        place.dir.mkdir()
        work.runs.append(place.start(place.job("t", source={"kafka.bootstrap.servers": address, **options},
                                               trigger=None)))
        runs.append(work.runs[-1])
    for run, (_, words, reason) in zip(runs, cases.values()):
        run.wait_for(lambda r: len(lines_with(r, *words)) >= 3, 25, f"three lines naming {words}")
        found = lines_with(run, *words)
        assert all(re.search(reason, line, re.I) for line in found), found
        times = [f for line in found for f in re.findall(r"(\d\d):(\d\d):(\d\d)", line)[:1]]
        seconds = [int(h) * 3600 + int(m) * 60 + int(s) for h, m, s in times]
        gaps = [(b - a) % 86400 for a, b in zip(seconds, seconds[1:])]
        assert not gaps or all(4 <= gap <= 7 for gap in gaps), f"one line every 5 s: {found}"
        assert len(run.err().splitlines()) < 20, f"more than one line every 5 s: {run.err()}"
    for run in runs:
        done = run.stop(5)
        assert done.code == 0 and done.out == "", repr(done)


class HangsUp(threading.Thread):
    """A listener that answers what it does not understand by a TLS alert, as one for TLS does, or not at all."""

    def __init__(self, alert=bytes.fromhex("15030300020216")):
        super().__init__(daemon=True)
        self.alert = alert
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self):
        while True:
            client, _ = self.listener.accept()
            with client:
                client.recv(100)
                client.sendall(self.alert)


@pytest.mark.parametrize("listener", ["tls", "sasl"])
def test_a_plain_client_at_a_listener_for_tls_or_a_login_is_told_of_the_protocol(own, work, listener):
    hangs_up = HangsUp()
    hangs_up.start()
    address = hangs_up.address if listener == "tls" else (own.directory / "sasl").read_text().strip()
    run = work.start(work.job("t", source={"kafka.bootstrap.servers": address}, trigger=None))
    run.wait_for(lambda r: lines_with(r, address, "Disconnected", "kafka.security.protocol is plaintext", "SASL_SSL"))
    assert run.stop().code == 0


def test_a_tls_client_whose_listener_hangs_up_is_told_of_the_other_protocols(work):
    hangs_up = HangsUp(alert=b"")
    hangs_up.start()
    source = {"kafka.bootstrap.servers": hangs_up.address, "kafka.security.protocol": "SSL"}
    run = work.start(work.job("t", source=source, trigger=None))
    run.wait_for(lambda r: lines_with(r, hangs_up.address, "kafka.security.protocol is ssl",
                                      "does it want PLAINTEXT, SASL_PLAINTEXT or SASL_SSL?"))
    assert run.stop().code == 0


def test_a_group_is_told_to_have_no_effect_once(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a"])
    run = work.start(work.job(topic, PLACES, source={"kafka.group.id": "g"}))
    done = run.finish()
    assert done.code == 0 and len(lines_with(run, "kafka.group.id", "no effect")) == 1, repr(done)


def test_behind_a_backlog_that_was_fetched_a_broker_that_is_away_stays_away(own, work):
    topic = own.topic()
    own.produce_values(topic, 0, ["x"] * 40000)
    slow = PLACES + """:filter(function(row)
  if row.offset % 100 == 0 then os.execute "sleep 0.1" end
  return true
end)"""
    run = work.start(work.job(topic, slow, kafka=own, trigger=None, source={"maxOffsetsPerTrigger": 100}))
    run.wait_batches(2)
    own.stop(kill=True)
    said = run.wait_for(lambda r: len(found := lines_with(r, "waiting for", own.bootstrap)) >= 3 and found, 40)
    going = len(run.progress())
    assert all("refused" in line for line in said[1:]) and not lines_with(run, "going on"), run.err()
    run.wait_batches(going + 2)
    own.start()
    run.wait_for("going on", 40)
    assert run.stop().code == 0


def test_a_broker_that_comes_up_late_is_used(own, work):
    topic = own.topic()
    own.produce_values(topic, 0, ["a", "b"])
    own.stop()
    run = work.start(work.job(topic, PLACES, kafka=own, trigger=None))
    run.wait_for(own.bootstrap, 20)
    own.start()
    run.wait_batches(1, 60)
    assert run.stop().code == 0
    assert_exactly_once(read_table(work.out), {(0, 0): "a", (0, 1): "b"})


def test_a_broker_killed_while_the_job_runs_is_waited_for_and_nothing_is_lost(own, work):
    topic = own.topic(2, min_insync_replicas=1)
    stream = Stream(own, topic, 2, rows_per_second=1000)
    stream.start()
    run = work.start(work.job(topic, PLACES, kafka=own, trigger=None, source={"kafka.isolation.level": "read_committed"}))
    run.wait_batches(3)
    own.stop(kill=True)
    run.wait_for(own.bootstrap, 20, "a line that names the broker")
    before = len(run.progress())
    own.start()
    run.wait_batches(before + 3, 60)
    produced = stream.stop()
    run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) >= len(produced), 60, "all rows")
    assert run.stop().code == 0
    assert_exactly_once(read_table(work.out), produced)


def test_a_broker_that_stops_answering_is_waited_for(own, work):
    topic = own.topic()
    own.produce_values(topic, 0, ["a"])
    run = work.start(work.job(topic, PLACES, kafka=own, trigger=None))
    run.wait_batches(1)
    pid = int((own.directory / "1/pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        run.wait_for(own.bootstrap, 40, "a line that names the broker")
    finally:
        os.kill(pid, signal.SIGCONT)
    own.produce_values(topic, 0, ["b"])
    run.wait_batches(2, 60)
    assert run.stop().code == 0
    assert_exactly_once(read_table(work.out), {(0, 0): "a", (0, 1): "b"})


def test_a_broker_killed_between_plan_and_read_is_waited_for(own, work):
    topic = own.topic()
    own.produce_values(topic, 0, [f"v{n}" for n in range(50)])
    job = work.job(topic, PLACES, kafka=own)
    assert work.run(job, kill="plan.after:0").code == -9
    own.stop(kill=True)
    run = work.start(job)
    run.wait_for(own.bootstrap, 20)
    own.start()
    assert run.finish(90).code == 0
    assert_exactly_once(read_table(work.out), {(0, n): f"v{n}" for n in range(50)})


def test_a_topic_that_does_not_exist_is_an_error_that_names_it(kafka, work):
    done = work.run(work.job("no-such-topic-here", PLACES), seconds=40)
    assert done.code == SOURCE and "no-such-topic-here" in done.err, repr(done)
    assert "no-such-topic-here" not in kafka.admin.list_topics(timeout=10).topics, "it was created by asking"


def test_wrong_credentials_are_an_error_that_names_the_broker(kafka, work):
    sasl = (kafka.directory / "sasl").read_text().strip()
    login = {"kafka.bootstrap.servers": sasl, "kafka.security.protocol": "SASL_PLAINTEXT",
             "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "bob"}
    job = work.job("t", source={**login, "kafka.sasl.password": "PASSWORD"}, trigger=None)
    job = job.replace('"PASSWORD"', 'mt.secret "word"')
    done = work.run(job, "--set", "word=wrong-word", seconds=30)
    assert done.code == SOURCE and sasl in done.err and "authentication" in done.err.lower(), repr(done)
    assert "wrong-word" not in done.err


# ---- data loss


def test_rows_deleted_before_they_were_read_stop_the_query_and_are_counted(kafka, work):
    topic = kafka.topic(2)
    for p in range(2):
        kafka.produce_values(topic, p, [f"{p}.{n}" for n in range(100)])
    job = work.job(topic, PLACES)
    work.run_ok(job)
    for p in range(2):
        kafka.produce_values(topic, p, [f"{p}.{n}" for n in range(100, 200)])
    kafka.delete_records(topic, {1: 150})
    done = work.run(job)
    assert done.code == DATA_LOSS, repr(done)
    for word in (topic, "100", "150", "50", "failOnDataLoss"):
        assert word in done.err, f"{word!r} is not in: {done.err}"
    assert re.search(rf"{topic}\D{{1,20}}1\b", done.err), "the partition is not named"
    table = read_table(work.out)
    assert_exactly_once(table, {(p, n): f"{p}.{n}" for p in range(2) for n in range(100)})


def test_with_fail_on_data_loss_off_the_query_goes_on_and_counts_what_is_gone(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [str(n) for n in range(100)])
    job = work.job(topic, PLACES, source={"failOnDataLoss": False})
    work.run_ok(job)
    kafka.produce_values(topic, 0, [str(n) for n in range(100, 200)])
    kafka.delete_records(topic, {0: 150})
    done = work.run_ok(job)
    lost = [line for line in done.err.splitlines() if topic in line and "50" in line and "100" in line and "150" in line]
    assert lost, done.err
    assert_exactly_once(read_table(work.out), {(0, n): str(n) for n in [*range(100), *range(150, 200)]})


def test_rows_deleted_between_plan_and_replay_stop_the_query(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [str(n) for n in range(100)])
    job = work.job(topic, PLACES)
    assert work.run(job, kill="plan.after:0").code == -9
    kafka.delete_records(topic, {0: 40})
    done = work.run(job)
    assert done.code == DATA_LOSS and "40" in done.err, repr(done)
    going_on = work.job(topic, PLACES, source={"failOnDataLoss": False})
    work.run_ok(going_on)
    assert_exactly_once(read_table(work.out), {(0, n): str(n) for n in range(40, 100)})


def recreate(kafka, topic, values):
    kafka.delete_topic(topic)

    def created():
        try:
            return kafka.topic(name=topic)
        except Exception:  # the old one is still being deleted
            return None

    until(created, 30, f"{topic} anew", every=0.2)
    kafka.produce_values(topic, 0, values)


@pytest.mark.parametrize("rows", [10, 300], ids=["shorter", "longer"])
def test_a_topic_deleted_and_created_anew_is_not_read_as_the_old_one(kafka, work, rows):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"old {n}" for n in range(100)])
    job = work.job(topic, PLACES)
    work.run_ok(job)
    recreate(kafka, topic, [f"new {n}" for n in range(rows)])
    done = work.run(job, seconds=30)
    assert done.code == DATA_LOSS and topic in done.err, repr(done)
    assert read_table(work.out).num_rows == 100
    work.run_ok(work.job(topic, PLACES, source={"failOnDataLoss": False}))
    values = [v.decode() for v in read_table(work.out)["value"].to_pylist()]
    assert sorted(values) == sorted([f"old {n}" for n in range(100)] + [f"new {n}" for n in range(rows)])


@pytest.mark.parametrize("trigger", [None, 'processingTime = "1 second"'], ids=["default", "every second"])
def test_a_topic_made_anew_while_the_job_runs_does_not_leave_it_silent(kafka, work, trigger):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"old {n}" for n in range(100)])
    run = work.start(work.job(topic, PLACES, trigger=trigger))
    run.wait_batches(1)
    recreate(kafka, topic, [f"new {n}" for n in range(10)])
    done = run.finish(40)
    assert done.code == DATA_LOSS and topic in done.err, repr(done)
    assert read_table(work.out).num_rows == 100


def test_a_topic_made_anew_between_plan_and_replay_is_not_read_as_the_old_one(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"old {n}" for n in range(100)])
    job = work.job(topic, PLACES)
    assert work.run(job, kill="plan.after:0").code == -9
    recreate(kafka, topic, ["new"] * 300)
    done = work.run(job, seconds=30)
    assert done.code == DATA_LOSS and topic in done.err and "anew" in done.err, repr(done)
    assert not work.out.exists() or read_table(work.out).num_rows == 0


@pytest.mark.parametrize("step", ["plan.after:0", "commit.after:0"], ids=["planned", "committed"])
def test_a_log_cut_below_what_was_planned_or_read_is_not_waited_for(own, work, step):
    topic = own.topic()
    for n in range(10):  # a record batch each, so that the log can be cut between them
        own.produce_values(topic, 0, [str(n)] * 10)
    job = work.job(topic, PLACES, kafka=own)
    assert work.run(job, kill=step).code == -9
    own.stop(kill=True)
    (log,) = own.directory.glob(f"1/data/{topic}-0/*.log")
    os.truncate(log, log.stat().st_size // 2)
    own.start()
    own.clients.pop(Producer)  # an idempotent one would miss its own records
    kept = own.watermarks(topic)[1]
    assert 0 < kept < 100
    done = work.run(job, seconds=30)
    assert done.code == DATA_LOSS, repr(done)
    for word in (topic, str(kept), str(100 - kept), "cut"):
        assert word in done.err, f"{word!r} is not in: {done.err}"
    # Going on: what is left of the planned range, then what comes.
    going_on = work.job(topic, PLACES, kafka=own, source={"failOnDataLoss": False})
    warned = work.run_ok(going_on).err
    assert "since the cut" in warned and "skipped" in warned and f"offsets {kept} to 99 are gone" in warned
    own.produce_values(topic, 0, ["new"])
    work.run_ok(going_on)
    values = [v.decode() for v in read_table(work.out)["value"].to_pylist()]
    read = 100 if step == "commit.after:0" else kept
    assert sorted(values) == sorted([str(n) for n in range(read // 10) for _ in range(10)] + ["new"])


def test_new_partitions_are_read_from_their_beginning(kafka, work):
    topic = kafka.topic(1)
    kafka.produce_values(topic, 0, ["a"])
    job = work.job(topic, PLACES)
    work.run_ok(job)
    kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    until(lambda: kafka.leaders(topic) == 3)
    kafka.clients.pop(Producer)  # it knows of one partition
    kafka.produce(topic, [{"value": f"p{p}", "partition": p} for p in (1, 2)])
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), {(0, 0): "a", (1, 0): "p1", (2, 0): "p2"})


# ---- how far behind


def ends_of(kafka, topic, partitions, level=IsolationLevel.READ_UNCOMMITTED):
    """What the broker itself says of the ends of a topic, as its own tools ask it."""
    asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
    answers = kafka.admin.list_offsets(asked, isolation_level=level)
    return {place.partition: answer.result(20).offset for place, answer in answers.items()}


def lags(progress):
    """Per partition, from the positions; the three figures of the same line must be of them."""
    (source,) = progress["sources"]
    ((_, latest),), ((_, end),) = source["latestOffset"].items(), source["endOffset"].items()
    behind = [latest[p] - end[p] for p in latest]
    assert source["metrics"] == {"minOffsetsBehindLatest": str(min(behind)), "maxOffsetsBehindLatest": str(max(behind)),
                                 "avgOffsetsBehindLatest": f"{sum(behind) / len(behind):.1f}"}
    return dict(zip(map(int, latest), behind))


@pytest.mark.parametrize("trigger", [None, 'processingTime = "300 milliseconds"'], ids=["default", "processingTime"])
def test_how_far_behind_a_query_is_agrees_with_the_broker(kafka, work, trigger):
    topic, sizes = kafka.topic(3), (5, 40, 0)
    for p, n in enumerate(sizes):
        kafka.produce_values(topic, p, ["x"] * n)
    source = {"maxOffsetsPerTrigger": 20}

    def told(line):
        return line["sources"][0]["latestOffset"][topic]

    one = work.run_ok(work.job(topic, PLACES, trigger=trigger, source=source), "--max-batches", "1")
    read = Counter(p for p, _ in rows_of(read_table(work.out), "partition", "offset"))
    assert lags(one.progress()[0]) == {p: end - read[p] for p, end in ends_of(kafka, topic, 3).items()}

    # Under load: a line says of the ends what came with the last records, so it is never ahead of the
    # broker, and what the broker said once a later line has.
    stream = Stream(kafka, topic, 3, rows_per_second=600)
    stream.start()
    run = work.start(work.job(topic, PLACES, trigger=trigger))
    for _ in range(3):
        before = ends_of(kafka, topic, 3)
        line = run.wait_for(lambda r: next((line for line in r.progress() if all(
            before[p] <= told(line)[str(p)] for p in range(3))), None), what=f"a line that knows of {before}")
        after = ends_of(kafka, topic, 3)
        assert all(told(line)[str(p)] <= after[p] for p in range(3)), (told(line), after)
        lags(line)
    stream.stop()
    ends = ends_of(kafka, topic, 3)
    whole = run.wait_for(lambda r: r.progress()[-1]["sources"][0]["endOffset"][topic] == {
        str(p): end for p, end in ends.items()} and r.progress(), what=f"all rows up to {ends}")
    assert set(lags(whole[-1]).values()) == {0}
    assert run.stop().code == 0


@pytest.mark.parametrize("trigger", [None, 'processingTime = "300 milliseconds"'], ids=["default", "processingTime"])
def test_rows_of_an_open_transaction_that_are_not_read_are_no_lag(kafka, work, trigger):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 10)
    producer = kafka.transactional(f"open-{topic}")
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, "not yet")
    producer.flush(20)
    assert (ends_of(kafka, topic, 1), ends_of(kafka, topic, 1, IsolationLevel.READ_COMMITTED)) == ({0: 15}, {0: 10})
    job = work.job(topic, PLACES, trigger=trigger, source={"kafka.isolation.level": "read_committed"})
    (line,) = work.run_ok(job, "--max-batches", "1").progress()
    assert lags(line) == {0: 0} and line["numInputRows"] == 10
    producer.abort_transaction()
