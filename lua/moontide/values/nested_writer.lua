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

local function is_index(key)
  return type(key) == "number" and key >= 1 and key == math.floor(key)
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

-- How many elements v has, which is a list of them and nothing else: for what the code below does
-- not see at once, with nulls or badly made.
local function sizer(slot)
  return function(v)
    if type(v) ~= "table" then not_a(slot, v) end
    local said, found, last = said_length(slot, v), 0, 0
    for key in next, v do
      if is_index(key) then
        found = found + 1
        if key > last then last = key end
      elseif key ~= "n" then
        convert.refuse(("%s is a list, which has no %s"):format(slot.path(), convert.shown(key)), slot.top)
      end
    end
    if last > (said or found) then
      convert.refuse(said and ("%s has an element %d of %d"):format(slot.path(), last, said)
        or ("%s has an element %d and a nil before it; write mt.null there, or {…, n = %d}"):format(slot.path(),
          last, last), slot.top)
    end
    return said or found
  end
end

local RANK = { boolean = 1, number = 2, string = 3, cdata = 4, table = 5 }

local function before(a, b)
  local x, y = type(a), type(b)
  if x ~= y then return (RANK[x] or 6) < (RANK[y] or 6) end
  if x == "number" or x == "string" then return a < b end
  return value.text(a) < value.text(b)
end

-- The keys of v in order, and how many; the list is used again for the next row.
local function key_lister(slot)
  local list = {}
  return function(v)
    local shape = type(v) == "table" and value.shape_of(v)
    if shape and shape.kind == "MAP" then return shape.keys, #shape.keys end
    if type(v) ~= "table" or getmetatable(v) ~= nil then not_a(slot, v) end
    local n = 0
    for key in next, v do
      n = n + 1
      list[n] = key
    end
    for i = n + 1, #list do list[i] = nil end
    if n > 1 then table.sort(list, before) end
    return list, n
  end
end

-- Refuses a key that is no field. A row is not looked into: like one that map returns, it may have
-- more columns.
local function field_checker(slot)
  local known, names = {}, {}
  for k, child in ipairs(slot.children) do known[child.name], names[k] = true, child.name end
  return function(t)
    if rows.is_row(t) then return end
    local shape = value.shape_of(t)
    if shape and shape.kind ~= "STRUCT" then not_a(slot, t) end
    for key in next, t do
      if not known[key] then
        convert.refuse(("%s has no field %s%s"):format(slot.path(), convert.shown(key),
          suggest.cure(key, names)), slot.top)
      end
    end
  end
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

-- Keys of these types are equal only when Lua's keys are.
local LUA_KEYS = { STRING = true, BINARY = true, BOOLEAN = true, DOUBLE = true }
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
    if n < 2 or LUA_KEYS[key.type] or WHOLE[key.type] and all_numbers(keys, n) then return end
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

local PUT = {
  STRUCT = [[
nest[@] = function(t, i)
  if type(t) ~= "table" then to[@](t) end
  help[@](t)
%s
end]],
  ARRAY = [[
nest[@] = function(list, row)
  local n, at = help[@](list), W.k@
  if n > W.r@ - at then grow[@](at, n) end
  for j = 1, n do
    W.j@ = j
    local v, i = list[j], at + j - 1
%s
  end
  W.k@ = at + n
  W.o@[row + 1] = at + n
end]],
  MAP = [[
nest[@] = function(map, row)
  local list, n = help[@](map)
  local at = W.k@
  if n > W.r@ - at then grow[@](at, n) end
  for j = 1, n do
    local i, key = at + j - 1, list[j]
    keys[@] = key
%s
  end
  distinct[@](list, at, n)
  W.k@ = at + n
  W.o@[row + 1] = at + n
end]],
}

local FIELD = "do local v = t[%q]\n%s end"

local function code_of(slot, code)
  local parts = {}
  if slot.type == "ARRAY" then
    parts[1] = code(slot.children[1])
  elseif slot.type == "MAP" then
    local pair = slot.children[1].children
    parts[1] = ("do local v = key\n%s end\ndo local v = map[key]\n%s end"):format(code(pair[1]), code(pair[2]))
  else
    for k, child in ipairs(slot.children) do parts[k] = FIELD:format(child.name, code(child)) end
  end
  local inner = table.concat(parts, "\n"):gsub("%%", "%%%%")
  return (PUT[slot.type]:gsub("@", tostring(slot.number)):gsub("%%s", inner))
end

local HELP = { STRUCT = field_checker, ARRAY = sizer, MAP = key_lister }

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
      help[n] = HELP[slot.type](slot)
      if slot.type == "MAP" then
        distinct[n], slot.find_key = distinct_checker(slot), key_finder(slot, keys)
      end
      parts[#parts + 1] = code_of(slot, code)
    end
  end
  if #parts == 0 then return end
  local head = ("local help, distinct, keys, grow, %s = ...\n"):format(names)
  local chunk = assert(loadstring(head .. table.concat(parts, "\n"), "=moontide nested"))
  chunk(help, distinct, keys, grow, unpack(values))
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
