-- SPDX-License-Identifier: Apache-2.0
-- mt.job: the queries of a job file, tried without its servers.
local live = require "moontide.live"
local mt = require "moontide"
local support = require "spec.support"

live.begin()

local KAFKA = [[
local mt = require "moontide"
local function topic(name, known)
  local r = mt.readStream:format "kafka":option("kafka.bootstrap.servers", "localhost:9"):option("subscribe", name)
  if known then r = r:name(known) end
  return r:load():select("value", "offset")
end
]]

local function job(text, given, more)
  local files = more or {}
  files["job.lua"] = text
  return mt.job(support.folder(files) .. "/job.lua", given)
end

local function stream(...)
  local s = mt.memoryStream "value STRING, offset BIGINT"
  for i, value in ipairs { ... } do s:addData { { value = value, offset = i } } end
  return s
end

-- The values of a table, after the query read all.
local function values(query, name)
  query:processAllAvailable()
  local list = {}
  for i, row in ipairs(mt.table(name):collect()) do list[i] = row.value end
  query:stop()
  return list
end

describe("mt.job", function()
  it("gives all queries of a file, with streams for sources by topic or name", function()
    local a, b, c = job(KAFKA .. [[
return { topic("orders"):filter(function(row) return row.offset > 1 end).writeStream:format "parquet"
    :option("path", "/nowhere/x"):option("checkpointLocation", "/nowhere/ck"):partitionBy("offset"):queryName "a",
  topic("others", "mine").writeStream:format "console" }]],
      { sources = { orders = stream("x", "y"), mine = stream "z" }, sink = "memory" })
    assert.is_nil(c)
    assert.same({ "y" }, values(a:start(), "a"))
    assert.same({ "z" }, values(b:start(), "query2"))
  end)

  it("gives a union of two topics the stream of each", function()
    local orders, returns = stream("a", "b"), stream "c"
    local query = job(KAFKA .. [[
return topic("orders"):union(topic("back", "returns")).writeStream:format "parquet":option("path", "/nowhere/x")
  :option("checkpointLocation", "/nowhere/ck"):queryName "both"]],
      { sources = { orders = orders, returns = returns }, sink = "memory" }):start()
    query:processAllAvailable()
    returns:addData { { value = "d" } }
    query:processAllAvailable()
    local progress = query.lastProgress
    assert.equal(0, progress.sources[1].numInputRows)
    assert.equal(1, progress.sources[2].numInputRows)
    orders:addData { { value = "e" } }
    returns:addData { { value = "f" } }
    assert.same({ "a", "b", "c", "d", "e", "f" }, values(query, "both"))
  end)

  it("runs the function of a foreachBatch as it is, with a state of its own", function()
    local query = job(KAFKA .. [[
return topic("orders").writeStream:foreachBatch(function(batch, id, state)
  state:put("rows", (state:get "rows" or 0) + batch:count())
  batch:map("id BIGINT, rows BIGINT", function() return { id = id, rows = state:get "rows" } end)
    .write:format "memory":name "counted":save()
end):option("checkpointLocation", "/nowhere/ck"):queryName "q"]],
      { sources = { orders = stream("x", "y") }, sink = "memory" }):start()
    query:processAllAvailable()
    assert.equal(2, query.lastProgress.numInputRows)
    assert.same({ { id = 0, rows = 2 }, { id = 0, rows = 2 } }, mt.table("counted"):collect())
    query:stop()
  end)

  it("tells where a foreachBatch function fails", function()
    local query = job(KAFKA .. [[
return topic("orders").writeStream:foreachBatch(function(batch)
  batch.write:format "memory":save()
end):option("checkpointLocation", "/nowhere/ck")]], { sources = { orders = stream("x") } }):start()
    assert.matches('job.lua:8: foreachBatch, batch 0: save to memory: say what the table is called',
      support.error_of(query.processAllAvailable, query), 1, true)
  end)

  it("leaves a job as it is when nothing stands in", function()
    local query = job(KAFKA .. 'return topic("orders").writeStream:format "noop":queryName "q"')
    assert.equal("DataStreamWriter", tostring(query))
  end)

  it("names a source that the job does not have, and two of one name", function()
    local text = KAFKA .. 'return topic("orders").writeStream:format "noop"'
    local problem = support.error_of(function() job(text, { sources = { orders = stream(), oders = stream() } }) end)
    assert.matches('mt.job: the job has no source "oders"; did you mean "orders"?', problem, 1, true)
    assert.matches("mtjob_spec.lua:", problem, 1, true)
    assert.matches('job.lua:%d+: two sources of the job have the name "orders"; give each one of its own with :name',
      support.error_of(job, KAFKA .. 'local a, b = topic "orders", topic "orders"\nreturn a.writeStream:format "noop"',
        { sources = { orders = stream() } }))
  end)

  it("refuses options that it has not", function()
    for words, given in pairs {
      ['mt.job has no option "source"; did you mean "sources"?'] = { source = {} },
      ['mt.job: sink is "memory"'] = { sink = "console" },
      ['mt.job: source "orders" is a table; give a stream'] = { sources = { orders = {} } },
    } do
      assert.matches(words, support.error_of(job, "return 1", given), 1, true)
    end
  end)

  it("tells a fault of the job at its line, also of a column the stream has not", function()
    assert.matches('job.lua:%d+: select: there is no column "offset"', support.error_of(job,
      KAFKA .. 'return topic("orders").writeStream:format "noop"',
      { sources = { orders = mt.memoryStream "value STRING" } }))
    assert.matches("a job file does not start its query", support.error_of(job,
      KAFKA .. 'return topic("orders").writeStream:format "noop":start()', { sources = { orders = stream() } }))
  end)

  it("leaves nothing of a job behind, so that another may follow", function()
    local function twice(word)
      return job(KAFKA .. [[
count = 0
local lib = require "lib.word"
mt.conf("more", "")
return topic("orders"):filter(function(row)
  count = count + 1
  return row.value == lib.word .. require("lib.word").word .. mt.conf("more", "")
end).writeStream:format "noop":queryName("q" .. lib.word)]],
        { sources = { orders = stream("aa", "bb!") }, sink = "memory", set = { more = word == "b" and "!" or "" } },
        { ["lib/word.lua"] = ("return { word = %q }"):format(word) })
    end
    local print_before, loaders, file = print, #package.loaders, rawget(mt, "file")
    local a, b = twice "a":start(), twice "b":start()
    assert.same({ "bb!" }, values(b, "qb"))
    assert.same({ "aa" }, values(a, "qa"))
    assert.same({ print_before, loaders }, { print, #package.loaders })
    assert.is_nil(package.loaded["lib.word"])
    assert.is_nil(rawget(_G, "count"))
    assert.equal(file, rawget(mt, "file"))
  end)
end)
