-- SPDX-License-Identifier: Apache-2.0
local cjson = require "cjson"
local ckpt = require "moontide.cli.ckpt"

--- What the core says of a checkpoint; `changes` over a committed batch 41.
local function show(changes)
  local plan = {
    batchId = 41,
    digest = ("d"):rep(64),
    bundle = ("b"):rep(64),
    batchTimeUs = 1795990694004000,
    attempt = 1,
    sinks = { "parquet /data/paid" },
    sources = { { name = "orders", ["end"] = { orders = { ["0"] = 1234567, ["2"] = 7, ["10"] = 0 } } } },
  }
  local said = {
    checkpoint = "/data/paid.checkpoint",
    queryId = "1a73d1b6",
    lastPlan = 41,
    lastCommit = 41,
    plan = plan,
    committedPlan = plan,
    commit = {
      committedAtMs = 1795990694101,
      rowsRead = 1000,
      sinks = { { sink = "parquet /data/paid", stored = 940 } },
    },
    store = { running = false },
    sinks = {},
    state = {},
  }
  for key, value in pairs(changes or {}) do
    said[key] = value
  end
  return ckpt.text(said)
end

local function contains(text, ...)
  for _, part in ipairs { ... } do
    assert.truthy(text:find(part, 1, true), ("no %q in:\n%s"):format(part, text))
  end
end

describe("ckpt show", function()
  it("says where a query is, partitions in their order", function()
    local text = show()
    contains(text, "last commit  batch 41, 2026-11-29 22:18:14 UTC", "1,000 rows read",
      "940 rows stored by parquet /data/paid", "running      no",
      [[
             orders[0]  1,234,567
             orders[2]  7
             orders[10]  0
]], "goes on with batch 42")
  end)

  it("says what the sink was told to remember", function()
    contains(show(), "its marker: query 1a73d1b6, batch 41", "digest " .. ("d"):rep(64))
  end)

  it("says what becomes of a batch that is not committed", function()
    local text = show { lastCommit = 40 }
    contains(text, "last commit  batch 40", "last plan    batch 41", "not committed",
      "finishes batch 41")
  end)

  it("says nothing of rows that a replayed batch did not read again", function()
    local text = show { commit = { committedAtMs = 1795990694101, rowsRead = cjson.null,
      sinks = { { sink = "parquet /data/paid", stored = 940 } } } }
    contains(text, "not read again: the sink held it already", "940 rows stored by parquet /data/paid")
  end)

  it("shows each save of a foreachBatch with what is there, and the size of its state", function()
    local plan = { batchId = 41, digest = "d", bundle = "b", batchTimeUs = 0, attempt = 1, sinks = { "foreachBatch" },
      sources = {} }
    local text = show { plan = plan, lastCommit = 40,
      state = { { name = "foreachBatch", keys = 5000000, bytes = 4096 } },
      sinks = {
        { sink = "parquet /a", rows = 3, about = { marker = { batch = 41, rows = 3, digest = "ddd" } } },
        { sink = "parquet /a #2", rows = 4, about = { marker = cjson.null, guarantee = "exactly once" } },
        { sink = "parquet /b", rows = 4, about = { error = "no such folder" } },
      } }
    contains(text, "sink         parquet /a\n", "its marker: batch 41, 3 rows, digest ddd",
      "sink         parquet /a #2\n", "4 rows of the batch given, no marker there (exactly once)", "no such folder",
      "state        foreachBatch: 5,000,000 keys, 4,096 bytes", "with the script that began it")
    contains(show { state = { { name = "foreachBatch", keys = 1, bytes = 9 } } }, "foreachBatch: 1 key, 9 bytes")
    contains(show { plan = plan }, "foreachBatch, no save yet")
  end)

  it("says who runs it", function()
    contains(show { store = { running = true, owner = "pid 7 on host" } }, "running      yes: pid 7 on host")
  end)

  it("shows a checkpoint in which nothing happened yet", function()
    local text = show { lastPlan = -1, lastCommit = -1, plan = cjson.null, commit = cjson.null,
      committedPlan = cjson.null }
    contains(text, "last commit  none", "last plan    none", "goes on with batch 0")
  end)

  it("shows a position that is not of Kafka as it is", function()
    local source = { name = "numbers", ["end"] = 3 }
    contains(show { committedPlan = { sources = { source } } }, "next to read from numbers", "3")
  end)

  it("sets thousands apart", function()
    for n, text in pairs { [0] = "0", [999] = "999", [1000] = "1,000", [1234567] = "1,234,567" } do
      assert.equal(text, ckpt.count(n))
    end
  end)
end)
