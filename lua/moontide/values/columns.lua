-- SPDX-License-Identifier: Apache-2.0
--- Values of Lua into columns under construction, exactly or not at all.
--
-- Code is generated for a list of fields: the common case of each type is a store into the
-- column's own buffer; all else goes through `to`, which converts exactly or raises (convert.lua).
-- A nested column is several: each has a number, a slot and code of its own (nested_writer.lua).
-- A column keeps its validity bits past the end at 1, so only a null touches them. Whether text is
-- UTF-8 is asked once for the whole column, eight bytes at a time, instead of 20 ns a string.
local convert = require "moontide.values.convert"
local core = require "moontide._core"
local nesting = require "moontide.values.nested_writer"
local value = require "moontide.values"
local C = core.C

local M = { refuse = convert.refuse, is_misfit = convert.is_misfit, shown = convert.shown }
local misfit = convert.misfit

-- ---- generated code; @ is the column's number, v the value, i the row

local SMALL = [[
if type(v) == "number" and v >= %s and v <= %s and v == floor(v) then W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else W.c@[i] = to[@](v) end]]

local BIG = [[
if type(v) == "number" and v >= -9007199254740992 and v <= 9007199254740992 and v == floor(v) then
  W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else W.c@[i] = to[@](v) end]]

local TEXT = [[
if type(v) == "string" then
  local l, w = #v, W.w@
  if l > W.m@ - w then room[@](i, l) end
  copy(W.d@ + w, v, l)
  W.w@ = w + l
  W.o@[i + 1] = w + l
elseif v == nil or v == NULL then null[@](i)
else to[@](v) end]]

local STORE = {
  TINYINT = SMALL:format("-128", "127"), SMALLINT = SMALL:format("-32768", "32767"),
  INT = SMALL:format("-2147483648", "2147483647"), BIGINT = BIG, TIMESTAMP = BIG,
  DOUBLE = [[
if type(v) == "number" then W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else to[@](v) end]],
  -- a FLOAT takes the nearest float; what is beyond its range would become infinite
  FLOAT = [[
if type(v) == "number" then
  if (v >= 3.4028235677973366e38 or v <= -3.4028235677973366e38) and v - v == 0 then to[@](v) end
  W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else to[@](v) end]],
  BOOLEAN = [[
if v == true then W.c@[rshift(i, 3)] = bor(W.c@[rshift(i, 3)], lshift(1, band(i, 7)))
elseif v == nil or v == NULL then null[@](i)
elseif v ~= false then to[@](v) end]],
  STRING = TEXT, BINARY = TEXT,
  DATE = [[
if v == nil or v == NULL then null[@](i)
else W.c@[i] = day(v) or to[@](v) end]],
  -- a decimal is not compared with nil: that would ask its metatable
  DECIMAL = [[
if type(v) ~= "cdata" and (v == nil or v == NULL) then null[@](i)
else local d = to[@](v) W.c@[2 * i] = d.half[0] W.c@[2 * i + 1] = d.half[1] end]],
}

for _, type_ in ipairs { "STRUCT", "ARRAY", "MAP" } do
  STORE[type_] = "if v == nil or v == NULL then null[@](i) else nest[@](v, i) end"
end

local POINTERS = {
  BOOLEAN = "uint8_t *", TINYINT = "int8_t *", SMALLINT = "int16_t *", INT = "int32_t *",
  BIGINT = "int64_t *", FLOAT = "float *", DOUBLE = "double *", DECIMAL = "uint64_t *",
  DATE = "int32_t *", TIMESTAMP = "int64_t *",
}

local function is_text(slot)
  return slot.type == "STRING" or slot.type == "BINARY"
end

local function is_list(slot)
  return slot.type == "ARRAY" or slot.type == "MAP"
end

