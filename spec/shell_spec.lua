-- SPDX-License-Identifier: Apache-2.0
local program = require "spec.program"
local shell = require "moontide.live.shell"

describe("the shell", function()
  local out, err, session

  before_each(function()
    out, err = {}, {}
    session = shell.session(function(text) out[#out + 1] = text end, function(text) err[#err + 1] = text end)
    rawset(_G, "mt", require "moontide")
  end)
  after_each(function()
    for _, name in ipairs { "mt", "s", "t", "x", "y" } do rawset(_G, name, nil) end
  end)

  local function feed(...)
    local prompt
    for _, line in ipairs { ... } do prompt = session:feed(line) end
    return prompt
  end

  it("prints the value of an expression, and nothing for a statement", function()
    feed("1 + 1", "x = 5", "'a\\nb'", "nil", "print", "1, true")
    assert.same({ "2", '"a\\nb"', "nil", out[4], "1", "true" }, out)
    assert.matches("^function", out[4])
  end)

  it("asks for more until an entry is whole", function()
    assert.equal(">> ", feed("for i = 1, 2 do"))
    assert.equal("> ", feed("  x = i", "end", "x"))
    assert.same({ "2" }, out)
    feed("f(")
    session:finish()
    assert.same({ "the last entry is not finished" }, err)
  end)

  it("goes on with the entry before at a line that begins with : or .", function()
    feed('local s = mt.memoryStream "n INT, name STRING"', "t = s", '  :select "n"', "  .writeStream", ':format "noop"')
    assert.same({}, err)
    assert.equal("DataStreamWriter", tostring(rawget(_G, "t")))
    feed("x = 1", ":format 'noop'")
    assert.matches("unexpected symbol near ':'", err[1])
  end)

  it("keeps what was declared as a local", function()
    feed("local x, y = 1, 2", "x + y", "local function t(n)", "return n + x end", "t(4)")
    assert.same({ "3", "5" }, out)
  end)

  it("shows tables, frames with their columns, and objects by name", function()
    feed("{ 1, 'two', { a = { b = { c = { d = 1 } } } }, ['x y'] = 0.5 }", 'mt.memoryStream "n INT"', "mt",
      "mt.readStream", "{}")
    assert.equal('{ 1, "two", { a = { b = { c = {…} } } }, ["x y"] = 0.5 }', out[1])
    assert.equal("MemoryStream\nroot\n |-- n: integer (nullable = true)", out[2])
    assert.same({ "Moontide", "DataStreamReader", "{}" }, { out[3], out[4], out[5] })
    feed("x = {} for i = 1, 30 do x[i] = 'a longer text ' .. i end", "x")
    assert.matches('^{\n  "a longer text 1",\n', out[6])
  end)

  it("tells an error without a traceback and goes on", function()
    feed("nothing.x", "mt.readstream", "x = = 1", "error { 1 }", "1")
    assert.matches("^attempt to index global 'nothing'", err[1])
    assert.matches('^mt has no "readstream"; did you mean "readStream"?', err[2])
    assert.matches("^unexpected symbol near '='", err[3])
    assert.is_true(session.failed)
    assert.same({ "1" }, out)
  end)

  it("tells an error as it was raised, and goes on where a value cannot be printed", function()
    local failing = "setmetatable({}, { __tostring = function() error 'no text' end })"
    feed("error 'raised'", "error { code = 1 }", failing, ("error(%s)"):format(failing), "1;")
    assert.same({ "raised", "{ code = 1 }", "no text", "an error that cannot be printed" }, err)
    assert.same({ "1" }, out)
  end)

  it("completes names of globals, of mt, of frames, readers and tables", function()
    rawset(_G, "s", require("moontide").memoryStream "n INT")
    rawset(_G, "x", { alpha = { beta = 1 }, [1] = 2 })
    assert.same({ "mt.readStream" }, shell.complete "mt.readS")
    assert.same({ "s:fromJson" }, shell.complete "s:fr")
    assert.same({ "s.writeStream:format" }, shell.complete "s.writeStream:form")
    assert.same({ "x.alpha" }, shell.complete "x.")
    assert.same({ "x.alpha.beta" }, shell.complete "x.alpha.")
    assert.same({ "tonumber" }, shell.complete "tonu")
    assert.same({}, shell.complete "nothing.at.all")
  end)

  describe("without a terminal", function()
    local folder = program.folder(before_each, after_each)

    it("reads standard input and runs a query", function()
      folder:write("in.lua", [[
local s = mt.memoryStream "n INT"
q = s.writeStream:format "memory":queryName "q":start()
s:addData { { n = 1 }, { n = 2 } }
q:processAllAvailable()
mt.table "q"
q
q:stop()
]])
      local done = folder:shell "moontide shell <in.lua"
      assert.equal(0, done.code)
      assert.matches("^MemoryStream\nroot\n |%-%- n: integer %(nullable = true%)\n", done.out)
      assert.matches("|1  |\n|2  |\n", done.out, 1, true)
      assert.matches("StreamingQuery q: Waiting", done.out, 1, true)
    end)

    it("ends with a code that tells of an error", function()
      folder:write("in.lua", "1 + nil\n2\n")
      local done = folder:shell "moontide shell <in.lua"
      assert.same({ 4, "2\n" }, { done.code, done.out })
      assert.matches("attempt to perform arithmetic on a nil value", done.err, 1, true)
    end)
  end)
end)

describe("moontide lua", function()
  local folder = program.folder(before_each, after_each)

  it("runs a script with its arguments, and prints exactly", function()
    folder:write("lib.lua", "return 'beside'")
    folder:write("job.lua", [[
local mt = require "moontide"
print(arg[0], select("#", ...), (...), arg[2], require "lib", 1760000000000001)
local s = mt.memoryStream("n BIGINT"):addData { { n = 1 } }
local q = s.writeStream:format "console":start()
q:processAllAvailable()
print(q.lastProgress.numInputRows)]])
    local done = folder:shell "cd / && moontide lua $OLDPWD/job.lua --max-batches x"
    assert.equal(0, done.code, done.err)
    assert.matches("job.lua\t2\t--max-batches\tx\tbeside\t1760000000000001\n", done.out, 1, true)
    assert.matches("|  1|\n", done.out, 1, true)
    assert.matches("\n1\n$", done.out)
  end)

  it("runs a script from a pipe, and one that begins with #!", function()
    for text, out in pairs { ["print(1)"] = "1\n", ["#!/usr/bin/env moontide\nprint(2)"] = "2\n" } do
      folder:write("job.lua", text)
      local done = folder:shell "cat job.lua | moontide lua /dev/stdin"
      assert.same({ 0, out }, { done.code, done.out })
      assert.equal(out, folder:moontide("lua job.lua").out)
    end
  end)

  it("ends with the code of a query's failure, without a traceback", function()
    folder:write("job.lua", [[
local mt = require "moontide"
local s = mt.memoryStream("n BIGINT"):addData { { n = 1 } }
s:filter(function(row) return row.m end).writeStream:format "noop":start():awaitTermination()]])
    local done = folder:moontide "lua job.lua"
    assert.equal(4, done.code)
    assert.matches('job.lua:3: filter at row 0 of memory1: [^\n]*"m"[^\n]*\n$', done.err)
    folder:write("job.lua", "local x = nil .. 1")
    done = folder:moontide "lua job.lua"
    assert.same({ 4, "moontide: job.lua:1: attempt to concatenate a nil value\n" }, { done.code, done.err })
    folder:write("job.lua", "local x = = 1")
    assert.equal(3, folder:moontide("lua job.lua").code)
    assert.equal(3, folder:moontide("lua nowhere.lua").code)
  end)

  it("refuses pairs over a row, as a job does", function()
    folder:write("job.lua", [[
local mt = require "moontide"
local s = mt.memoryStream("n BIGINT"):addData { { n = 1 } }
s:filter(function(row) for _ in pairs(row) do end return true end)
  .writeStream:format "noop":start():awaitTermination()]])
    local done = folder:moontide "lua job.lua"
    assert.equal(4, done.code)
    assert.matches("job.lua:3: filter at row 0 of memory1: pairs does not see into a row", done.err, 1, true)
  end)

  it("warns of a query that it did not wait for", function()
    folder:write("job.lua", [[
local mt = require "moontide"
local s = mt.memoryStream("n BIGINT"):addData { { n = 1 } }
s.writeStream:format "noop":queryName "moved":start():processAllAvailable()
s.writeStream:format "noop":queryName "late":start()]])
    local done = folder:moontide "lua job.lua"
    assert.equal(0, done.code)
    assert.matches('query "late", which it started, has read nothing', done.err, 1, true)
    assert.not_matches('query "moved"', done.err, 1, true)
  end)

  it("leaves no temporary checkpoint, and is ended by Ctrl-C with the batch finished", function()
    folder:write("job.lua", [[
local mt = require "moontide"
local s = mt.memoryStream("n BIGINT"):addData { { n = 1 } }
local q = s:filter(function() io.open("in", "w"):close() for _ = 1, 3e8 do _G.x = 1 end return true end)
  .writeStream:format "console":start()
q:awaitTermination()]])
    local done = folder:shell [[
mkdir tmp; export TMPDIR=$PWD/tmp
trap : INT
"$PROGRAM" lua job.lua & pid=$!
until [ -e in ]; do sleep 0.02; done
kill -INT $pid; wait $pid; echo "code $?"; ls tmp]]
    assert.matches("|  1|", done.out, 1, true)
    assert.matches("code 130\n$", done.out)
    assert.matches("moontide: interrupted\n", done.err, 1, true)
  end)

  it("loses nothing that it printed into a pipe when it is asked to end", function()
    folder:write("job.lua", [[
local mt = require "moontide"
local q = mt.memoryStream("n BIGINT").writeStream:format "noop":start()
print "before"
io.open("in", "w"):close()
q:awaitTermination()]])
    local done = folder:shell [[
"$PROGRAM" lua job.lua >out & pid=$!
until [ -e in ]; do sleep 0.02; done
kill -TERM $pid; wait $pid; echo "code $?"; cat out]]
    assert.equal("code 143\nbefore\n", done.out)
    assert.matches("moontide: terminated\n", done.err, 1, true)
  end)
end)
