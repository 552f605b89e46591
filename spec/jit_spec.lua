-- SPDX-License-Identifier: Apache-2.0
-- The JIT's own events say whether a row function runs as machine code; no clock is asked.
local core = require "moontide._core"
local loops = require "moontide.loops"
local mt = require "moontide"
local schemas = require "moontide.schema"
local support = require "spec.support"
local util = require "jit.util"
local value = require "moontide.value"

local function rows(n)
  local list = {}
  for i = 1, n do list[i] = { n = i, name = "name" .. i % 7, amount = i % 50 - 10, day = "2026-05-01" } end
  return list
end

-- While fn runs: how many filter loops become traces, how many attempts of any fail.
local function traces(fn)
  local compiled, failed, recording = 0, 0, {}
  local function watch(what, trace, func, pc, parent)
    if what == "start" then
      recording[trace] = not parent and util.funcinfo(func, pc).source == "=moontide filter"
    elseif what == "abort" then
      failed = failed + 1
    elseif what == "stop" and recording[trace] then
      compiled = compiled + 1
    end
  end
  jit.attach(watch, "trace")
  local ok, problem = pcall(fn)
  jit.attach(watch)
  assert(ok, problem)
  return compiled, failed
end

local function stream() return mt.memoryStream "n INT, name STRING, amount DOUBLE, day DATE" end

describe("a row function", function()
  local schema = stream()._schema
  local input = support.batch(schema, rows(50000))

  local function filter(fn)
    local loop = loops.filter(schema)
    loop.run(input, fn, core.new("int32_t[?]", 50000))
    loop.rest()
  end

  it("is compiled as one loop", function()
    assert.is_true(traces(function()
      filter(function(row) return row.name == "name3" and row.amount > 0 end)
    end) >= 1)
  end)

  it("that the JIT gives up on is not, and does not slow another", function()
    local compiled, failed = traces(function()
      filter(function(row)
        local get = function() return row.amount end
        return get() > 0
      end)
    end)
    assert.equal(0, compiled)
    assert.is_true(failed > 5)
    assert.is_true(traces(function() filter(function(row) return row.amount > 0 end) end) >= 1)
  end)

  -- A function that ends in a call cannot be compiled by itself; called often from a function that
  -- runs interpreted, it is marked, and drags everything down that calls it.
  it("that the JIT gives up on does not mark what all share: no helper ends in a call", function()
    local vmdef = require "jit.vmdef"
    local seen, found = {}, {}
    local function is_value(fn)
      local source = debug.getinfo(fn, "S").source
      for _, part in ipairs { "exact", "decimal", "times", "nested" } do
        if source:find("moontide/" .. part, 1, true) then return true end
      end
    end
    local function look(name, fn)
      if type(fn) ~= "function" or seen[fn] or not is_value(fn) then return end
      seen[fn] = true
      for pc = 1, util.funcinfo(fn).bytecodes - 1 do
        local op = bit.band((util.funcbc(fn, pc)), 0xff)
        if vmdef.bcnames:sub(op * 6 + 1, op * 6 + 6):find "^CALLM?T" then
          found[#found + 1] = name .. ":" .. util.funcinfo(fn, pc).currentline
        end
      end
      for i = 1, 100 do
        local upvalue, v = debug.getupvalue(fn, i)
        if not upvalue then break end
        look(upvalue, v)
      end
    end
    for name, fn in pairs(value) do look(name, fn) end
    assert.same({}, found)
    assert.is_true(seen[value.date] and seen[value.text])
  end)

  it("builds no table for a literal that map returns", function()
    local out = assert(schemas.parse "name STRING, cents DOUBLE")
    local function cents(row)
      return { name = row.name, cents = row.amount * 100 }
    end
    local loop, building = loops.map(schema, out, cents)
    local last
    for _ = 1, 2 do -- the first time compiles
      building.begin(50000)
      collectgarbage()
      collectgarbage "stop"
      local before = collectgarbage "count"
      loop.run(input, cents)
      last = collectgarbage "count" - before
      collectgarbage "restart"
      building.discard()
    end
    loop.rest()
    assert.is_true(last < 500, ("%d KB for 50,000 rows"):format(last))
  end)
end)
