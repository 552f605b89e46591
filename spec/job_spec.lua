-- SPDX-License-Identifier: Apache-2.0
local support = require "spec.support"

local HEAD = 'local mt = require "moontide"\nlocal s = mt.memoryStream "n INT, name STRING"\n'

local function load(text, set)
  local plan, bundle, folder = support.load(text, set)
  support.free(plan)
  return plan, bundle, folder
end

describe("a job file", function()
  it("gives a plan", function()
    local plan = load(HEAD .. [[
return s:filter(function(row) return row.n > 1 end):select "n"
  .writeStream:format "noop":queryName "numbers":trigger { processingTime = "2 seconds" }
  :option("checkpointLocation", "/tmp/somewhere/ck")]])
    assert.equal("numbers", plan.name)
    assert.equal("processingTime", plan.trigger.kind)
    assert.equal(2000, plan.trigger.interval_ms)
    assert.equal("/tmp/somewhere/ck", plan.checkpoint)
    assert.equal("UTC", plan.time_zone)
    assert.equal("{}", plan.start_options)
    assert.equal(2, plan.max_steps)
    assert.equal("function", type(plan.run))
  end)

  it("notes where a source was told to start", function()
    local plan = load [[
local mt = require "moontide"
return mt.readStream:format "kafka":option("kafka.bootstrap.servers", "localhost:9"):option("subscribe", "t")
  :option("STARTINGOFFSETS", { t = { [0] = 5 } }):load().writeStream:format "noop"]]
    assert.equal([[{"startingOffsets":"{\"t\":{\"0\":5}}"}]], plan.start_options)
  end)

  it("may return several queries: each is planned by its place, or by what it is known by", function()
    local folder = support.folder { ["job.lua"] = HEAD .. [[
return { s.writeStream:format "noop":queryName "first", s.writeStream:format "console",
  s.writeStream:format "noop":option("checkpointLocation", "/tmp/ck3") }]] }
    local names = 'query "first"\nquery 2\ncheckpoint /tmp/ck3'
    for place, which in ipairs { 'query "first"', "query 2", "checkpoint /tmp/ck3" } do
      for _, as in ipairs { place, which } do
        local plan, loaded = support.load_query(folder .. "/job.lua", as, {})
        support.free(plan)
        assert.same({ which, 3, names }, { loaded.identity, loaded.n, loaded.queries })
      end
    end
  end)

  it("that a run loads again must have the queries that it had", function()
    local text = HEAD .. 'local w = s.writeStream:format "noop"\nreturn { w:queryName "a", w:queryName "b" }'
    local folder = support.folder { ["job.lua"] = text }
    local function problem(queries)
      return support.error_of(support.load_query, folder .. "/job.lua", 'query "a"', { queries = queries })
    end
    support.free((support.load_query(folder .. "/job.lua", 'query "b"', { queries = 'query "b"\nquery "a"' })))
    assert.matches('job.lua: the file adds query "b"; a run keeps the queries it began with: restart for that',
      problem 'query "a"', 1, true)
    assert.matches('the file drops checkpoint /c; ', problem 'query "a"\nquery "b"\ncheckpoint /c', 1, true)
    assert.matches('the file adds query "b" and drops query "c"; ', problem 'query "a"\nquery "c"', 1, true)
  end)

  it("may return a list of one query", function()
    assert.is_table(load(HEAD .. 'return { s.writeStream:format "noop" }'))
  end)

  it("that calls itself without end is told so, at its line if there is stack left to find it", function()
    local problem = support.load_error(HEAD .. "local function f() return 1 + f() end\nf()")
    assert.matches("^job%.lua:[3 ]%p? ?stack overflow$", problem)
  end)

  local mistakes = {
    { "returns nothing", "local x = s", 3, "returned nothing; it returns its query" },
    { "returns a frame", "return s", 3, "returned a DataFrame; end it with .writeStream" },
    { "returns a reader", "return mt.readStream", 3, "returned a DataStreamReader; it returns its query" },
    { "returns something else", "return 5", 3, "returned a number; it returns its query" },
    { "returns two values", 'local q = s.writeStream:format "noop"\nreturn q, q', 4,
      "returned 2 values; it returns its queries as a list" },
    { "returns a list with a hole", 'return { nil, s.writeStream:format "noop" }', 3,
      "entry 1 of the list that the job returned is nil" },
    { "returns a table with names", 'return { paid = s.writeStream:format "noop" }', 3,
      'returned a table with the name "paid"; it returns a list of its queries' },
    { "returns a list with something else", 'return { s.writeStream:format "noop", 5 }', 3, "returned a number" },
    { "returns two queries of one name", 'local q = s.writeStream:format "noop":queryName "q"\nreturn { q,\n'
      .. '  s.writeStream:format "console":queryName "q" }', 5,
      'two queries have the name "q": give each one of its own' },
    { "returns two queries of one checkpoint", 'local q = s.writeStream:option("checkpointLocation", "/tmp/ck")\n'
      .. 'return { q:format "noop",\n  q:format "console" }', 5,
      "two queries have the checkpointLocation /tmp/ck: each keeps its place in a folder of its own" },
    { "returns an empty list", "return {}", 3, "returned nothing" },
    { "does not compile", "return s:filter(function(row) return row.n > end)", 3, "unexpected symbol near 'end'" },
    { "is not finished", "return s:filter(", 3, "unexpected symbol near '<eof>'" },
    { "does not close what it opens", "return s:filter(function(row)\n  return true\nend\n\n", 3,
      "'%)' expected %(to close '%(' at line 3%) near '<eof>'" },
    { "calls nothing", "\nlocal x = nowhere.field", 4, "attempt to index global 'nowhere' %(a nil value%)" },
    { "raises an error", "\n\nerror 'by itself'", 5, "by itself" },
    { "raises a table", "error(setmetatable({}, { __tostring = function() return 'odd' end }))", 3, "odd" },
    { "starts its query", 'return s.writeStream:format "noop"\n  :start()', 4, "leave :start%(%) away" },
    { "needs a checkpoint", 'return s\n  .writeStream:format "parquet"\n  :option("path", "/tmp/x")', 4,
      "parquet needs a checkpoint, the folder where the query keeps its place" },
    { "has a bad last call in a returned chain", 'return s\n  :select "n"\n  :select "m"', 5,
      'select: there is no column "m"' },
    { "has a bad first call in a returned chain", 'return s\n  :select "m"\n  :drop "n"', 4,
      'select: there is no column "m"' },
    { "has a bad option of the sink", 'return s.writeStream:format "noop"\n  :option("numRow", 5)\n  :queryName "x"', 4,
      '"numRow"' },
  }
  for _, case in ipairs(mistakes) do
    it("that " .. case[1] .. " is told so at its line", function()
      local problem = support.load_error(HEAD .. case[2])
      assert.matches("^job%.lua:" .. case[3] .. ": ", problem)
      assert.matches(case[4], problem)
    end)
  end

  it("that does not exist is named", function()
    local job = require "moontide.declare.job"
    support.with_globals(function()
      assert.matches("/nowhere/job.lua: No such file", support.error_of(job.load, "/nowhere/job.lua", 1, {}))
    end)
  end)

  it("raises errors with the class JOB and no traceback", function()
    local ok, problem = pcall(support.load, HEAD .. "return 5")
    assert.is_false(ok)
    assert.equal("JOB", problem.class)
    assert.equal("FATAL", problem.status)
    assert.is_nil(problem.text:find("\n", 1, true))
  end)

  it("is told at its own line when a library of its own is between", function()
    local problem = support.load_error {
      ["job.lua"] = HEAD .. 'local lib = require "lib.sinks"\nlocal w = lib.make(s)\nreturn w',
      ["lib/sinks.lua"] = 'return { make = function(s)\n  local w = s.writeStream:fromat "x"\n  return w\nend }',
    }
    assert.matches("lib/sinks.lua:2: ", problem, 1, true)
  end)

  it("is taken with a first line for the shell", function()
    assert.is_table(load("#!/usr/bin/env moontide\n" .. HEAD .. 'return s.writeStream:format "noop"'))
  end)

  it("must be UTF-8", function()
    assert.matches("is not UTF%-8 text", support.load_error(HEAD .. "-- \255\nreturn s"))
  end)
end)

