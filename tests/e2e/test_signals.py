# SPDX-License-Identifier: Apache-2.0
"""A signal finishes the batch; a second one ends at once, and the restart recovers."""
import signal

import pytest

from harness import assert_exactly_once, lua, read_table

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


def interrupt(run):
    """Signals until it is gone; two that come at once may arrive as one."""
    while run.alive():
        run.signal(signal.SIGTERM)
        run.process.poll()
    return run.done()


HANGS = {"empty loop": "while true do end", "pattern": "local _ = ('a'):rep(50):find(('a-'):rep(25) .. 'b')"}


@pytest.mark.parametrize("hang", HANGS)
def test_a_foreach_batch_that_hangs_is_told_and_can_be_ended(work, rows, hang):
    topic, produced = rows
    first, second = work.dir / "first", work.dir / "second"
    body = f"""
state:put("rows", (state:get "rows" or 0) + batch:count())
batch.write:format "parquet":save {lua(first)}
MIDDLE
batch.write:format "parquet":save {lua(second)}"""
    mended = work.job(topic, PLACES, each=body.replace("MIDDLE", ""))
    run = work.start(work.job(topic, PLACES, each=body.replace("MIDDLE", HANGS[hang])))
    if hang == "empty loop":
        run.wait_for("batch 0 has been inside the script for 10 s")
        assert run.err().count("inside the script") == 1 and "interrupt twice" in run.err()
    else:
        run.wait_for(lambda r: (first / "_spark_metadata/0").exists(), what="the first save")
    assert interrupt(run).code != 0
    # The first table holds the batch, so the script that hangs would end it: the user decides.
    again = work.start(mended)
    again.wait_for("goes on with it")
    assert interrupt(again).code != 0
    work.run_ok(mended, "--finish-with-new-script")
    for out in first, second:
        assert_exactly_once(read_table(out), produced)
