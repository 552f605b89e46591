# SPDX-License-Identifier: Apache-2.0
"""A signal finishes the batch; a second one ends at once, and the restart recovers."""
import signal

import pytest

from harness import assert_exactly_once, read_table

PLACES = ':select("partition", "offset", "value")'
# A batch of this step takes seconds: long enough to be met by a signal.
SLOW = ''':filter(function(row)
  if row.offset == 0 then io.stderr:write("in the batch\\n") end
  local till = os.clock() + 0.02
  while os.clock() < till do end
  return true
end)
''' + PLACES


@pytest.fixture
def rows(kafka):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"v{n}" for n in range(100)])
    return topic, {(0, n): f"v{n}" for n in range(100)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_finishes_the_batch_and_starts_no_other(work, rows, number):
    topic, produced = rows
    run = work.start(work.job(topic, SLOW, trigger=None, source={"maxOffsetsPerTrigger": 50}))
    run.wait_for("in the batch")
    assert run.progress() == []
    run.signal(number)
    done = run.finish()
    assert done.code == 0, repr(done)
    assert [p["batchId"] for p in done.progress()] == [0]
    assert read_table(work.out).num_rows == done.progress()[0]["numInputRows"]


def test_a_second_signal_ends_at_once_and_the_restart_recovers(work, rows):
    topic, produced = rows
    job = work.job(topic, SLOW, trigger=None)
    run = work.start(job)
    run.wait_for("in the batch")
    run.signal(signal.SIGTERM)
    run.signal(signal.SIGTERM)  # may arrive as one with the first
    while run.alive():
        run.signal(signal.SIGTERM)
        run.process.poll()
    done = run.done()
    assert done.seconds < 10 and done.code != 0 and done.progress() == [], repr(done)
    work.run_ok(work.job(topic, PLACES))
    assert_exactly_once(read_table(work.out), produced)


def test_a_signal_while_waiting_for_data_ends_the_run(work, kafka):
    run = work.start(work.job(kafka.topic(), PLACES, trigger='processingTime = "1 hour"'))
    run.wait_for(lambda r: (work.checkpoint / "data.mdb").exists(), what="the checkpoint")
    done = run.stop(5)
    assert done.code == 0 and done.out == "", repr(done)