describe("the bundle", function()
  it("has the job, every Lua file it required and the values it was given", function()
    local _, bundle = load({
      ["job.lua"] = HEAD .. 'local lib = require "lib.one"\nmt.conf("topic", "orders")\n'
        .. 'assert(mt.conf("limit", 5) == 7 and mt.conf("dry", false) == true)\n'
        .. 'return lib(s).writeStream:format "noop"',
      ["lib/one.lua"] = 'local two = require "two"\nreturn function(s) return two(s) end',
      ["two.lua"] = "return function(s) return s end",
    }, { limit = "7", dry = "yes" })
    assert.matches('"conf":{"dry":"true","limit":"7","topic":"orders"}', bundle, 1, true)
    assert.matches('"main":"job.lua"', bundle, 1, true)
    local names = {}
    for name in bundle:gmatch '"name":"([^"]+)"' do names[#names + 1] = name end
    assert.same({ "job.lua", "lib/one.lua", "two.lua" }, names)
    assert.matches('"text":"return function(s) return s end"', bundle, 1, true)
  end)

  it("is the same text for the same job elsewhere", function()
    local text = HEAD .. 'return s.writeStream:format "noop"'
    local _, one = load(text)
    local _, other = load(text)
    assert.equal(one, other)
  end)

  it("has files of mt.file, named from the job's folder", function()
    local _, bundle = load {
      ["job.lua"] = HEAD .. 'local f = mt.file "parts/f.lua"\nreturn s:filter(f).writeStream:format "noop"',
      ["parts/f.lua"] = "return function(row) return row.n > 1 end",
    }
    assert.matches('"name":"parts/f.lua"', bundle, 1, true)
  end)

  it("never has a secret", function()
    local folder = support.folder { ["pass.txt"] = "hunter22\n" }
    local _, bundle = load(HEAD .. 'assert(#mt.secret "PASS" == 8)\nreturn s.writeStream:format "noop"',
      { PASS = "file:" .. folder .. "/pass.txt" })
    assert.is_nil(bundle:find("hunter22", 1, true))
    assert.is_nil(bundle:find("PASS\"", 1, true))
  end)
end)

describe("a batch that its own script runs again", function()
  local FILES = {
    ["job.lua"] = HEAD .. 'local lib = require "lib.one"\nlocal f = mt.file "parts/f.lua"\n'
      .. 'assert(mt.conf("limit", 5) == 7 and mt.conf("dry", false) == true and mt.conf "topic" == "paid")\n'
      .. 'return lib(s):filter(f).writeStream:format "noop":queryName(mt.conf("name", "old"))',
    ["lib/one.lua"] = "return function(s) return s end",
    ["parts/f.lua"] = "return function(row) return row.n > 1 end",
  }

  it("gets its texts and values, whatever files and environment are now", function()
    local plan, bundle, folder = support.load(FILES, { limit = "7", dry = "yes", topic = "paid" })
    support.free(plan)
    for name in pairs(FILES) do assert(os.remove(folder .. "/" .. name)) end
    local again, loaded = support.load_query(folder .. "/job.lua", 1,
      { set = { limit = "8", name = "new" }, bundle = bundle })
    support.free(again)
    assert.equal("old", again.name)
    assert.equal(bundle, loaded.bundle)
  end)

  it("is told when a file is missing in them", function()
    local plan, bundle, folder = support.load(HEAD .. 'return s.writeStream:format "noop"')
    support.free(plan)
    local problem = support.error_of(support.load_query, folder .. "/job.lua", 1,
      { bundle = (bundle:gsub('"name":"job.lua"', '"name":"other.lua"')) })
    assert.matches("the batch's script has no file [^ ]*/job.lua$", problem)
  end)
end)

describe("after loading", function()
  it("a module that is not there is told with each place once", function()
    local folder = support.folder { ["job.lua"] = 'local x = require "lib.nowhere"' }
    local text = support.error_of(support.load_query, folder .. "/job.lua", 1, {})
    assert.matches(folder .. "/lib/nowhere.lua", text, 1, true)
    assert.matches(folder .. "/lib/nowhere/init.lua", text, 1, true)
    local seen = {}
    for place in text:gmatch "no file '([^']*nowhere[^']*)'" do
      assert.is_nil(seen[place], place)
      seen[place] = true
    end
  end)

  it("a new require is an error that says why", function()
    local folder = support.folder {
      ["job.lua"] = HEAD .. 'late = function() return require "afterwards" end\nreturn s.writeStream:format "noop"',
      ["afterwards.lua"] = "return 1",
    }
    support.with_globals(function()
      support.free((require("moontide.declare.job").load(folder .. "/job.lua", 1, {})))
      assert.matches('require "afterwards": the job is loaded already', support.error_of(_G.late))
    end)
    _G.late = nil
  end)
end)

describe("mt.conf", function()
  it("gives in row functions what it gave before, and nothing new", function()
    local folder = support.folder { ["job.lua"] = HEAD .. [[
mt.conf("known", 1)
late = function(name) return mt.conf(name, 2) end
return s.writeStream:format "noop"]] }
    support.with_globals(function()
      support.free((require("moontide.declare.job").load(folder .. "/job.lua", 1, { set = { known = "7" } })))
      assert.equal("7", tostring(_G.late "known"))
      assert.matches('mt.conf "new" is first read while rows run', support.error_of(_G.late, "new"))
    end)
    _G.late = nil
  end)

  it("reads --set, then the environment, then the default", function()
    assert.matches("HOME", "HOME")
    load(HEAD .. [[
assert(mt.conf("a", "x") == "given" and mt.conf("b", "x") == "x")
return s.writeStream:format "noop"]], { a = "given" })
  end)

  it("has the type of its default, or says what is wrong", function()
    assert.matches('job.lua:3: %-%-set n is "many"; a number is wanted',
      support.load_error(HEAD .. 'mt.conf("n", 5)', { n = "many" }))
    assert.matches('%-%-set b is "maybe"; true or false is wanted',
      support.load_error(HEAD .. 'mt.conf("b", true)', { b = "maybe" }))
  end)

  it("without a default must be given", function()
    assert.matches('mt.conf "brokers" is not set; run with %-%-set brokers=… or set MOONTIDE_BROKERS',
      support.load_error(HEAD .. 'mt.conf "brokers"'))
  end)
end)

describe("a job's time zone", function()
  it("is UTC and no other yet", function()
    assert.matches('timeZone "Europe/Pairs" is no time zone; it takes a region such as Europe/Paris',
      support.load_error(HEAD .. 'return s.writeStream:format "noop"', { timeZone = "Europe/Pairs" }))
  end)
end)

describe("a job's globals", function()
  it("print 64-bit integers and large numbers exactly", function()
    load(HEAD .. [[
assert(tostring(9007199254740993LL) == "9007199254740993")
assert(tostring(1760000000000001) == "1760000000000001")
assert(("%s|%5.1f"):format(1760000000000001, 2.5) == "1760000000000001|  2.5")
assert(tostring(mt.null) == "null" and tostring(nil) == "nil")
return s.writeStream:format "noop"]])
  end)
end)

describe("a row function of a job", function()
  local function run_error(text)
    local plan, _, folder = support.load(HEAD .. text)
    local problem = support.error_of(function()
      local query = plan.facts.query
      support.run(query._frame, { { n = 1 }, { n = 2, name = "x" } })
    end)
    support.free(plan)
    return (problem:gsub(folder .. "/", ""))
  end

  it("names line and row, and the null in the line's own words", function()
    assert.equal([[job.lua:4: filter at orders[2]@100: name is null here; write (row.name or ""):upper()]],
      run_error 'return s:filter(function(row)\n  return row.name:upper() == "X"\nend).writeStream:format "noop"')
  end)

  it("names the line in a library that it calls", function()
    assert.matches("^job.lua:3: filter at orders%[2%]@101: too big",
      run_error [[
local function check(n) if n > 1 then error "too big" end return true end
return s:filter(function(row)
  local ok = check(row.n)
  return ok
end).writeStream:format "noop"]])
  end)

  it("names the line of a call that it returns", function()
    assert.matches("^job.lua:4: map at orders%[2%]@100: ",
      run_error [[
return s:map("a INT", function(row)
  return setmetatable(row.name, {})
end).writeStream:format "noop"]])
  end)

  it("keeps the words of an error that is no text", function()
    assert.matches("odd words", run_error [[
return s:filter(function() error(setmetatable({}, { __tostring = function() return "odd words" end })) end)
  .writeStream:format "noop"]])
  end)

  it("that never ends its recursion is an error like another", function()
    assert.matches("stack overflow", run_error [[
local function f(n) return 1 + f(n) end
return s:filter(function(row) return f(row.n) end).writeStream:format "noop"]])
  end)
end)
