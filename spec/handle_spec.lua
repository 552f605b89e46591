-- SPDX-License-Identifier: Apache-2.0
-- Queries that a script drives itself.
local live = require "moontide.live"
local mt = require "moontide"
local support = require "spec.support"

live.begin()

local function numbers(...)
  local rows = {}
  for i, n in ipairs { ... } do rows[i] = { n = n } end
  return rows
end

describe("a query's handle", function()
  local s, query

  before_each(function()
    s = mt.memoryStream "n BIGINT"
    query = s:filter(function(row) return row.n > 1 end).writeStream:format "memory":queryName "some":start()
  end)
  after_each(function() query:stop() end)

  it("moves the query on to all that is there", function()
    s:addData(numbers(1, 2))
    query:processAllAvailable()
    assert.same(numbers(2), mt.table("some"):collect())
    s:addData(numbers(3)):addData(numbers(4))
    assert.equal(1, mt.table("some"):count())
    query:processAllAvailable()
    query:processAllAvailable()
    assert.same(numbers(2, 3, 4), mt.table("some"):collect())
    assert.is_true(query.isActive)
  end)

  it("has Spark's fields", function()
    s:addData(numbers(1, 2))
    query:processAllAvailable()
    s:addData(numbers(3))
    query:processAllAvailable()
    assert.equal("some", query.name)
    assert.equal(36, #query.id)
    assert.equal(36, #query.runId)
    assert.is_string(query.status.message)
    assert.same({ 0, 1 }, { query.recentProgress[1].batchId, query.recentProgress[2].batchId })
    assert.same({ 1, "some", query.id, query.runId, 1 }, { query.lastProgress.batchId, query.lastProgress.name,
      query.lastProgress.id, query.lastProgress.runId, query.lastProgress.numInputRows })
    assert.is_nil(query:exception())
    assert.equal("StreamingQuery", tostring(query))
    assert.matches('StreamingQuery has no "isActiv"; did you mean "isActive"?',
      support.error_of(function() return query.isActiv end), 1, true)
  end)

  it("waits for some seconds", function()
    s:addData(numbers(5))
    assert.is_false(query:awaitTermination(0.05))
    assert.is_false(mt.awaitAny(0.05))
    assert.same(numbers(5), mt.table("some"):collect())
    assert.matches("takes seconds", support.error_of(query.awaitTermination, query, -1))
  end)

  it("stops the query, whose facts stay", function()
    s:addData(numbers(5))
    query:processAllAvailable()
    query:stop()
    assert.is_false(query.isActive)
    assert.is_true(query:awaitTermination())
    assert.equal(0, query.lastProgress.batchId)
    assert.is_string(query.status.message)
    query:stop()
    query:processAllAvailable()
    s:addData(numbers(6))
  end)

  it("raises what the query failed of, and keeps it", function()
    local bad = s:filter(function(row) return row.nothing end).writeStream:format "noop":start()
    s:addData(numbers(1))
    assert.matches('handle_spec.lua:%d+: filter at row 0 of memory%d+: .*"nothing"',
      support.error_of(bad.processAllAvailable, bad))
    assert.is_false(bad.isActive)
    assert.matches('"nothing"', bad:exception())
    assert.matches('"nothing"', support.error_of(bad.awaitTermination, bad))
    assert.matches("Terminated with exception", bad.status.message)
    assert.is_true(query.isActive)
  end)

  it("is driven by any wait, together with the others", function()
    local other = s.writeStream:format "memory":queryName "all":trigger { availableNow = true }:start()
    s:addData(numbers(1, 2))
    assert.is_true(mt.awaitAny())
    assert.is_false(other.isActive)
    assert.is_false(query:awaitTermination(0.02))
    assert.same(numbers(1, 2), mt.table("all"):collect())
    assert.same(numbers(2), mt.table("some"):collect())
  end)

  it("ends by itself where the trigger does", function()
    s:addData(numbers(3))
    local once = s.writeStream:format "memory":queryName "once":trigger { availableNow = true }:start()
    assert.is_true(once:awaitTermination())
    assert.equal(1, mt.table("once"):count())
  end)

  it("keeps its place in a checkpoint that was asked for", function()
    local dir = support.folder {} .. "/ck"
    local function start()
      return s.writeStream:format "memory":queryName "kept":option("checkpointLocation", dir):start()
    end
    local first = start()
    s:addData(numbers(1))
    first:processAllAvailable()
    first:stop()
    s:addData(numbers(2))
    local second = start()
    second:processAllAvailable()
    second:stop()
    assert.equal(first.id, second.id)
    assert.are_not.equal(first.runId, second.runId)
    assert.same(numbers(2), mt.table("kept"):collect())
  end)

  it("is refused under a name that is active", function()
    assert.matches('a query with the name "some" is active already',
      support.error_of(function() s.writeStream:format "noop":queryName "some":start() end))
  end)

  it("says what does not begin, and leaves nothing behind", function()
    assert.matches("memory keeps its rows under the query's name",
      support.error_of(function() s.writeStream:format "memory":start() end))
    local folder = support.folder { ["file"] = "" }
    assert.matches("file", support.error_of(function()
      s.writeStream:format "noop":option("checkpointLocation", folder .. "/file/ck"):start()
    end))
  end)
end)

describe("a memory table", function()
  it("shows its rows and columns", function()
    local s = mt.memoryStream "n BIGINT, tags ARRAY<STRING>"
    local query = s.writeStream:format "memory":queryName "shown":start()
    s:addData { { n = 1, tags = { "a", "b" } }, { n = 2 } }
    query:processAllAvailable()
    local t = mt.table "shown"
    assert.same({ "n", "tags" }, t.columns)
    assert.equal("n BIGINT, tags ARRAY<STRING>", t.schema)
    assert.same({ { n = 1, tags = { "a", "b" } }, { n = 2 } }, t:collect())
    assert.matches("|1  |[a, b]|", t:text(), 1, true)
    query:stop()
    assert.equal(2, mt.table("shown"):count())
    assert.matches('there is no table "shon"', support.error_of(mt.table, "shon"))
  end)
end)