-- Of text: offsets, bytes, how many are written and how many there is room for. Of a list: offsets,
-- elements written, elements there is room for, and which of its row's is being written.
local function cursor_type(slots)
  local parts = { "struct {" }
  for n, slot in ipairs(slots) do
    if is_text(slot) then
      parts[#parts + 1] = ("int32_t *o%d; char *d%d; int32_t w%d, m%d;"):format(n, n, n, n)
    elseif is_list(slot) then
      parts[#parts + 1] = ("int32_t *o%d; int32_t k%d, r%d, j%d;"):format(n, n, n, n)
    elseif POINTERS[slot.type] then
      parts[#parts + 1] = ("%s c%d;"):format(POINTERS[slot.type], n)
    end
  end
  parts[#parts + 1] = "}"
  return core.typeof(table.concat(parts, " "))
end

-- Bounded memory of days that were read: a batch has few.
local function day_reader()
  local days, n = {}, 0
  return function(text)
    local found = days[text]
    if found or type(text) ~= "string" then return found end
    found = value.days(text)
    if found then
      if n >= 10000 then days, n = {}, 0 end
      days[text], n = found, n + 1
    end
    return found
  end
end

-- The first row whose text is not UTF-8, or nil. Valid text cut between characters is valid text:
-- the whole must be valid, and no row may begin in the middle of a character.
local function first_invalid(offsets, text, rows)
  local valid = C.mt_utf8_valid(text, offsets[rows])
  for i = 0, valid and rows - 1 or -1 do
    local byte = text[offsets[i]]
    if byte >= -128 and byte < -64 then
      valid = false
      break
    end
  end
  for i = 0, valid and -1 or rows - 1 do
    if not C.mt_utf8_valid(text + offsets[i], offsets[i + 1] - offsets[i]) then return i end
  end
end

---@class mt.Building columns of one step's result
---@field names string what the generated code uses, for a chunk's head
---@field values any[] what they are
---@field code fun(n: integer): string stores v as row i of column n
---@field begin fun(rows: integer) fresh columns with room
---@field grow fun(rows: integer, more: integer) room for more rows behind those
---@field verify fun(rows: integer, cursor: { i: integer }, only: table<string, true>?) what only whole
---columns show (of these names); at the row's i
---@field finish fun(rows: integer): ffi.cdata*[] the columns as arrays; the caller's
---@field discard fun()

local function expect_room(status)
  if status ~= 0 then M.refuse((core.failure())) end
end

-- Points W at what the slot's column has now.
local function point(W, slot)
  local n, column = slot.number, slot.column
  if is_text(slot) then
    W["o" .. n], W["d" .. n] = column.offsets, core.cast("char *", column.values)
    W["m" .. n] = column.values_cap
  elseif is_list(slot) then
    W["o" .. n] = column.offsets
  elseif POINTERS[slot.type] then
    W["c" .. n] = core.cast(POINTERS[slot.type], column.values)
  end
end

-- What follows runs within compiled loops: no closures, and those beside a slot (the fields of a
-- STRUCT, theirs, …, which have its rows) are reached by recursion.

-- Tells the columns how far generated code has written them.
local function settle(W, slot, rows)
  slot.column.length = rows
  if is_text(slot) then slot.column.values_len = W["w" .. slot.number] end
  if slot.type == "STRUCT" then
    for k = 1, #slot.children do settle(W, slot.children[k], rows) end
  end
end

-- Room for more rows in a slot and those beside it.
local function grow_beside(W, slot, more)
  expect_room(C.mt_column_reserve(slot.column, more, 0, core.err))
  point(W, slot)
  if slot.type == "STRUCT" then
    for k = 1, #slot.children do grow_beside(W, slot.children[k], more) end
  end
end

-- A slot's helpers for generated code: a null in row i, room for more text or more elements, the
-- conversion.
local function helpers(W, slot)
  local n, to_type, is_struct = slot.number, convert.to[slot.type], slot.type == "STRUCT"
  local function null(i)
    local column = slot.column
    if slot.role == "key" then misfit(slot, "%s is null; a map has no null key") end
    if not slot.nullable then misfit(slot, "%s is NOT NULL and is null here") end
    if is_struct then settle(W, slot, i) else column.length = i end
    expect_room(C.mt_column_add_null(column, core.err))
  end
  local function room(i, more)
    slot.column.length, slot.column.values_len = i, W["w" .. n]
    expect_room(C.mt_column_reserve(slot.column, 0, more, core.err))
    point(W, slot)
  end
  local function grow(at, more)
    if at + more > 2147483647 then
      M.refuse("a column would have more than 2^31 elements in one batch; make the batch smaller "
        .. "(maxOffsetsPerTrigger, maxBatchBytes)", slot.top)
    end
    settle(W, slot.children[1], at)
    grow_beside(W, slot.children[1], more)
    W["r" .. n] = slot.children[1].column.capacity
  end
  local function to(v)
    local made = to_type(slot, v) -- no tail call: see exact.lua
    return made
  end
  return null, room, to, grow
end

-- The slot's column and those inside it, where the core has put them.
local function attach(slot, column)
  slot.column = column
  for k, child in ipairs(slot.children) do attach(child, column.children + (k - 1)) end
end

-- An empty column with room. Lists get room for as many elements as they had last time, so that
-- growing, which is not compiled, is rare.
local function begin(W, slot, rows)
  local n = slot.number
  expect_room(C.mt_column_reserve(slot.column, rows, is_text(slot) and rows * 8 or 0, core.err))
  if is_text(slot) then W["w" .. n] = 0 end
  if is_list(slot) then
    rows = math.max(rows, slot.last or 0)
    W["k" .. n] = 0
  end
  point(W, slot)
  for _, child in ipairs(slot.children) do begin(W, child, rows) end
  if is_list(slot) then W["r" .. n] = slot.children[1].column.capacity end
end

-- Lengths of a slot and all inside it, when `rows` rows are written.
local function finish(W, slot, rows)
  slot.column.length = rows
  if is_text(slot) then slot.column.values_len = W["w" .. slot.number] end
  if is_list(slot) then
    rows = W["k" .. slot.number]
    slot.last = math.min(rows + math.floor(rows / 8), 2 ^ 24)
  end
  for _, child in ipairs(slot.children) do finish(W, child, rows) end
end

-- Refuses text that is not UTF-8, at its row.
local function verify_text(W, slot, to, rows, cursor)
  local count = rows > 0 and nesting.count(W, slot, rows) or 0
  if count == 0 then return end
  local text, offsets = W["d" .. slot.number], W["o" .. slot.number]
  local bad = first_invalid(offsets, text, count)
  if not bad then return end
  cursor.i = nesting.locate(W, slot, bad)
  to(core.string(text + offsets[bad], offsets[bad + 1] - offsets[bad]))
end

local NAMES = "W, type, floor, NULL, copy, day, rshift, lshift, band, bor, null, room, to, nest, verify"

--- What builds columns of these fields from generated code.
---@param fields mt.Field[]
---@return mt.Building
function M.building(fields)
  local slots = nesting.slots(fields)
  local W = cursor_type(slots)()
  local columns = core.gc(core.new("struct mt_column[?]", #fields), function(list)
    for n = 0, #fields - 1 do C.mt_column_deinit(list + n) end
  end)
  local null, room, to, grow, nest = {}, {}, {}, {}, {}
  for n, slot in ipairs(slots) do null[n], room[n], to[n], grow[n] = helpers(W, slot) end
  local self = { names = NAMES }
  local function code(slot)
    return (STORE[slot.type]:gsub("@", tostring(slot.number)))
  end
  function self.code(n)
    return code(slots[n])
  end
  function self.begin(rows)
    for n, field in ipairs(fields) do
      C.mt_column_deinit(columns + (n - 1))
      C.mt_column_init(columns + (n - 1), field.c)
      attach(slots[n], columns + (n - 1))
      begin(W, slots[n], rows)
    end
  end
  function self.grow(rows, more)
    for n = 1, #fields do
      settle(W, slots[n], rows)
      grow_beside(W, slots[n], more)
    end
  end
  function self.verify(rows, cursor, only)
    for _, slot in ipairs(slots) do
      local wanted = slot.type == "STRING" and (not only or only[slot.top])
      if wanted then verify_text(W, slot, to[slot.number], rows, cursor) end
    end
  end
  function self.finish(rows)
    local arrays = core.new("struct ArrowArray[?]", #fields)
    for n = 1, #fields do
      finish(W, slots[n], rows)
      C.mt_column_finish(columns + (n - 1), arrays + (n - 1))
    end
    return arrays
  end
  function self.discard()
    for n = 0, #fields - 1 do C.mt_column_deinit(columns + n) end
  end
  self.values = { W, type, math.floor, value.NULL, core.copy, day_reader(), bit.rshift, bit.lshift, bit.band,
    bit.bor, null, room, to, nest, self.verify }
  nesting.compile(W, slots, code, NAMES, self.values, grow)
  return self
end

return M
