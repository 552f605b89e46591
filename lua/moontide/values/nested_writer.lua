-- SPDX-License-Identifier: Apache-2.0
--- Nested columns while they are written: the columns a field consists of, and code for each.
--
-- A slot is one column of the tree. The fields of a STRUCT have the same rows as it; the elements of
-- an ARRAY and the entries of a MAP have rows of their own, counted in W.k<number> of the list. The
-- code of a nested slot is a function of its own, nest[number](v, i), made anew for each building:
-- see row.lua for why nothing is shared.
--
-- Lua tables forget: a trailing nil, the order of keys, that 5 and 5LL are one key. So a list must
-- say its length where it has nulls, keys are written in one order always (a replay makes the same
-- columns), and keys that may be equal by value are compared as they are stored.
local convert = require "moontide.values.convert"
local core = require "moontide._core"
local rows = require "moontide.rows.row"
local suggest = require "moontide.suggest"
local value = require "moontide.values"

local M = {}

local next = next -- a job's own refuses rows

---@class mt.Slot
---@field number integer
---@field type string
---@field ddl string
---@field nullable boolean
---@field precision integer of a DECIMAL
---@field scale integer of a DECIMAL
---@field top string the column it belongs to
---@field role "field"|"element"|"entries"|"key"|"value"
---@field list mt.Slot? whose elements its rows are; nil: they are the batch's rows
---@field children mt.Slot[]
---@field path fun(): string where a value goes, "items[2].price"
---@field last integer? elements that a list had in the last batch, and some more
---@field find_key fun(at: integer)? of a MAP
---@field field mt.Field
---@field column ffi.cdata* struct mt_column *, while columns are built

-- ---- slots

local function role_of(parent, k)
  if not parent or parent.type == "STRUCT" and parent.role ~= "entries" then return "field" end
  if parent.role == "entries" then return k == 1 and "key" or "value" end
  return parent.type == "MAP" and "entries" or "element"
end

local function new_slot(slots, field, parent, k)
  local list = parent and (parent.type == "STRUCT" and parent.list or parent.type ~= "STRUCT" and parent) or nil
  local slot = {
    number = #slots + 1, type = field.type, ddl = field.ddl, name = field.name, nullable = field.nullable,
    precision = field.precision, scale = field.scale, role = role_of(parent, k), parent = parent,
    list = list, top = parent and parent.top or field.name, children = {}, field = field,
  }
  slots[slot.number] = slot
  return slot
end

--- All columns that fields consist of: the fields themselves, then what is inside.
---@param fields mt.Field[]
---@return mt.Slot[]
function M.slots(fields)
  local slots, at = {}, 1
  for k, field in ipairs(fields) do new_slot(slots, field, nil, k) end
  while slots[at] do
    local slot = slots[at]
    for k, child in ipairs(slot.field.children or {}) do
      slot.children[k] = new_slot(slots, child, slot, k)
    end
    at = at + 1
  end
  return slots
end

-- Where a value goes, from the elements that the lists above are at.
local function path_of(W, keys, slot)
  local parent = slot.parent
  if not parent then return slot.name end
  local above = path_of(W, keys, parent)
  if slot.role == "field" then return above .. "." .. slot.name end
  if slot.role == "element" then return ("%s[%d]"):format(above, W["j" .. parent.number]) end
  if slot.role == "key" then return "a key of " .. above end
  if slot.role == "entries" then return above end
  local key = keys[slot.list.number]
  return ("%s[%s]"):format(above, type(key) == "string" and convert.shown(key) or value.text(key))
end

-- Sets the key of a MAP's entry for path_of; of text alone, for what is found wrong after the rows.
local function key_finder(slot, keys)
  local key = slot.children[1].children[1]
  return function(at)
    local offsets = key.column.offsets
    keys[slot.number] = key.type == "STRING"
      and core.string(core.cast("const char *", key.column.values) + offsets[at], offsets[at + 1] - offsets[at])
      or "…"
  end
end

-- ---- what a value must be to be a list, a map, a struct

local function not_a(slot, v)
  convert.to[slot.type](slot, v)
end

