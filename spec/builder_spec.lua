-- SPDX-License-Identifier: Apache-2.0
-- What a declaration refuses, at the line that says it.
local mt = require "moontide"
local support = require "spec.support"

-- Calls fn, which is at fault in the line after its first; the words without the place.
local function fault_of(fn)
  local info = debug.getinfo(fn, "S")
  local text = support.error_of(fn)
  local line, words = text:match "builder_spec%.lua:(%d+): (.*)$"
  assert(line, "not at a line of the spec: " .. text)
  line = tonumber(line)
  assert(line >= info.linedefined and line <= info.lastlinedefined, "at another place: " .. text)
  return words, line - info.linedefined
end

local function stream() return mt.memoryStream "n INT, name STRING, d STRUCT<x: INT, y: STRING>" end

local function kafka()
  return mt.readStream:format "kafka":option("kafka.bootstrap.servers", "localhost:9"):option("subscribe", "t")
end

describe("an unknown name", function()
  it("of mt has a suggestion", function()
    assert.equal('mt has no "readstream"; did you mean "readStream"?', (fault_of(function() return mt.readstream end)))
    assert.matches('mt has no "nonsense"; there are: array, awaitAny, conf, createDataFrame, date',
      (fault_of(function() return mt.nonsense end)))
  end)

  it("of a frame, reader or writer has a suggestion", function()
    assert.equal('DataFrame has no "filtr"; did you mean "filter"?', (fault_of(function()
      stream():toDF():filtr(print)
    end)))
    assert.equal('DataStreamReader has no "fromat"; did you mean "format"?', (fault_of(function()
      mt.readStream:fromat "kafka"
    end)))
    assert.equal('DataStreamWriter has no "partitionby"; did you mean "partitionBy"?', (fault_of(function()
      stream().writeStream:partitionby "n"
    end)))
  end)

  it("that Spark has says so, and never that it is unknown", function()
    for _, name in ipairs { "groupBy", "withWatermark", "join", "dropDuplicates", "orderBy", "intersect",
      "agg", "distinct", "selectExpr", "sample" } do
      assert.equal(name .. " is known in Spark, not here yet", (fault_of(function() return stream()[name] end)))
    end
    assert.equal("foreach is known in Spark, not here yet",
      (fault_of(function() return stream().writeStream.foreach end)))
    assert.equal("schema is known in Spark, not here yet", (fault_of(function() return mt.readStream.schema end)))
    assert.equal("mt.sql is known in Spark, not here yet", (fault_of(function() return mt.sql end)))
    assert.equal("mt.odbc is not here yet", (fault_of(function() return mt.odbc end)))
    assert.equal('mt.json has no "enocde"; did you mean "encode"?', (fault_of(function() return mt.json.enocde end)))
  end)

  it("is not to be assigned to", function()
    assert.matches("set options with :option", (fault_of(function() stream().writeStream.path = "x" end)))
    assert.matches("is not to be assigned to", (fault_of(function() stream().columns = {} end)))
    assert.matches("is not to be assigned to", (fault_of(function() mt.helper = print end)))
  end)
end)

describe("a method called with a dot", function()
  it("is told to be called with a colon", function()
    assert.equal("filter is called with a colon: write :filter(…), not .filter(…)",
      (fault_of(function() stream().filter(print) end)))
    assert.matches("write :format", (fault_of(function() mt.readStream.format "kafka" end)))
    assert.matches("write :option", (fault_of(function() stream().writeStream.option("a", 1) end)))
  end)
end)

describe("what Spark refuses on a stream", function()
  it("has its words and the cure", function()
    for _, name in ipairs { "count", "show", "collect", "take", "first" } do
      local words = fault_of(function() stream()[name](stream()) end)
      assert.matches("Queries with streaming sources must be executed with writeStream.start()", words, 1, true)
      assert.matches('return df.writeStream… from the job, with :format "console"', words, 1, true)
    end
    assert.equal("'write' can not be called on streaming Dataset/DataFrame; use writeStream",
      (fault_of(function() return stream().write end)))
  end)
end)

