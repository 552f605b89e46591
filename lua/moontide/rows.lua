-- SPDX-License-Identifier: Apache-2.0
--- Rows: a read-only view that moves over the columns of a batch.
--
-- `row.amount` is an index into a proxy table whose __index is generated for one schema and one
-- function: a chain of names, each reading through one constant FFI struct of pointers (the cursor)
-- that is refilled for every batch. Only so does the JIT see the pointers as plain loads: in
-- upvalues that change, every one is a boxed value and the loop is twice as slow. Each function of
-- a job gets its own view and its own loop, because when the JIT gives up on a function it marks
-- the code that it was called from, and that would be everybody's.
--
-- There are two variants of a view. When no column of the batch has nulls, no null is looked for;
-- otherwise every column is checked, and one without nulls is given a bitmap of ones.
local core = require "moontide._core"
local suggest = require "moontide.suggest"
local value = require "moontide.value"

local M = {}

---@class mt.View
---@field row mt.Row the proxy
---@field cursor ffi.cdata* cursor.i is the row
---@field bind fun(batch: ffi.cdata*) points the cursor at a batch
---@field wake fun() the row may be read from now on
---@field rest fun() and no longer

-- ---- what can be asked of a row: fields, table, text

local shown = setmetatable({}, { __mode = "k" }) -- proxy -> the fields it shows

--- True for a row, or a STRUCT in a row.
function M.is_row(v)
  return type(v) == "table" and shown[v] ~= nil
end

-- Rows with changes (mt.with): their metatable -> what they change; a row's is made once.
local changed, with_meta = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })

--- What mt.with changes in this value: a row, or a STRUCT; nil when it made none.
function M.changes(v)
  local meta = getmetatable(v)
  return meta and changed[meta]
end

--- The fields of a row, or of one with changes.
---@return mt.Field[]?
function M.fields_of(row)
  local own = shown[row]
  if own then return own end
  local base = M.changes(row)
  local shape = base and value.shape_of(base)
  return shape and shape.field.children or base and shown[base]
end

local function plain(v)
  local fields = M.fields_of(v)
  if not fields then return value.plain(v) end
  local copy = {}
  for _, field in ipairs(fields) do copy[field.name] = plain(v[field.name]) end
  return copy
end
M.plain = plain

local function row_text(row)
  local parts = {}
  for i, field in ipairs(M.fields_of(row)) do parts[i] = field.name .. " = " .. value.show(row[field.name]) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

--- The row with other values in some columns, for map to return. Not a copy: it moves with the row.
---@param row mt.Row|table a row, or a STRUCT of one
---@param changes table<string, any> becomes the result; mt.null makes a column null
---@return table
function M.with(row, changes)
  local meta = with_meta[row]
  if not meta then
    meta = { __index = row, __tostring = row_text }
    changed[meta] = row
    if shown[row] then with_meta[row] = meta end
  end
  setmetatable(changes, meta)
  return changes
end

local function read_only(_, key)
  error(("a row is read-only: %s cannot be set; return a table from map, or use withColumn")
    :format(tostring(key)), 2)
end

local RESTING = {
  __index = function(_, key)
    error(("this row's turn is over: %s cannot be read; keep mt.totable(row) instead of the row")
      :format(tostring(key)), 2)
  end,
  __newindex = read_only,
  __tostring = function() return "row (its turn is over)" end,
}

-- ---- code

-- What reads a column through the cursor: values c, offsets o, bytes d, validity v.
local POINTERS = {
  BOOLEAN = "const uint8_t *", TINYINT = "const int8_t *", SMALLINT = "const int16_t *",
  INT = "const int32_t *", BIGINT = "const int64_t *", FLOAT = "const float *",
  DOUBLE = "const double *", DECIMAL = "const uint64_t *", DATE = "const int32_t *",
  TIMESTAMP = "const int64_t *",
}
local INTEGER = "local v = S.c# if v >= -9007199254740992LL and v <= 9007199254740992LL "
  .. "then return tonumber(v) end return v"