-- How many elements v says it has; nil: it does not say.
local function said_length(slot, v)
  local shape = value.shape_of(v)
  if shape then return shape.kind == "ARRAY" and shape.n or not_a(slot, v) end
  if getmetatable(v) ~= nil then not_a(slot, v) end
  local n = rawget(v, "n")
  if n ~= nil and not (type(n) == "number" and n >= 0 and n == math.floor(n)) then
    convert.misfit(slot, "%s: n is how many elements the list has, not %s", convert.shown(n))
  end
  return n
end

-- ---- what the generated code asks when a value is not plainly what it should be

-- A table's key in the words of an error.
local function shown_key(key)
  local is_plain = type(key) == "number" or type(key) == "boolean" or type(key) == "cdata"
  return is_plain and value.text(key) or convert.shown(key)
end

-- For a list: how many elements it says it has, and the two ways to be wrong.
local function list_doubts(slot)
  return {
    ask = function(v)
      if type(v) ~= "table" then not_a(slot, v) end
      local said = said_length(slot, v)
      return said
    end,
    stray = function(key)
      convert.refuse(("%s is a list, which has no key %s"):format(slot.path(), shown_key(key)), slot.top)
    end,
    hole = function(said, last)
      convert.refuse(said and ("%s has an element %d of %d"):format(slot.path(), last, said)
        or ("%s has an element %d and a nil before it; write mt.null there, or {…, n = %d}"):format(slot.path(),
          last, last), slot.top)
    end,
  }
end

local RANK = { boolean = 1, number = 2, string = 3, cdata = 4, table = 5 }

local function before(a, b)
  local x, y = type(a), type(b)
  if x ~= y then return (RANK[x] or 6) < (RANK[y] or 6) end
  if x == "number" or x == "string" then return a < b end
  return value.text(a) < value.text(b)
end

-- For a map: the keys of one that has been read from a column, and the order of the others.
local function map_doubts(slot)
  return {
    ask = function(v)
      local shape = type(v) == "table" and value.shape_of(v)
      if shape and shape.kind == "MAP" then return shape.keys end
      if type(v) ~= "table" or getmetatable(v) ~= nil then not_a(slot, v) end
    end,
    before = before,
  }
end

-- For a struct: a row is not looked into; like one that map returns, it may have more columns.
local function struct_doubts(slot)
  local known, names = {}, {}
  for k, child in ipairs(slot.children) do known[child.name], names[k] = true, child.name end
  return {
    known = known,
    ask = function(t)
      if type(t) ~= "table" then not_a(slot, t) end
      local shape = value.shape_of(t)
      if shape and shape.kind ~= "STRUCT" then not_a(slot, t) end
      return rows.is_row(t)
    end,
    stray = function(key)
      convert.refuse(("%s has no field %s%s"):format(slot.path(), shown_key(key), suggest.cure(key, names)),
        slot.top)
    end,
  }
end

-- ---- keys that are equal

local WIDTH = { TINYINT = 1, SMALLINT = 2, INT = 4, BIGINT = 8, FLOAT = 4, DOUBLE = 8, DECIMAL = 16,
  DATE = 4, TIMESTAMP = 8 }

