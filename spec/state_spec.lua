-- SPDX-License-Identifier: Apache-2.0
local core = require "moontide._core"
local mt = require "moontide"
local states = require "moontide.batch.state"
local support = require "spec.support"
local value = require "moontide.values"

-- A store of bytes in a Lua table, as the core's is one in a file.
local function store()
  local map = {}
  local self = { map = map }
  function self.get(key, n)
    local found = map[core.string(key, n)]
    if found then
      self.kept = core.cstring(found)
      return self.kept, #found
    end
  end
  function self.put(key, n, bytes, length) map[core.string(key, n)] = core.string(bytes, length) end
  function self.delete(key, n) map[core.string(key, n)] = nil end
  function self.next(prefix, _, after)
    local first
    for key in pairs(map) do
      local counts = key:sub(1, #prefix) == prefix and (not after or key > after)
      if counts and (not first or key < first) then first = key end
    end
    if first then return first, self.get(first, #first) end
  end
  function self.count()
    local n = 0
    for _ in pairs(map) do n = n + 1 end
    return n
  end
  return self
end

local function new()
  local one = store()
  return states.of(one), one
end

describe("the state", function()
  it("gives back what was put, until it is deleted", function()
    local state = new()
    assert.is_nil(state:get "x")
    state:put("x", 1)
    state:put("x", { a = { 1, 2 }, b = "text" })
    state:put("y", false)
    assert.same({ a = { 1, 2 }, b = "text" }, state:get "x")
    assert.is_false(state:get "y")
    assert.equal(2, state:count())
    state:delete "x"
    state:delete "never"
    assert.is_nil(state:get "x")
    assert.equal(1, state:count())
  end)

  it("gives copies: to change one stores nothing", function()
    local state, mine = new(), { n = 1 }
    state:put("t", mine)
    mine.n = 2
    state:get "t".n = 3
    assert.same({ n = 1 }, state:get "t")
  end)

  it("has one key for a number, however it is written, and another for its text", function()
    local state = new()
    for _, one in ipairs { 1, 1.0, 1LL, 1ULL } do state:put(one, tostring(one)) end
    state:put("1", "text")
    assert.equal(2, state:count())
    assert.equal("1ULL", state:get(1))
    assert.equal("text", state:get "1")
    state:put(0, "zero")
    assert.equal("zero", state:get(-0.0))
    state:put(2 ^ 60, "big")
    assert.equal("big", state:get(1152921504606846976LL))
    state:put(9007199254740993LL, "exact")
    assert.is_nil(state:get(9007199254740992LL))
    assert.is_nil(state:get(9007199254740992))
    assert.equal("exact", state:get(9007199254740993ULL))
  end)

  it("walks its keys in order: integers, other numbers, text", function()
    local state, names, seen = new(), {
      -9223372036854775807LL - 1, -9007199254740993LL, -2 ^ 32, -1, 0, 1, 255, 256, 2 ^ 32, 9007199254740993LL,
      9223372036854775807LL, -1 / 0, -1e300, -0.5, 0.25, 1.5, 1e19, 1e300, 1 / 0, "", "a", "a\0", "ab", "b",
      "é", "\255",
    }, {}
    for i = #names, 1, -1 do state:put(names[i], i) end
    for key, v in state:pairs() do
      seen[#seen + 1] = v
      assert.is_true(key == names[v], tostring(names[v]))
      assert.equal(type(names[v]), type(key))
    end
    for i = 1, #names do assert.equal(i, seen[i]) end
    assert.equal(#names, #seen)
  end)

  it("walks the text keys of a prefix", function()
    local state, seen = new(), {}
    for _, key in ipairs { "user:1", "user:22", "user", "users", "use", 1 } do state:put(key, key) end
    for key in state:pairs "user:" do seen[#seen + 1] = key end
    assert.same({ "user:1", "user:22" }, seen)
    seen = {}
    for key in state:pairs "" do seen[#seen + 1] = key end
    assert.equal(5, #seen)
  end)

  it("may be changed while it is walked", function()
    local state, seen = new(), {}
    for i = 1, 5 do state:put(i, i) end
    for key, v in state:pairs() do
      seen[#seen + 1] = key
      state:delete(key)
      if key == 1 then state:delete(2) end
      if key == 3 then state:put(4, 40) end
      if key == 4 then assert.equal(40, v) end
    end
    assert.same({ 1, 3, 4, 5 }, seen)
    assert.equal(0, state:count())
  end)

  it("keeps values of rows: decimals, int64, lists with their nulls", function()
    local state = new()
    local stream = mt.memoryStream "d DECIMAL(9,2), b BIGINT, a ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>"
    support.foreach(stream, function(batch)
      for row in batch:rows() do
        state:put("row", mt.totable(row))
        state:put("d", row.d)
        state:put("a", row.a)
        state:put("m", row.m)
        assert.matches("state:put%(whole%): a row is a view that moves on; keep mt.totable%(row%)",
          support.error_of(state.put, state, "whole", row))
      end
    end) { { d = "12.50", b = 9007199254740993LL, a = mt.array(3, { x = 1 }, nil, { x = 3 }), m = { k = 1 } } }
    assert.equal("12.50", tostring(state:get "d"))
    assert.is_true(value.is_decimal(state:get "row".d))
    assert.is_true(state:get "row".b == 9007199254740993LL)
    assert.same({ { x = 1 }, mt.null, { x = 3 } }, state:get "a")
    assert.same({ k = 1 }, state:get "m")
  end)

  it("says what cannot be a key", function()
    local state = new()
    for words, key in pairs {
      ["state:get: a key is text or a number, not a boolean"] = true,
      ["state:get: a key is text or a number, not a table"] = {},
      ["state:get: a key is text or a number, not null"] = mt.null,
      ["state:get: NaN is no key"] = 0 / 0,
      ["a number, not 1.50; mt.str(v) makes text of it"] = value.decimal "1.50",
      ["within the range of int64, and 18446744073709551615 is not"] = 18446744073709551615ULL,
      ["a key has at most 500 bytes, and this one has 501"] = ("x"):rep(501),
    } do
      assert.matches(words, support.error_of(state.get, state, key), 1, true)
    end
    assert.matches("state:get: a key is text or a number, not nil", support.error_of(state.get, state))
    state:put(("x"):rep(500), 1)
    assert.equal(1, state:get(("x"):rep(500)))
  end)

  it("says what cannot be a value", function()
    local state = new()
    assert.matches("state:put(k, nil): to take a key away write state:delete(k)",
      support.error_of(state.put, state, "k", nil), 1, true)
    assert.matches("state:put%(k%): a function cannot be kept", support.error_of(state.put, state, "k", { print }))
    assert.matches("state:put(k): NaN cannot be kept", support.error_of(state.put, state, "k", 0 / 0), 1, true)
    state:put("k", mt.null)
    assert.equal(mt.null, state:get "k")
  end)

  it("says which value is damaged", function()
    local state, one = new()
    state:put("k", { 1, 2 })
    for key, bytes in pairs(one.map) do one.map[key] = bytes:sub(1, -2) end
    assert.matches("state:get%(k%): the value is damaged: it ends too", support.error_of(state.get, state, "k"))
    assert.matches("state:pairs at k: the value is damaged", support.error_of(state:pairs()), 1, true)
  end)

  it("names its methods", function()
    local state = new()
    assert.matches('state has no "counts"; did you mean "count"%?',
      support.error_of(function() return state.counts end))
    assert.matches("get is called with a colon", support.error_of(function() return state.get "x" end))
    assert.matches("write state:put%(key, value%)", support.error_of(function() state.x = 1 end))
  end)
end)