local TEXT = "local s = S.o#[i] return str(S.d# + s, S.o#[i + 1] - s)"
local READ = {
  BOOLEAN = "return band(rshift(S.c#[rshift(i, 3)], band(i, 7)), 1) ~= 0",
  TINYINT = "return S.c#[i]", SMALLINT = "return S.c#[i]", INT = "return S.c#[i]",
  FLOAT = "return S.c#[i]", DOUBLE = "return S.c#[i]",
  BIGINT = INTEGER:gsub("S%.c#", "S.c#[i]"), TIMESTAMP = INTEGER:gsub("S%.c#", "S.c#[i]"),
  STRING = TEXT, BINARY = TEXT,
  DATE = "return day_text(S.c#[i])",
  DECIMAL = "return decimal_at(S.c#, i, SCALE)",
  STRUCT = "return R[#]",
  ARRAY = "return nested(#, i)", MAP = "return nested(#, i)",
}

-- All fields that are read through the cursor, parents before children, each with its number.
local function number_fields(fields, into, parent)
  for _, field in ipairs(fields) do
    local slot = { field = field, number = #into + 1, parent = parent }
    into[slot.number] = slot
    if field.type == "STRUCT" then number_fields(field.children, into, slot) end
  end
  return into
end

local function cursor_type(slots)
  local parts = { "struct { int32_t i; int32_t n;" }
  for _, slot in ipairs(slots) do
    local type_, n = slot.field.type, slot.number
    if POINTERS[type_] then parts[#parts + 1] = ("%s c%d;"):format(POINTERS[type_], n) end
    if type_ == "STRING" or type_ == "BINARY" then
      parts[#parts + 1] = ("const int32_t *o%d; const char *d%d;"):format(n, n)
    end
    parts[#parts + 1] = ("const uint8_t *v%d;"):format(n)
  end
  parts[#parts + 1] = "}"
  return core.typeof(table.concat(parts, " "))
end

local function read_code(slot, checked)
  local code = READ[slot.field.type]:gsub("#", slot.number):gsub("SCALE", tostring(slot.field.scale or 0))
  if not checked then return code end
  local check = "if band(rshift(S.v#[rshift(i, 3)], band(i, 7)), 1) == 0 then return nil end "
  return check:gsub("#", slot.number) .. code
end

-- The __index of a row (owner nil) or of a STRUCT in it.
local function index_code(slots, owner, checked)
  local parts = { ("INDEX[%d] = function(_, k) local i = S.i"):format(owner and owner.number or 0) }
  local first = true
  for _, slot in ipairs(slots) do
    if slot.parent == owner then
      parts[#parts + 1] = ("%s k == %q then %s"):format(first and "if" or "elseif", slot.field.name,
        read_code(slot, checked))
      first = false
    end
  end
  parts[#parts + 1] = ("end return unknown(%d, k) end"):format(owner and owner.number or 0)
  return table.concat(parts, "\n  ")
end

local function view_code(slots, checked)
  local parts = {
    "local S, R, INDEX, str, band, rshift, tonumber, day_text, decimal_at, nested, unknown = ...",
  }
  for _, slot in ipairs(slots) do
    if slot.field.type == "STRUCT" then parts[#parts + 1] = index_code(slots, slot, checked) end
  end
  parts[#parts + 1] = index_code(slots, nil, checked)
  return table.concat(parts, "\n")
end

-- ---- binding to a batch

local ones, ones_rows = core.new("uint8_t[8]", 255), 64

local function bits_of_ones(rows)
  if rows > ones_rows then
    ones_rows = math.max(rows, 2 * ones_rows)
    ones = core.new("uint8_t[?]", ones_rows / 8 + 1)
    core.fill(ones, ones_rows / 8 + 1, 255)
  end
  return ones
end

-- Bits [offset, offset + n) from a byte boundary on. Columns of our own begin at 0.
local function aligned(bits, offset, n, keep)
  if offset % 8 == 0 then return bits + offset / 8 end
  local copy = core.new("uint8_t[?]", math.floor(n / 8) + 1)
  for i = 0, n - 1 do
    local from = offset + i
    local one = bit.band(bit.rshift(bits[bit.rshift(from, 3)], bit.band(from, 7)), 1)
    copy[bit.rshift(i, 3)] = bit.bor(copy[bit.rshift(i, 3)], bit.lshift(one, bit.band(i, 7)))
  end
  keep[#keep + 1] = copy
  return copy
end

local function has_nulls(array)
  return array.null_count ~= 0 and array.buffers[0] ~= nil
end

local bytes = core.typeof "const uint8_t *"

-- Points slot's part of the cursor at array, whose parent's rows begin at `offset`.
local function bind_slot(cursor, slot, array, offset, rows, keep)
  local type_, n = slot.field.type, slot.number
  local at = offset + tonumber(array.offset)
  if type_ == "BOOLEAN" then
    cursor["c" .. n] = aligned(core.cast(bytes, array.buffers[1]), at, rows, keep)
  elseif POINTERS[type_] then
    cursor["c" .. n] = core.cast(POINTERS[type_], array.buffers[1]) + at * (type_ == "DECIMAL" and 2 or 1)
  elseif type_ == "STRING" or type_ == "BINARY" then
    cursor["o" .. n] = core.cast("const int32_t *", array.buffers[1]) + at
    cursor["d" .. n] = core.cast("const char *", array.buffers[2])
  end
  cursor["v" .. n] = has_nulls(array) and aligned(core.cast(bytes, array.buffers[0]), at, rows, keep)
    or bits_of_ones(rows)
  return at
end

-- The arrays of slots in a batch, by number, and the first row of each.
local function find_arrays(slots, batch)
  local arrays, offsets = {}, {}
  for _, slot in ipairs(slots) do
    local above = slot.parent and arrays[slot.parent.number] or batch.array
    local base = slot.parent and offsets[slot.parent.number] or 0
    arrays[slot.number] = above.children[slot.field.index]
    offsets[slot.number] = base + tonumber(above.offset)
  end
  return arrays, offsets
end

local function any_nulls(slots, batch)
  local arrays = find_arrays(slots, batch)
  for _, array in ipairs(arrays) do
    if has_nulls(array) then return true end
  end
  return false
end

-- ---- views

local function unknown_field(owners)
  return function(number, key)
    local fields = owners[number]
    local names = {}
    for i, field in ipairs(fields) do names[i] = field.name end
    error(("no column %q%s"):format(tostring(key), suggest.cure(key, names)), 2)
  end
end

local function proxies(schema, slots)
  local owners, made = { [0] = schema.fields }, { [0] = {} }
  for _, slot in ipairs(slots) do
    if slot.field.type == "STRUCT" then
      owners[slot.number], made[slot.number] = slot.field.children, {}
    end
  end
  for number, proxy in pairs(made) do shown[proxy] = owners[number] end
  return owners, made
end

local function build(schema, slots, checked)
  local cursor = cursor_type(slots)()
  local owners, made = proxies(schema, slots)
  local index, bound = {}, {}
  local function nested(number, i)
    return value.read(slots[number].field, bound.arrays[number], bound.offsets[number] + i)
  end
  local code = view_code(slots, checked)
  assert(loadstring(code, "=moontide row"))(cursor, made, index, core.string, bit.band, bit.rshift,
    tonumber, value.day_text, value.decimal_at, nested, unknown_field(owners))
  local metas = {}
  for number in pairs(made) do
    metas[number] = { __index = index[number], __newindex = read_only, __tostring = row_text }
  end
  return {
    row = made[0], cursor = cursor,
    bind = function(batch)
      local rows, keep = tonumber(batch.array.length), {}
      bound.arrays, bound.offsets = find_arrays(slots, batch)
      bound.keep = keep
      for _, slot in ipairs(slots) do
        bind_slot(cursor, slot, bound.arrays[slot.number], bound.offsets[slot.number], rows, keep)
      end
      keep[#keep + 1] = ones
    end,
    wake = function()
      for number, proxy in pairs(made) do setmetatable(proxy, metas[number]) end
    end,
    rest = function()
      for _, proxy in pairs(made) do setmetatable(proxy, RESTING) end
    end,
  }
end

--- The views of one function over one schema, made when first needed.
---@param schema mt.Schema
---@return { pick: fun(batch: ffi.cdata*): mt.View, boolean }
function M.views(schema)
  local slots = number_fields(schema.fields, {})
  local plain_view, checked_view
  return {
    pick = function(batch)
      if any_nulls(slots, batch) then
        checked_view = checked_view or build(schema, slots, true)
        return checked_view, true
      end
      plain_view = plain_view or build(schema, slots, false)
      return plain_view, false
    end,
  }
end

--- Names of the columns that are null in row i of a batch.
---@param schema mt.Schema
---@param batch ffi.cdata*
---@param i integer
---@return string[]
function M.null_columns(schema, batch, i)
  local names = {}
  for _, field in ipairs(schema.fields) do
    local array = batch.array.children[field.index]
    if value.is_null(array, tonumber(batch.array.offset) + i) then names[#names + 1] = field.name end
  end
  return names
end

return M