-- Row i of a slot's column, as bytes that are equal for equal values.
local function stored(slot, i)
  local column = slot.column
  local bits = column.validity
  if bits ~= nil and bit.band(bit.rshift(bits[bit.rshift(i, 3)], bit.band(i, 7)), 1) == 0 then return "-" end
  local bytes, width = core.cast("const char *", column.values), WIDTH[slot.type]
  if width then return core.string(bytes + i * width, width) end
  if slot.type == "BOOLEAN" then
    return tostring(bit.band(bit.rshift(column.values[bit.rshift(i, 3)], bit.band(i, 7)), 1))
  end
  local parts, from, to = {}, i, i + 1
  if slot.type ~= "STRUCT" then from, to = column.offsets[i], column.offsets[i + 1] end
  if #slot.children == 0 then return ("%d:%s"):format(to - from, core.string(bytes + from, to - from)) end
  for at = from, to - 1 do
    for _, child in ipairs(slot.children) do parts[#parts + 1] = stored(child, at) end
  end
  return ("%d(%s)"):format(to - from, table.concat(parts))
end

local WHOLE = { TINYINT = true, SMALLINT = true, INT = true, BIGINT = true }

local function all_numbers(keys, n)
  for i = 1, n do
    if type(keys[i]) ~= "number" then return false end
  end
  return true
end

-- Refuses entries [at, at + n) of a MAP when two have one key. Spark refuses it too.
local function distinct_checker(slot)
  local key = slot.children[1].children[1]
  return function(keys, at, n)
    if WHOLE[key.type] and all_numbers(keys, n) then return end
    local seen = {}
    for i = 0, n - 1 do
      local bytes = stored(key, at + i)
      if seen[bytes] then
        convert.misfit(slot, "%s: the keys %s and %s are equal", value.text(keys[seen[bytes]]), value.text(keys[i + 1]))
      end
      seen[bytes] = i + 1
    end
  end
end

-- ---- code; @ is the slot's number

-- Loops within the loop over rows are what the JIT is bad at: each is a trace of its own, and which of
-- them meets which decides whether the whole becomes one. So what is short goes without a loop: lists
-- and maps of up to SHORT entries, structs of up to FEW fields.
local SHORT, FEW = 4, 16

-- size(v): how many elements v has, which is a list of them and nothing else.
local SIZE = [[
local function long(v, said)
  local found, last = 0, 0
  for key in next, v do
    if type(key) == "number" and key >= 1 and key == floor(key) then
      found = found + 1
      if key > last then last = key end
    elseif key ~= "n" then
      stray(key)
    end
  end
  if last > (said or found) then hole(said, last) end
  return said or found
end
local function size(v)
  local said
  if type(v) ~= "table" or getmetatable(v) ~= nil or v.n ~= nil then said = ask(v) end
  local n, key = 0, next(v)
  %s
  if key == nil and n <= (said or n) then return said or n end
  n = long(v, said)
  return n
end]]

-- keys_of(v): the keys of v in order, and how many. The list is used again for the next row.
local KEYS = [[
local kept = {}
local function long(v)
  local n = 0
  for key in next, v do
    n = n + 1
    local at = n
    while n <= 32 and at > 1 and before(key, kept[at - 1]) do
      kept[at] = kept[at - 1]
      at = at - 1
    end
    kept[at] = key
  end
  if n > 32 then
    for i = n + 1, #kept do kept[i] = nil end
    sort(kept, before)
  end
  return n
end
local function keys_of(v)
  if type(v) ~= "table" or getmetatable(v) ~= nil then
    local keys = ask(v)
    if keys then return keys, #keys end
  end
  local a = next(v)
  if a == nil then return kept, 0 end
  local b = next(v, a)
  if b == nil then
    kept[1] = a
    return kept, 1
  end
  if next(v, b) == nil then
    if before(b, a) then a, b = b, a end
    kept[1], kept[2] = a, b
    return kept, 2
  end
  local n = long(v)
  return kept, n
end]]

local PUT = {
  STRUCT = [[
do
local known, ask, stray = help[@].known, help[@].ask, help[@].stray
local function check(t)
  if type(t) ~= "table" or getmetatable(t) ~= nil then
    if ask(t) then return end
  end
  %s
end
nest[@] = function(t, i)
  check(t)
%s
end
end]],
  ARRAY = [[
do
local ask, stray, hole = help[@].ask, help[@].stray, help[@].hole
%s
local function put(v, i, j)
  W.j@ = j
%s
end
nest[@] = function(list, row)
  local n, at = size(list), W.k@
  if n > W.r@ - at then grow[@](at, n) end
  if n <= SHORT then
    %s
  else
    for j = 1, n do put(list[j], at + j - 1, j) end
  end
  W.k@ = at + n
  W.o@[row + 1] = at + n
end
end]],
  MAP = [[
do
local ask, before = help[@].ask, help[@].before
%s
local function put(map, key, i)
  keys[@] = key
%s
end
nest[@] = function(map, row)
  local list, n = keys_of(map)
  local at = W.k@
  if n > W.r@ - at then grow[@](at, n) end
  if n <= SHORT then
    %s
  else
    for j = 1, n do put(map, list[j], at + j - 1) end
  end
%s
  W.k@ = at + n
  W.o@[row + 1] = at + n
end
end]],
}

local FIELD = "do local v = t[%q]\n%s end"

-- A slot's template with its %s filled in, in order, with what may hold any characters.
local function filled(slot, template, ...)
  local parts, n = { ... }, 0
  return (template:gsub("@", tostring(slot.number)):gsub("%%s", function()
    n = n + 1
    return parts[n]
  end))
end

-- "step(1) step(2) …", the next within the condition of the one before.
local function chain(n, step)
  local parts = {}
  for k = 1, n do parts[k] = step:gsub("#", k) end
  return table.concat(parts, " ") .. (" end"):rep(n)
end

local function struct_code(slot, code)
  local parts, n = {}, #slot.children
  for k, child in ipairs(slot.children) do parts[k] = FIELD:format(child.name, code(child)) end
  -- more keys than fields: one of them is none
  local check = n <= FEW and "local key = next(t) "
    .. chain(n, "if key ~= nil then if not known[key] then stray(key) end key = next(t, key)")
    .. " if key ~= nil then stray(key) end"
    or "for key in next, t do if not known[key] then stray(key) end end"
  return filled(slot, PUT.STRUCT, check, table.concat(parts, "\n"))
end

local function array_code(slot, code)
  local size = filled(slot, SIZE, chain(SHORT, "if key == # then n = # key = next(v, #)"))
  return filled(slot, PUT.ARRAY, size, code(slot.children[1]),
    chain(SHORT, "if n > #-1 then put(list[#], at + #-1, #)"))
end

-- Keys of these types are equal only when Lua's keys are.
local LUA_KEYS = { STRING = true, BINARY = true, BOOLEAN = true, DOUBLE = true }

local function map_code(slot, code)
  local key, of_key = unpack(slot.children[1].children)
  local put = ("do local v = key\n%s end\ndo local v = map[key]\n%s end"):format(code(key), code(of_key))
  return filled(slot, PUT.MAP, KEYS, put, chain(SHORT, "if n > #-1 then put(map, list[#], at + #-1)"),
    LUA_KEYS[key.type] and "" or ("  if n > 1 then distinct[%d](list, at, n) end"):format(slot.number))
end

local CODE = { STRUCT = struct_code, ARRAY = array_code, MAP = map_code }
local DOUBTS = { STRUCT = struct_doubts, ARRAY = list_doubts, MAP = map_doubts }

--- Makes nest[number] for every nested slot.
---@param W ffi.cdata* the cursor
---@param slots mt.Slot[]
---@param code fun(slot: mt.Slot): string stores v as row i of the slot's column
---@param names string of what the code uses
---@param values any[] what these are
---@param grow table<integer, fun(at: integer, more: integer)> room for more elements
function M.compile(W, slots, code, names, values, grow)
  local help, distinct, keys, parts = {}, {}, {}, {}
  for n, slot in ipairs(slots) do
    slot.path = function() return path_of(W, keys, slot) end
    if #slot.children > 0 and slot.role ~= "entries" then
      help[n] = DOUBTS[slot.type](slot)
      if slot.type == "MAP" then
        distinct[n], slot.find_key = distinct_checker(slot), key_finder(slot, keys)
      end
      parts[#parts + 1] = CODE[slot.type](slot, code)
    end
  end
  if #parts == 0 then return end
  local head = ("local help, distinct, keys, grow, next, getmetatable, sort, SHORT, %s = ...\n"):format(names)
  local chunk = assert(loadstring(head .. table.concat(parts, "\n"), "=moontide nested"))
  chunk(help, distinct, keys, grow, next, getmetatable, table.sort, SHORT, unpack(values))
end

-- ---- after the rows

--- How many rows a slot's column has.
---@param W ffi.cdata*
---@param slot mt.Slot
---@param n integer rows of the batch
---@return integer
function M.count(W, slot, n)
  return slot.list and W["k" .. slot.list.number] or n
end

--- The batch's row that has row `at` of a slot's column inside it; path() then names the value.
---@param W ffi.cdata*
---@param slot mt.Slot
---@param at integer
---@return integer
function M.locate(W, slot, at)
  local list = slot.list
  while list do
    local offsets, row = W["o" .. list.number], 0
    while offsets[row + 1] <= at do row = row + 1 end
    if list.type == "ARRAY" then W["j" .. list.number] = at - offsets[row] + 1 else list.find_key(at) end
    list, at = list.list, row
  end
  return at
end

return M
