# SPDX-License-Identifier: Apache-2.0
"""`moontide peek`: the newest records of a topic, and columns that a job can take."""
import json
import re

import pytest

from harness import JOB, SOURCE, USAGE


def peek(work, *words):
    return work.command("peek", *words).finish(30)


def records(out):
    """(place, time, key, value) of each record shown."""
    return [(m[1], m[2], m[3], m[4].replace("\n  ", "\n"))
            for m in re.finditer(r"^(\S+\[\d+\]@\d+)  (.*?)  (no key|key .*)\n  ((?:.*)(?:\n  (?! ).*)*)$", out, re.M)]


def test_the_newest_records_are_shown_the_last_of_them_last(kafka, work):
    topic = kafka.topic(2, retention_ms=-1)
    kafka.produce(topic, [{"value": f"v{n}", "key": f"k{n}" if n % 2 else None, "partition": n % 2,
                           "timestamp": 1_700_000_000_000 + n} for n in range(20)])
    done = peek(work, kafka.bootstrap, topic, "-n", 3)
    assert done.code == 0 and done.err == "", repr(done)
    assert f"topic {topic}, 2 partitions, the newest 3 of 20 offsets" in done.out
    assert records(done.out) == [(f"{topic}[1]@8", "2023-11-14 22:13:20.017 UTC", "key k17", "v17"),
                                 (f"{topic}[0]@9", "2023-11-14 22:13:20.018 UTC", "no key", "v18"),
                                 (f"{topic}[1]@9", "2023-11-14 22:13:20.019 UTC", "key k19", "v19")]
    assert "no columns to guess" in done.out


def test_a_job_takes_the_columns_as_they_are_printed(kafka, work):
    topic = kafka.topic()
    kafka.produce(topic, [{"value": json.dumps({"id": n, "amount": n / 2, "at": "2026-11-30T10:00:00Z", "a b": None})}
                          for n in range(3)])
    done = peek(work, kafka.bootstrap, topic)
    (line,) = re.findall(r"^  (:fromJson\(.*\))$", done.out, re.M)
    assert line == ':fromJson("value", "id BIGINT, amount DOUBLE, at TIMESTAMP, `a b` STRING")'
    work.run_ok(work.job(topic, line))


def test_bytes_that_a_terminal_would_obey_are_shown_as_numbers(kafka, work):
    topic = kafka.topic()
    kafka.produce(topic, [{"value": b"\x1b[31m \xc2\x9b \xc3\xbc\nline"}, {"value": b"\x00\xff"},
                          {"value": None, "key": b"\x07"}, {"value": "ü" * 3000}])
    shown = records(peek(work, kafka.bootstrap, topic).out)
    assert [value for *_, value in shown[:3]] == [r"\x1b[31m \xc2\x9b ü" + "\nline", r"\x00\xff", "null"]
    assert shown[2][2] == r"key \x07"
    assert shown[3][3] == "ü" * 1000 + " … (6,000 bytes)"


def test_marks_of_transactions_and_gaps_do_not_hide_records(kafka, work):
    topic = kafka.topic()
    producer = kafka.transactional(topic)
    for n in range(4):
        producer.begin_transaction()
        producer.produce(topic, f"v{n}")
        producer.commit_transaction(20)
    assert [value for *_, value in records(peek(work, kafka.bootstrap, topic, "-n", 3).out)] == ["v1", "v2", "v3"]


def test_it_signs_in_as_a_job_does(kafka, work):
    topic = kafka.topic()
    kafka.produce(topic, [{"value": "hello"}])
    (work.dir / "password").write_text("bob-pw\n")
    login = ["--option", "kafka.security.protocol=SASL_PLAINTEXT", "--option", "kafka.sasl.mechanism=PLAIN",
             "--option", "kafka.sasl.username=bob", "--option"]
    sasl = (kafka.directory / "sasl").read_text().strip()
    done = peek(work, sasl, topic, *login, f"kafka.sasl.password=file:{work.dir}/password")
    assert done.code == 0 and records(done.out)[0][3] == "hello", repr(done)
    done = peek(work, sasl, topic, *login, "kafka.sasl.password=wrong-pw")
    assert done.code == SOURCE and "authentication" in done.err.lower() and "wrong-pw" not in done.err, repr(done)


def test_an_empty_topic_says_so(kafka, work):
    topic = kafka.topic()
    done = peek(work, kafka.bootstrap, topic)
    assert (done.code, done.out) == (0, f"topic {topic}, 1 partition, no records\n")


def test_a_topic_that_is_not_there_is_told_with_a_suggestion(kafka, work):
    topic = kafka.topic()
    done = peek(work, kafka.bootstrap, topic[:-1] + "x")
    assert done.code == SOURCE and "does not exist" in done.err and "did you mean" in done.err, repr(done)


def test_a_mistyped_setting_is_told_with_a_suggestion(work):
    done = peek(work, "127.0.0.1:1", "orders", "--option", "kafka.securty.protocol=SSL")
    assert done.code == JOB and 'did you mean "kafka.security.protocol"?' in done.err, repr(done)


def test_a_broker_that_is_away_is_told_with_address_and_reason(work):
    done = peek(work, "127.0.0.1:1", "orders")
    assert done.code == SOURCE and done.out == "", repr(done)
    assert "no answer within 10 seconds" in done.err and "127.0.0.1:1" in done.err and "refused" in done.err


@pytest.mark.parametrize("words, said", [(["localhost:9092"], "TOPIC"), (["b:1", "a,b"], "one topic"),
                                         (["b:1", "t", "--option", "security.protocol=SSL"], "kafka.NAME=VALUE"),
                                         (["b:1", "t", "--option", "kafka.sasl.password=file:/no/such"], "/no/such"),
                                         (["b:1", "t", "-n", "0"], "'0'"), (["b:1", "t", "-n", "10001"], "10000")])
def test_a_wrong_usage_is_told(work, words, said):
    done = peek(work, *words)
    assert done.code == USAGE and said in done.err and done.out == "", repr(done)
