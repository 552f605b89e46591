-- SPDX-License-Identifier: Apache-2.0
-- The JIT's own events say whether a row function runs as machine code; no clock is asked.
local loops = require "moontide.loops"
local mt = require "moontide"
local schemas = require "moontide.schema"
local support = require "spec.support"
local util = require "jit.util"

local function rows(n)
  local list = {}
  for i = 1, n do list[i] = { n = i, name = "name" .. i % 7, amount = i % 50 - 10 } end
  return list
end

-- While fn runs: how many traces begin in generated code, and how many attempts of any fail.
local function traces(fn)
  local begun, failed = 0, 0
  local function watch(what, _, func, pc)
    if what == "abort" then failed = failed + 1 end
    if what == "start" and util.funcinfo(func, pc).source:find "^=moontide" then begun = begun + 1 end
  end
  jit.attach(watch, "trace")
  local ok, problem = pcall(fn)
  jit.attach(watch)
  assert(ok, problem)
  return begun, failed
end

local function stream() return mt.memoryStream "n INT, name STRING, amount DOUBLE" end

describe("a row function", function()
  it("is compiled as one loop: filter", function()
    local ready = support.ready(stream():filter(function(row) return row.name == "name3" and row.amount > 0 end))
    assert.is_true(traces(function() ready(rows(20000)) end) >= 1)
    -- what was compiled is used: another batch needs nothing new
    assert.is_true(traces(function() ready(rows(20000)) end) <= 2)
  end)

  it("that the JIT gives up on does not slow another", function()
    local bad = support.ready(stream():filter(function(row)
      local get = function() return row.amount end
      return get() > 0
    end))
    local input = rows(20000)
    local _, failed = traces(function() bad(input) end)
    assert.is_true(failed > 10, "this function was meant to be hopeless")
    local good = support.ready(stream():filter(function(row) return row.amount > 0 end))
    local begun, failures = traces(function() good(input) end)
    assert.is_true(begun >= 1)
    assert.is_true(failures < failed / 2)
  end)

  it("builds no table for a literal that map returns", function()
    local schema, out = stream()._schema, assert(schemas.parse "name STRING, cents DOUBLE")
    local loop, building = loops.map(schema, out, function(row)
      return { name = row.name, cents = row.amount * 100 }
    end)
    local input = support.batch(schema, rows(50000))
    local last
    for _ = 1, 2 do -- the first time compiles
      building.begin(50000)
      collectgarbage()
      collectgarbage "stop"
      local before = collectgarbage "count"
      loop.run(input)
      local grown = collectgarbage "count" - before
      collectgarbage "restart"
      building.discard()
      last = grown
    end
    assert.is_true(last < 500, ("%d KB for 50,000 rows"):format(last))
  end)
end)
