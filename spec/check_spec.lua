-- SPDX-License-Identifier: Apache-2.0
local check = require "moontide.cli.check"
local paths = require "moontide.paths"
local support = require "spec.support"

local function facts_of(files, set)
  if type(files) == "string" then files = { ["job.lua"] = files } end
  local folder = support.folder(files)
  local facts = support.with_globals(function() return check.facts(folder .. "/job.lua", { set = set }) end)
  return facts, facts.queries and facts.queries[1], folder
end

local GOOD = [[
local mt = require "moontide"
return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", "localhost:9")
  :option("subscribe", "orders")
  :load()
  :fromJson("value", "id BIGINT, day DATE", { keep = { "offset" } })
  :filter(function(row) return row.id > 0 end)
  :drop "offset"
  .writeStream:format "parquet"
  :option("path", "/tmp/table")
  :option("checkpointLocation", "/tmp/ck")
  :partitionBy "day"
  :trigger { processingTime = "1 second" }
  :queryName "orders"]]

describe("check", function()
  it("tells source, steps with their columns, and sink", function()
    local whole, facts = facts_of(GOOD)
    assert.same({}, whole.errors)
    assert.equal("orders", facts.name)
    assert.equal("kafka", facts.sources[1].format)
    assert.same({ "value", "offset" }, { unpack(facts.sources[1].reads) })
    assert.equal("localhost:9", facts.sources[1].options["kafka.bootstrap.servers"])
    local kinds, lines = {}, {}
    for i, step in ipairs(facts.steps) do kinds[i], lines[i] = step.kind, step.line end
    assert.same({ "fromJson", "filter", "drop" }, kinds)
    assert.same({ 6, 7, 8 }, lines)
    assert.same({ { name = "id", type = "BIGINT" }, { name = "day", type = "DATE" } },
      { facts.steps[3].columns[1], facts.steps[3].columns[2] })
    assert.equal("parquet", facts.sink.format)
    assert.is_true(facts.sink.exactlyOnce)
    assert.equal("/tmp/ck", facts.checkpoint)
    assert.equal(1000, facts.trigger.intervalMs)
  end)

  it("shows a foreachBatch by its function, which it does not call", function()
    local facts = facts_of [[
local mt = require "moontide"
return mt.memoryStream "n INT".writeStream
  :foreachBatch(function() error "called" end):option("checkpointLocation", "/tmp/ck")]]
    assert.same({}, facts.errors)
    local text = check.text(facts)
    assert.matches("sink        foreachBatch, function at [^\n]*job.lua:3\n", text)
    assert.matches("exactly once to each sink that can; which they are is seen when it runs", text, 1, true)
    assert.same({}, facts.warnings or {})
  end)

  it("warns of many small files and of at least once", function()
    assert.matches("many small files", facts_of(GOOD).queries[1].warnings[1])
    local whole, facts = facts_of((GOOD:gsub('"parquet"', '"console"'):gsub("  :option.\"path\"[^\n]*\n", "")
      :gsub("  :partitionBy[^\n]*\n", "")))
    assert.same({}, whole.errors)
    assert.matches("console shows a batch again when it is replayed", facts.warnings[1])
  end)

  it("prints it for people", function()
    local text = check.text((facts_of(GOOD)))
    for _, words in ipairs { "source      kafka orders", "read: value, offset", "step 1      fromJson(value)",
      "id BIGINT, day DATE, offset BIGINT", "the same columns", "sink        parquet, exactly once",
      "a folder for each day", "trigger     every 1 second", "checkpoint  /tmp/ck" } do
      assert.matches(words, text, 1, true)
    end
  end)

  it("tells into how many files a batch goes", function()
    assert.matches("            3 files a batch, by id, day\n",
      check.text((facts_of((GOOD:gsub('  :drop "offset"', '%0:repartition(3, "id", "day")'))))), 1, true)
  end)

  it("warns of the trigger that knows no limits", function()
    local _, facts = facts_of((GOOD:gsub(":trigger {.-}", ":trigger { once = true }")))
    assert.matches("availableNow keeps to the limits", table.concat(facts.warnings, "\n"))
  end)

  it("finds all faults at once, each at its line, without follow-ups", function()
    local facts, _, folder = facts_of [[
local mt = require "moontide"
local orders = mt.readStream:format "kafka"
  :option("kafka.boostrap.servers", mt.conf "brokers")
  :option("subscribe", "orders")
  :load()
local good = orders:filter(function() return true end):fromJson("value", "a INT")
  :select "b":drop "b"
local kept = orders:fromJson("value", "a INT", { keep = { "offset" } }):select "b":map("c INT", print)
  :select "d"
local s = mt.memoryStream "n INT"
local t = s:filtr(function(row) return true end):select "x"
return s:select "m"
  .writeStream:format "noop"
  :outputMode "complete"
  :trigger { processingTime = "soon" }
  :partitionBy "nothing"]]
    local lines = {}
    for i, one in ipairs(facts.errors) do lines[i] = one.line end
    assert.same({ 3, 3, 7, 9, 11, 12, 14, 15 }, lines)
    local text = check.text(facts)
    assert.matches(folder .. "/job.lua:3: ", text, 1, true)
    assert.matches("\n8 errors$", text)
  end)

  it("blames no action for standing behind a call that is not here", function()
    local facts = facts_of [[
local mt = require "moontide"
return mt.memoryStream "n INT":groupBy("n"):count().writeStream:format "noop"]]
    assert.equal(1, #facts.errors)
    assert.matches("groupBy is known in Spark", facts.errors[1].text)
  end)

  it("finds all options that would be refused, and calls with a dot", function()
    local facts = facts_of [[
local mt = require "moontide"
local first = mt.readStream.format "kafka":load()
local second = mt.readStream:format "kafka"
  :option("kafka.boostrap.servers", "localhost:9")
  :option("kafka.bootstrap.servers", "localhost:9"):option("subscribe", "orders")
  :option("startingOffset", "earliest")
  :load()
local third = second.filter(function() return true end)
local s = mt.memoryStream "n INT"
return s.writeStream:format "console"
  :option("truncat", true)
  :option("numRow", 5)]]
    local lines = {}
    for i, one in ipairs(facts.errors) do lines[i] = one.line end
    assert.same({ 2, 4, 6, 8, 11, 12 }, lines)
  end)

  it("tells behind a frame at fault what does not hang on its columns", function()
    local facts = facts_of [[
local mt = require "moontide"
return mt.memoryStream "n INT"
  :filtr(function() return true end)
  :withColumn("a", "INTT", function() return 1 end)
  :select "a"
  :filter(7)
  .writeStream:format "parqet"
  :partitionBy "a"]]
    local lines = {}
    for i, one in ipairs(facts.errors) do lines[i] = one.line end
    assert.same({ 3, 4, 6, 7 }, lines)
    assert.matches("INTT", facts.errors[2].text)
    assert.matches("parqet", facts.errors[4].text)
    facts = facts_of [[
local mt = require "moontide"
return mt.memoryStream("n INT"):selct "n"
  .writeStream:option("path", "/tmp/table"):option("compresion", "zstd"):partitionBy "n"]]
    assert.same({ 2, 3, 3 }, { facts.errors[1].line, facts.errors[2].line, facts.errors[3].line })
    assert.matches("needs a checkpoint", facts.errors[2].text)
    assert.equal(3, #facts.errors)
  end)

  local function faults_of(text)
    local list = {}
    for i, one in ipairs(facts_of(text).errors) do list[i] = ("%d %s"):format(one.line, one.text) end
    return list
  end

  it("tells what is missing beside options that are at fault", function()
    local faults = faults_of [[
local mt = require "moontide"
return mt.memoryStream "a INT, b INT"
  .writeStream:format "parquet"
  :option("compresion", "zstd")
  :option("shiny", true)
  :partitionBy "a"]]
    assert.equal(4, #faults)
    assert.matches("^3 parquet needs a path", faults[1])
    assert.matches("^3 parquet needs a checkpoint", faults[2])
    assert.matches('^4 .*unknown option "compresion"', faults[3])
    assert.matches('^5 .*unknown option "shiny"', faults[4])
    assert.equal(1, #faults_of [[
local mt = require "moontide"
return mt.memoryStream "n INT".writeStream:format "parquet"
  :option("pathh", "/tmp/t"):option("checkpointLocation", "/tmp/ck")]])
  end)

  it("tells the other options of a reader or a writer where one has no text", function()
    local faults = faults_of [[
local mt = require "moontide"
return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", "localhost:9")
  :option("subscribe", "orders")
  :option("startingOffsets", { orders = { 5, 6 } })
  :option("maxOffsetsPerTriger", 5)
  :option("kafka.compression.typ", 5)
  :load()
  .writeStream:format "console"
  :option("numRows", {})
  :option("truncat", true)]]
    local lines = {}
    for i, one in ipairs(faults) do lines[i] = tonumber(one:match "^%d+") end
    assert.same({ 5, 6, 7, 10, 11 }, lines)
    assert.equal(1, #faults_of [[
local mt = require "moontide"
return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", {}):option("subscribe", "orders"):load()
  .writeStream:format "noop"]])
    assert.equal(1, #faults_of [[
local mt = require "moontide"
return mt.memoryStream "n INT".writeStream:format "parquet":option("path", "/tmp/t")
  :option("checkpointLocation", 7)]])
  end)

  it("tells all options that foreachBatch does not take, and that a checkpoint is missing", function()
    local faults = faults_of [[
local mt = require "moontide"
return mt.memoryStream "n INT".writeStream:foreachBatch(print)
  :option("path", "/tmp/t")
  :option("compression", "zstd")]]
    assert.equal(3, #faults)
    assert.matches("^2 foreachBatch needs a checkpoint", faults[1])
  end)

  it("tells partitionBy of every column where it stands", function()
    local faults = faults_of [[
local mt = require "moontide"
return mt.memoryStream "a INT, b INT"
  .writeStream:format "parquet"
  :option("path", "/tmp/t"):option("checkpointLocation", "/tmp/ck")
  :partitionBy("a", "b")
  :queryName "t"]]
    assert.equal(1, #faults)
    assert.matches("^5 partitionBy takes every column: leave one for the files", faults[1])
  end)

  it("names values of --set that the job does not read", function()
    local facts = facts_of((GOOD:gsub('"localhost:9"', 'mt.conf("brokers", "x:9")')), { broker = "y:9" })
    assert.matches('--set broker: the job does not read it; did you mean "brokers"?',
      table.concat(facts.warnings, "\n"), 1, true)
  end)

  it("finds what only the whole shows", function()
    local facts = facts_of((GOOD:gsub("  :option.\"checkpointLocation\"[^\n]*\n", "")))
    assert.matches("needs a checkpoint", facts.errors[1].text)
    assert.equal(9, facts.errors[1].line)
    facts = facts_of((GOOD:gsub("/tmp/table", "/tmp/table\"):option(\"compresion\", \"zstd")))
    assert.matches("compresion", facts.errors[1].text)
    assert.equal(10, facts.errors[1].line)
  end)

  it("tells several queries, and the faults of all of them", function()
    local two = [[
local mt = require "moontide"
local s = mt.memoryStream "n INT"
return {
  s:filter(function(row) return row.n > 1 end).writeStream:format "memory":queryName "some",
  s:select "n"
    .writeStream:format "console"
    :option("truncate", false),
}]]
    local facts = facts_of(two)
    assert.same({}, facts.errors)
    assert.same({ "some", "filter", "console" }, { facts.queries[1].name, facts.queries[1].steps[1].kind,
      facts.queries[2].sink.format })
    local text = check.text(facts)
    assert.matches("job.lua, 2 queries\n\nquery       some\nsource      memory", text)
    assert.matches("checkpoint  a temporary one\nwarning[^\n]+\n\nquery       2\nsource      memory", text)
    local faulty = facts_of((two:gsub("truncate", "truncat"):gsub("filter", "filtr"):gsub('select "n"', 'select "m"')))
    local lines = {}
    for i, one in ipairs(faulty.errors) do lines[i] = one.line end
    assert.same({ 4, 5, 7 }, lines)
    faulty = facts_of((two:gsub("truncate", "truncat"):gsub(':queryName "some"', "")))
    lines = {}
    for i, one in ipairs(faulty.errors) do lines[i] = one.line end
    assert.same({ 4, 7 }, lines)
  end)

  it("tells why a file does not load", function()
    local facts = facts_of "local x = = 1"
    assert.equal(1, #facts.errors)
    assert.equal(1, facts.errors[1].line)
    assert.matches("unexpected symbol", facts.errors[1].text)
    assert.matches("nil value", facts_of("\nlocal y = x.y").errors[1].text)
  end)

  it("shows no secret", function()
    local _, facts = facts_of((GOOD:gsub('"localhost:9"', 'mt.secret "SERVERS"')), { SERVERS = "hidden:9092" })
    assert.equal("***", facts.sources[1].options["kafka.bootstrap.servers"])
  end)

  it("refuses a secret that stands in the file", function()
    local literal = GOOD:gsub('"localhost:9"', '"localhost:9"):option("kafka.sasl.password", "hunter22"')
    local facts = facts_of(literal)
    assert.equal(1, #facts.errors)
    assert.matches('option "kafka.sasl.password" takes a secret', facts.errors[1].text, 1, true)
    assert.is_nil(facts.errors[1].text:find "hunter22")
    local named = literal:gsub('"hunter22"', 'mt.secret "WORD"')
    assert.same({}, facts_of(named, { WORD = "hunter22" }).errors)
  end)

  it("tells a secret that is not given, and that alone", function()
    local job = GOOD:gsub('"localhost:9"', '%0):option("kafka.sasl.password", mt.secret "WORD"')
    local facts = facts_of(job)
    assert.equal(1, #facts.errors)
    assert.matches('mt.secret "WORD" is not set', facts.errors[1].text, 1, true)
  end)

  it("finds no fault in the project's own jobs and examples", function()
    local given = { brokers = "localhost:9", user = "bob", password = "bob-pw" }
    -- scripts and specs are no jobs
    local files = io.popen "grep -L -e 'moontide lua' -e '^describe' jobs/*.lua examples/*.lua"
    for file in files:lines() do
      if paths.read(file):find("moontide run " .. file, 1, true) then -- others are scripts and specs
        local facts = support.with_globals(function() return check.facts(file, { set = given }) end)
        assert.same({ file, {} }, { file, facts.errors })
      end
    end
    files:close()
  end)
end)