describe("a builder", function()
  it("is fresh at each access and each call, so that a base may be shared", function()
    local base = mt.readStream:format "kafka":option("kafka.bootstrap.servers", "localhost:9")
    local a = base:option("subscribe", "a"):load()
    local b = base:option("subscribe", "b"):load()
    assert.equal("a", a._tree.source.name)
    assert.equal("b", b._tree.source.name)
    assert.equal(1, #base._options)
    assert.equal(0, #mt.readStream._options)
    local frame = stream()
    local writer = frame.writeStream:format "noop"
    assert.not_equal(writer, writer:queryName "x")
    assert.is_nil(writer._query_name)
  end)

  it("may be called", function()
    assert.equal("kafka", mt.readStream():format "kafka"._format)
    assert.equal("noop", stream():writeStream():format "noop"._format)
  end)
end)

describe("a name", function()
  it("is text, of a query, a sink and a source", function()
    for what, name in pairs {
      queryName = function(name) return stream().writeStream:queryName(name) end,
      name = function(name) return stream().writeStream:name(name) end,
      ["name "] = function(name) return mt.readStream:name(name) end,
    } do
      local method = what:match "%a+"
      assert.matches(method .. " is empty", (fault_of(function() name "" end)))
      for _, bytes in ipairs { "x\255", "x\0y" } do
        assert.matches(method .. " is not text", (fault_of(function() name(bytes) end)))
      end
      name "naïve"
    end
  end)
end)

describe("options", function()
  it("are matched without case, and numbers and booleans are taken", function()
    local frame = mt.readStream:format "kafka":option("KAFKA.BOOTSTRAP.SERVERS", "localhost:9")
      :options { Subscribe = "t", maxoffsetspertrigger = 100, failOnDataLoss = false }:load()
    assert.same({ "key", "value", "topic", "partition", "offset", "timestamp", "timestampType" }, frame.columns)
  end)

  it("that do not exist are errors at their own line, with a suggestion", function()
    local words, line = fault_of(function()
      return mt.readStream:format "kafka"
        :option("subscribe", "t")
        :option("kafka.boostrap.servers", "localhost:9")
        :load()
    end)
    assert.equal(3, line)
    assert.matches('"kafka.boostrap.servers"', words, 1, true)
    assert.matches('did you mean "?kafka.bootstrap.servers"?', words)
  end)

  it("set to nil, tables or functions are errors", function()
    assert.equal('option "subscribe" is set to nil', (fault_of(function() kafka():option("subscribe", nil) end)))
    assert.equal('option "subscribe" takes text, a number or a boolean, not a table',
      (fault_of(function() kafka():option("subscribe", { "a" }) end)))
    assert.matches("the name of an option takes a string, not a number", (fault_of(function()
      kafka():option(1, "a")
    end)))
    assert.matches("options takes a table", (fault_of(function() kafka():options "x" end)))
  end)

  local options = require "moontide.options"
  local function text_of(name, v) return options.add({}, name, v)[1].value end

  it("with JSON may be tables with partitions as numbers or text", function()
    assert.equal('{"a":{"0":5,"1":-2,"10":9007199254740993},"b":{"0":-1}}', text_of("startingOffsets",
      { b = { [0] = -1 }, a = { [0] = 5, ["1"] = -2, [10] = 9007199254740993LL } }))
    assert.equal('{"a":{"0":5,"1":6}}', text_of("startingoffsets", { a = { [0] = 5, 6 } }))
    assert.equal('{"orders":[0,1,2]}', text_of("assign", { orders = { 0, 1, 2 } }))
  end)

  it("with offsets as a plain list are refused, since a list begins at 1", function()
    assert.matches("begin at partition 1 here, Kafka's partitions at 0; write { [0] = …", (fault_of(function()
      kafka():option("startingOffsets", { t = { 1234, 5678 } })
    end)), 1, true)
  end)

  it("with offsets name what is wrong in the table", function()
    assert.matches('"x" of "t" is not a partition number',
      (fault_of(function() kafka():option("startingOffsets", { t = { x = 1 } }) end)))
    assert.matches("partition 0 of \"t\" is given twice",
      (fault_of(function() kafka():option("startingOffsets", { t = { [0] = 1, ["0"] = 2 } }) end)))
    assert.matches("is a whole number, not 1.5",
      (fault_of(function() kafka():option("startingOffsets", { t = { [0] = 1.5 } }) end)))
    assert.matches('is a whole number, not the text "1"',
      (fault_of(function() kafka():option("assign", { t = { "1" } }) end)), 1, true)
    assert.matches("as a table has topics with tables",
      (fault_of(function() kafka():option("startingOffsets", { 1, 2 }) end)))
  end)
end)

describe("readStream", function()
  it("wants a format, and names unknown ones", function()
    assert.matches("name a format first", (fault_of(function() mt.readStream:load() end)))
    assert.matches("kafak", (fault_of(function() mt.readStream:format "kafak":load() end)))
  end)
end)

describe("a frame", function()
  it("knows its columns and that it streams", function()
    local frame = stream()
    assert.same({ "n", "name", "d" }, frame.columns)
    assert.is_true(frame.isStreaming)
    assert.equal("n INT, name STRING, d STRUCT<x: INT, y: STRING>", tostring(frame.schema))
    assert.same({ name = "n", type = "INT", nullable = true }, frame.schema[1])
  end)

  it("prints Spark's tree", function()
    local printed
    local real = print
    rawset(_G, "print", function(text) printed = text end)
    mt.memoryStream [[a BIGINT NOT NULL, m DECIMAL(10,2), l ARRAY<STRUCT<k: STRING, v: BINARY>>,
      p MAP<STRING, INT>]]:printSchema()
    rawset(_G, "print", real)
    assert.equal([[
root
 |-- a: long (nullable = false)
 |-- m: decimal(10,2) (nullable = true)
 |-- l: array (nullable = true)
 |    |-- element: struct (containsNull = true)
 |    |    |-- k: string (nullable = true)
 |    |    |-- v: binary (nullable = true)
 |-- p: map (nullable = true)
 |    |-- key: string
 |    |-- value: integer (valueContainsNull = true)]], printed)
  end)

  it("names a column that it does not have", function()
    assert.equal('select: there is no column "nmae"; did you mean "name"?',
      (fault_of(function() stream():select("n", "nmae") end)))
    assert.matches('drop: there is no column "x"', (fault_of(function() stream():drop "x" end)))
    assert.matches('withColumnRenamed: there is no column "x"',
      (fault_of(function() stream():withColumnRenamed("x", "y") end)))
    assert.matches('select: there is no "z" in "d.z"; there are: x, y',
      (fault_of(function() stream():select "d.z" end)))
    assert.matches('"name%.%*" opens a STRUCT, and "name" is STRING',
      (fault_of(function() stream():select "name.*" end)))
    assert.matches("is not a STRUCT", (fault_of(function() stream():select "name.x" end)))
  end)

  it("refuses two columns of one name", function()
    assert.matches('two columns are named "x"; rename one',
      (fault_of(function() stream():withColumnRenamed("n", "x"):select("x", "d.*") end)))
    assert.matches('two columns are named "name"', (fault_of(function()
      stream():withColumnRenamed("n", "name")
    end)))
    assert.matches('a', (fault_of(function() stream():map("a INT, a STRING", print) end)))
  end)

  it("wants functions where it calls them", function()
    assert.matches("filter takes a function of the row, not text; SQL expressions are not here yet",
      (fault_of(function() stream():filter "n > 1" end)))
    assert.matches("map takes a function of the row, not nil", (fault_of(function() stream():map "a INT" end)))
    assert.matches("withColumn takes a function", (fault_of(function() stream():withColumn("a", "INT", 5) end)))
  end)

  it("tells what is wrong with a DDL", function()
    assert.matches("map: .*INTT", (fault_of(function() stream():map("a INTT", print) end)))
    assert.matches("withColumn: .*DECIMAL", (fault_of(function()
      stream():withColumn("a", "DECIMAL(50,2)", print)
    end)))
    assert.matches("map: the schema takes a string", (fault_of(function() stream():map(print) end)))
    assert.matches('withColumn: the type, character 1: ', (fault_of(function()
      stream():withColumn("a", "INTT", print)
    end)))
  end)

  it("leaves no frame without columns", function()
    assert.matches("drop leaves no column", (fault_of(function() stream():drop("n", "name", "d") end)))
    assert.matches("select names no column", (fault_of(function() stream():select() end)))
  end)
end)

describe("fromJson", function()
  local function orders() return kafka():load() end

  it("gives the DDL's columns and those that it keeps", function()
    local frame = orders():fromJson("value", "a INT NOT NULL, b STRING", { keep = { "partition", "offset" } })
    assert.equal("a INT, b STRING, partition INT, offset BIGINT", tostring(frame.schema))
    assert.equal("d STRUCT<a: INT>, offset BIGINT",
      tostring(orders():fromJson("value", "a INT", { as = "d", keep = "offset" }).schema))
  end)

  it("names `as` when columns clash", function()
    assert.matches('two columns are named "offset"; put the fields into one column with { as = "d" }',
      (fault_of(function() orders():fromJson("value", "offset INT", { keep = { "offset" } }) end)), 1, true)
  end)

  it("names unknown options, modes and columns", function()
    assert.matches('unknown option "kep"; did you mean "keep"?',
      (fault_of(function() orders():fromJson("value", "a INT", { kep = {} }) end)), 1, true)
    assert.matches("option dateFormat is known in Spark, not here yet",
      (fault_of(function() orders():fromJson("value", "a INT", { dateFormat = "x" }) end)))
    assert.matches('unknown mode "FAILFATS"; did you mean "FAILFAST"',
      (fault_of(function() orders():fromJson("value", "a INT", { mode = "FAILFATS" }) end)))
    assert.matches('there is no column "valeu"; did you mean "value"',
      (fault_of(function() orders():fromJson("valeu", "a INT") end)))
    assert.matches('keep: there is no column "partitoin"; did you mean "partition"',
      (fault_of(function() orders():fromJson("value", "a INT", { keep = { "partitoin" } }) end)))
  end)

  it("reads text and bytes only", function()
    assert.matches('column "offset" is BIGINT; JSON text is read from STRING or BINARY',
      (fault_of(function() orders():fromJson("offset", "a INT") end)))
  end)

  it("wants the column for malformed records in its DDL", function()
    assert.matches('add "bad STRING" to it', (fault_of(function()
      orders():fromJson("value", "a INT", { columnNameOfCorruptRecord = "bad" })
    end)))
  end)
end)

describe("writeStream", function()
  local function writer() return stream().writeStream end

  it("has one output mode, and Spark's words for the others", function()
    assert.equal("parquet", writer():outputMode "append":outputMode "Append"._format)
    for _, mode in ipairs { "complete", "update" } do
      assert.matches("[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: " .. mode,
        (fault_of(function() writer():outputMode(mode) end)), 1, true)
    end
    assert.matches('unknown output mode "apend"; did you mean "append"',
      (fault_of(function() writer():outputMode "apend" end)))
  end)

  it("takes exactly one trigger", function()
    assert.same({ kind = "processingTime", interval_ms = 60000, text = "every 1 minute" },
      writer():trigger { processingTime = "1 minute" }._trigger)
    assert.equal("availableNow", writer():trigger { availableNow = true }._trigger.kind)
    assert.equal("once", writer():trigger { once = true }._trigger.kind)
    assert.matches("exactly one kind, not availableNow and once",
      (fault_of(function() writer():trigger { availableNow = true, once = true } end)))
    assert.matches("trigger takes one of", (fault_of(function() writer():trigger {} end)))
    assert.matches('unknown trigger "processingtime"; did you mean "processingTime"',
      (fault_of(function() writer():trigger { processingtime = "1 second" } end)))
    assert.matches("continuous is known in Spark, not here yet",
      (fault_of(function() writer():trigger { continuous = "1 second" } end)))
    assert.matches("availableNow is true or not given",
      (fault_of(function() writer():trigger { availableNow = false } end)))
    assert.matches('processingTime is a text such as "10 seconds"',
      (fault_of(function() writer():trigger { processingTime = 10 } end)))
    assert.matches("secnds", (fault_of(function() writer():trigger { processingTime = "10 secnds" } end)))
    assert.matches("trigger takes a table", (fault_of(function() writer():trigger "once" end)))
  end)

  it("partitions by columns that there are", function()
    assert.same({ "n", "name" }, writer():partitionBy("n", "name")._partition_by)
    assert.same({ "n" }, writer():partitionBy({ "n" })._partition_by)
    assert.matches('partitionBy: there is no column "nme"; did you mean "name"',
      (fault_of(function() writer():partitionBy "nme" end)))
    assert.matches('"n" is named twice', (fault_of(function() writer():partitionBy("n", "n") end)))
  end)

  it("makes paths absolute where they are declared", function()
    local here = assert(io.popen "pwd -P"):read "*l"
    local query = writer():option("path", "out/../x"):option("checkpointLocation", "FILE:/tmp/./ck")
    assert.equal(here .. "/x", query._options[1].value)
    assert.equal("/tmp/ck", query._options[2].value)
    assert.equal("s3://b/x", writer():option("path", "s3://b/x")._options[1].value)
    assert.equal(here .. "/x", writer():option("path", "file:x")._options[1].value)
    assert.matches("names another host",
      (fault_of(function() writer():option("path", "file://elsewhere/x") end)))
    assert.matches('option "path" is empty', (fault_of(function() writer():option("path", "") end)))
  end)
end)

describe("memoryStream", function()
  it("tells which row and value do not fit", function()
    assert.matches('row 2 has "m", which is no column; there are: n',
      (fault_of(function() mt.memoryStream "n INT":addData { { n = 1 }, { m = 2 } } end)))
    assert.matches("n is INT and takes whole numbers, not the number 1.5",
      (fault_of(function() mt.memoryStream "n INT":addData { { n = 1.5 } } end)))
    assert.matches("addData takes a list of rows", (fault_of(function() mt.memoryStream "n INT":addData { n = 1 } end)))
    assert.matches("row 1 is a number", (fault_of(function() mt.memoryStream "n INT":addData { 1 } end)))
  end)

  it("is a frame itself and gives one", function()
    local memory = mt.memoryStream "n INT"
    assert.same(memory.columns, memory:toDF().columns)
    assert.equal('DataFrame has no "addData"; there are',
      (fault_of(function() return memory:toDF().addData end)):match "^.-there are")
    assert.matches("has no \"addData\"", (fault_of(function() return memory:select("n").addData end)))
  end)
end)
