-- SPDX-License-Identifier: Apache-2.0
-- The JIT's own events say whether a row function runs as machine code; no clock is asked.
local bytecode = require "moontide.rows.bytecode"
local core = require "moontide._core"
local log = require "moontide.log"
local loops = require "moontide.rows.loops"
local mt = require "moontide"
local schemas = require "moontide.schema"
local support = require "spec.support"
local util = require "jit.util"
local value = require "moontide.values"

local function rows(n)
  local list = {}
  for i = 1, n do list[i] = { n = i, name = "name" .. i % 7, amount = i % 50 - 10, day = "2026-05-01" } end
  return list
end

local function stream() return mt.memoryStream "n INT, name STRING, amount DOUBLE, day DATE" end

-- What is logged while fn runs.
local function warnings(fn)
  local warn, list = log.warn, {}
  log.warn = function(text) list[#list + 1] = text end
  local ok, problem = pcall(fn)
  log.warn = warn
  assert(ok, problem)
  return list
end

-- What the JIT made of the loop in a function: FORL not yet anything, JFORL a trace, IFORL not to be tried again.
local function state_of(loop)
  for pc = 1, util.funcinfo(loop).bytecodes - 1 do
    local name = bytecode.name(bit.band((util.funcbc(loop, pc)), 0xff))
    if name:find "FORL$" then return name end
  end
end

describe("a row function", function()
  local schema = stream()._schema
  local input = support.batch(schema, rows(50000))
  local sel = core.new "int32_t[50000]"

  -- A filter loop, and its loops as Lua functions: run(n) runs it n times over all rows.
  local function filter(fn)
    local made, generate = {}, loadstring
    local loop = loops.filter(schema, fn)
    local function run(n)
      _G.loadstring = function(code, name) -- luacheck: ignore
        local chunk, problem = generate(code, name)
        if name ~= "=moontide filter" then return chunk, problem end
        return function(...)
          made[#made + 1] = chunk(...)
          return made[#made]
        end
      end
      local ok, kept
      for _ = 1, n or 1 do ok, kept = pcall(loop.run, input, fn, sel) end
      loadstring = generate -- luacheck: ignore
      loop.rest()
      assert(ok, kept)
      return kept
    end
    return run, made
  end

  local function bad(row)
    local get = function() return row.amount end
    return get() > 0
  end

  it("is compiled as one loop", function()
    local run, made = filter(function(row) return row.name == "name3" and row.amount > 0 end)
    assert.same({}, warnings(run))
    assert.equal("JFORL", state_of(made[1]))
    assert.equal(1, #made)
  end)

  it("that the JIT gives up on goes on in C, with one warning that names line and cause", function()
    local run, made = filter(bad)
    local here = debug.getinfo(bad, "S").linedefined
    local kept
    local warned = warnings(function() kept = run(3) end)
    assert.equal("IFORL", state_of(made[1]))
    assert.equal(2, #made) -- the second is in C
    assert.equal(39000, kept)
    assert.same({ ("filter: the function at spec/jit_spec.lua:%d is not compiled and takes ten times as long or "
      .. "more: spec/jit_spec.lua:%d: it makes a function in every call; make it once, outside of it")
      :format(here, here + 1) }, warned)
  end)

  it("that the JIT gives up on for some rows goes on in C too", function()
    local run, made = filter(function(row)
      if row.amount > 20 then
        local get = function() return row.amount end
        return get() > 30
      end
      return row.name == "name1"
    end)
    local warned = warnings(function() run(3) end)
    assert.equal(1, #warned)
    assert.matches("is not compiled", warned[1])
    assert.equal(2, #made)
  end)

  it("that the JIT gives up on does not slow another", function()
    local good, made = filter(function(row) return row.amount > 0 end)
    local worse = filter(bad)
    assert.equal(1, #warnings(function()
      for _ = 1, 3 do
        worse()
        good()
      end
    end))
    assert.equal("JFORL", state_of(made[1]))
    assert.equal(1, #made)
    local later, later_made = filter(function(row) return row.amount > 1 end)
    assert.same({}, warnings(later))
    assert.equal("JFORL", state_of(later_made[1]))
  end)

  it("with a loop of its own is compiled", function()
    local run, made = filter(function(row)
      local sum, name = 0, row.name
      for i = 1, #name do sum = sum + name:byte(i) end
      return sum % 2 == 0
    end)
    assert.same({}, warnings(function() run(5) end))
    assert.equal(1, #made)
  end)

  it("whose batches are small is not tried, so that no attempt fails", function()
    local before = loops.small_batch
    loops.small_batch = 256
    local loop = loops.filter(schema, function(row) return row.amount > 0 end)
    local few = support.batch(schema, rows(20))
    assert.same({}, warnings(function()
      for _ = 1, 3000 do
        loop.run(few, function(row) return row.amount > 0 end, sel)
        loop.rest()
      end
    end))
    loops.small_batch = before
  end)

  -- A function that ends in a call cannot be compiled by itself; called often from a function that
  -- runs interpreted, it is marked, and drags everything down that calls it.
  it("that the JIT gives up on does not mark what all share: no helper ends in a call", function()
    local vmdef = require "jit.vmdef"
    local seen, found = {}, {}
    local function is_value(fn)
      local source = debug.getinfo(fn, "S").source
      for _, part in ipairs { "exact", "decimal", "times", "nested_view" } do
        if source:find("moontide/values/" .. part, 1, true) then return true end
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

  -- Runs map over all rows some times.
  local function map(ddl, fn)
    local loop, building = loops.map(schema, assert(schemas.parse(ddl)), fn)
    return function()
      for _ = 1, 3 do
        building.begin(50000)
        local ok, problem = pcall(loop.run, input, fn)
        building.discard()
        loop.rest()
        assert(ok, problem)
      end
    end
  end

  it("that builds nested values does not slow another, whatever the JIT makes of it", function()
    local NESTED = "l ARRAY<DOUBLE>, a ARRAY<STRUCT<x: DOUBLE, y: INT>>, m MAP<STRING, DOUBLE>, s STRUCT<x: INT>"
    local function worse(row)
      local get = function() return row.amount end
      local x = get()
      return { l = { x, 1 }, a = { { x = x, y = 1 }, { x = 2, y = 2 } }, m = { a = x, b = 1 }, s = { x = 1 } }
    end
    local function good(row)
      local x = row.amount
      return { l = { x, 1 }, a = { { x = x, y = 1 }, { x = 2, y = 2 } }, m = { a = x, b = 1 }, s = { x = 1 } }
    end
    for _ = 1, 3 do
      assert.equal(1, #warnings(map(NESTED, worse)))
      assert.same({}, warnings(map("l ARRAY<DOUBLE>", function(row) return { l = { row.amount, 1 } } end)))
      assert.same({}, warnings(map(NESTED, good)))
    end
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
