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
--
-- A row must not be read after its turn, and one proxy for all rows cannot tell: kept in one turn and
-- read in another it would show the wrong row. So it serves only functions whose code keeps the row
-- in their own hands (escape.lua), which are most. For the others each turn has a proxy of its own,
-- and when the turn is over that proxy answers with an error for good.
--
-- An ARRAY or MAP of a row is a copy that could be changed without a word (nested_view.lua). Where the
-- code does not show that it is not (writes.lua), what a turn gave out is compared at its end.
--
-- A third way to read is for functions that the JIT has given up on: __index in C (script_rows.c),
-- since interpreted each access through FFI costs as much as a compiled loop over thirty rows.
local core = require "moontide._core"
local crows = require "moontide._rows"
local suggest = require "moontide.suggest"
local value = require "moontide.values"
local C = core.C

local M = {}

---@class mt.View
---@field row mt.Row the proxy that is every row in turn
---@field cursor ffi.cdata* cursor.i is the row; n (rows) and turn are those of batch/views.lua
---@field names string what the code of turns uses, for a chunk's head
---@field values any[] what they are, without holes
---@field turn string code that makes P the row of this turn
---@field over string code that ends it
---@field c userdata? the row for C, when this view is for interpreted functions
---@field live table? the metatable of a turn's own proxy
---@field finish (fun(row: mt.Row)|table)? ends the turn of such a proxy: a function, or the metatable after it
---@field bind fun(batch: ffi.cdata*) points the cursor at a batch
---@field wake fun() rows may be read from now on
---@field rest fun() and no longer
---@field kill fun() after an error: what is left of the turn is never read again

-- ---- what can be asked of a row: fields, table, text

-- Keys of a row's metatable: the fields it shows; that all turns have this proxy, and then the metatable
-- of such a row with changes. BASE, in that metatable: what mt.with changes.
local SHOWN, REUSED, WITH, BASE = {}, {}, {}, {}

local function meta_of(v)
  local meta = type(v) == "table" and getmetatable(v)
  return type(meta) == "table" and meta or nil
end

--- True for a row, or a STRUCT in a row.
---@param v any
---@return boolean
function M.is_row(v)
  local meta = meta_of(v)
  return meta ~= nil and rawget(meta, SHOWN) ~= nil
end

--- What mt.with changes in this value: a row, or a STRUCT; nil when it made none.
---@param v any
---@return table?
function M.changes(v)
  local meta = meta_of(v)
  local row = meta and rawget(meta, BASE)
  return row
end

--- The fields of a row, or of one with changes; nil for anything else.
---@param row any
---@return mt.Field[]?
function M.fields_of(row)
  local meta = meta_of(row)
  if not meta then return nil end
  local own = rawget(meta, SHOWN)
  if own then return own end
  local base = rawget(meta, BASE)
  local shape = base and value.shape_of(base)
  return shape and shape.field.children or base and M.fields_of(base)
end

local function plain(v)
  local fields = M.fields_of(v)
  if not fields then return value.plain(v) end
  local copy = {}
  for _, field in ipairs(fields) do copy[field.name] = plain(v[field.name]) end
  return copy
end
M.plain = plain

--- All rows as plain tables, to keep.
---@param schema mt.Schema
---@param array ffi.cdata* struct ArrowArray of a batch
---@return table<string, any>[]
function M.tables(schema, array)
  local list, offset = {}, tonumber(array.offset)
  for i = 1, tonumber(array.length) do
    local row = {}
    for _, field in ipairs(schema.fields) do
      row[field.name] = plain(value.read(field, array.children[field.index], offset + i - 1))
    end
    list[i] = row
  end
  return list
end

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
  local own = getmetatable(row)
  local meta = own and rawget(own, WITH)
  if not meta then
    meta = { __index = row, __tostring = row_text, [BASE] = row }
    if own and rawget(own, REUSED) then own[WITH] = meta end
  end
  setmetatable(changes, meta)
  return changes
end

local function read_only(_, key)
  error(("a row is read-only: %s cannot be set; return a table from map, or use withColumn")
    :format(tostring(key)), 2)
end

local function changed_value(name, lines)
  local words = ("a value of a row is read-only: %s was changed"):format(name)
  if lines[1] and lines[1] > 0 then words = ("%s (line %s)"):format(words, table.concat(lines, " or ")) end
  return words .. "; mt.totable(value) gives a table to change"
end

local function is_over(_, key)
  error(("this row's turn is over: %s cannot be read; keep mt.totable(row) instead of the row")
    :format(tostring(key)), 2)
end

local function live_meta(index, fields, how)
  return { __index = index, __newindex = read_only, __tostring = row_text, [SHOWN] = fields,
    [REUSED] = not how.own }
end

local function resting_text() return "row (its turn is over)" end

local function resting_meta(fields)
  return { __index = is_over, __newindex = read_only, __tostring = resting_text, [SHOWN] = fields }
end

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
  STRUCT = "return R[#]OWN",
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
  local parts = { "struct { int32_t i, n, turn;" }
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

local function read_code(slot, how)
  local code = READ[slot.field.type]:gsub("OWN", how.own and " or own(#)" or "")
  code = code:gsub("#", slot.number):gsub("SCALE", tostring(slot.field.scale or 0))
  if not how.checked then return code end
  local check = "if band(rshift(S.v#[rshift(i, 3)], band(i, 7)), 1) == 0 then return nil end "
  return check:gsub("#", slot.number) .. code
end

-- The __index of a row (owner nil) or of a STRUCT in it.
local function index_code(slots, owner, how)
  local parts = { ("INDEX[%d] = function(_, k) local i = S.i"):format(owner and owner.number or 0) }
  local first = true
  for _, slot in ipairs(slots) do
    if slot.parent == owner then
      parts[#parts + 1] = ("%s k == %q then %s"):format(first and "if" or "elseif", slot.field.name,
        read_code(slot, how))
      first = false
    end
  end
  parts[#parts + 1] = ("end return unknown(%d, k) end"):format(owner and owner.number or 0)
  return table.concat(parts, "\n  ")
end

local function view_code(slots, how)
  local parts = {
    "local S, R, INDEX, str, band, rshift, tonumber, day_text, decimal_at, nested, unknown, own = ...",
  }
  for _, slot in ipairs(slots) do
    if slot.field.type == "STRUCT" then parts[#parts + 1] = index_code(slots, slot, how) end
  end
  parts[#parts + 1] = index_code(slots, nil, how)
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

---@class mt.HowToRead
---@field checked boolean? nulls are looked for
---@field own boolean? each turn has proxies of its own
---@field in_c boolean? for a function that runs interpreted
---@field watched integer[]? lines of the job that may change what they read; each turn's end looks

-- The fields of the row (0) and of each STRUCT in it, by number.
local function owners_of(schema, slots)
  local owners = { [0] = schema.fields }
  for _, slot in ipairs(slots) do
    if slot.field.type == "STRUCT" then owners[slot.number] = slot.field.children end
  end
  return owners
end

local function unknown_field(fields, key, level)
  local names = {}
  for i, field in ipairs(fields) do names[i] = field.name end
  error(("no column %q%s"):format(tostring(key), suggest.cure(key, names)), level)
end

-- The __index of each owner, generated.
local function compile_index(slots, how, cursor, R, owners, nested, own)
  local index = {}
  local function unknown(number, key) unknown_field(owners[number], key, 3) end
  assert(loadstring(view_code(slots, how), "=moontide row"))(cursor, R, index, core.string, bit.band,
    bit.rshift, tonumber, value.day_text, value.decimal_at, nested, unknown, own)
  return index
end

-- The same in C; what C cannot make it asks for here.
local function c_index(slots, c, R, owners, nested, own)
  local index = {}
  for number, fields in pairs(owners) do
    local numbers = {}
    for _, slot in ipairs(slots) do
      if (slot.parent and slot.parent.number or 0) == number then numbers[slot.field.name] = slot.number end
    end
    index[number] = crows.index(c, numbers, function(key, at, i)
      if at == 0 then unknown_field(fields, key, 4) end
      if not owners[at] then return nested(at, i) end
      return R[at] or own(at)
    end)
  end
  return index
end

local function c_types(slots)
  local types = {}
  for _, slot in ipairs(slots) do types[slot.number] = tonumber(C.mt_schema_type(slot.field.c)) end
  return types
end

local function bind_c(c, cursor, slots, bound)
  local addresses, firsts = {}, {}
  for _, slot in ipairs(slots) do
    addresses[slot.number] = core.address(bound.arrays[slot.number])
    firsts[slot.number] = bound.offsets[slot.number]
  end
  crows.bind(c, core.address(core.cast("void *", cursor)), addresses, firsts)
end

-- Metatables of rows in their turn and after it, and R: the proxies of this turn, by number.
local function turns(index, owners, R, how)
  local live, resting = {}, {}
  for number, fields in pairs(owners) do
    live[number], resting[number] = live_meta(index[number], fields, how), resting_meta(fields)
    if number == 0 or not how.own then R[number] = setmetatable({}, resting[number]) end
  end
  return live, resting
end

-- Remembers what a turn gave out of ARRAYs and MAPs; what looks at its end whether they are unchanged.
local function watcher(slots, bound, lines)
  local given, numbers, at, n = {}, {}, {}, 0
  local function note(v, number, i)
    n = n + 1
    given[n], numbers[n], at[n] = v, number, i
  end
  local function look()
    local to = n
    n = 0
    for k = 1, to do
      local v, number = given[k], numbers[k]
      given[k] = nil
      if not value.is_as_read(v, slots[number].field, bound.arrays[number], bound.offsets[number] + at[k]) then
        error(changed_value(slots[number].field.name, lines), 0)
      end
    end
  end
  return note, look, function() n = 0 end
end

-- What ends the turn of a proxy of its own, with the STRUCTs that were read of it.
local function ender(resting, R, look)
  return function(row)
    setmetatable(row, resting[0])
    for number in pairs(resting) do
      if number > 0 and R[number] then
        setmetatable(R[number], resting[number])
        R[number] = nil
      end
    end
    if look then look() end
  end
end

-- How the loops' code takes a row and gives it back.
local function turn_code(view, how, has_structs)
  if not how.own then
    view.turn, view.over = "", ""
  else
    view.turn = "local P = setmetatable({}, LIVE)"
    view.over = has_structs and "finish(P)" or "setmetatable(P, RESTING)"
  end
  return view
end

local function build(schema, slots, how)
  local cursor, owners, R, bound = cursor_type(slots)(), owners_of(schema, slots), {}, {}
  local live, resting, note, look, forget
  if how.watched then note, look, forget = watcher(slots, bound, how.watched) end
  local function nested(number, i)
    local v = value.read(slots[number].field, bound.arrays[number], bound.offsets[number] + i)
    if note and v ~= nil then note(v, number, i) end
    return v
  end
  local function own(number)
    R[number] = setmetatable({}, live[number])
    return R[number]
  end
  local c = how.in_c and crows.new(c_types(slots)) or nil
  local index = c and c_index(slots, c, R, owners, nested, own)
    or compile_index(slots, how, cursor, R, owners, nested, own)
  live, resting = turns(index, owners, R, how)
  local has_structs = look ~= nil or next(owners, next(owners)) ~= nil
  local finish = ender(resting, R, look)
  local view = {
    row = R[0], cursor = cursor, c = c, live = how.own and live[0] or nil,
    finish = how.own and (has_structs and finish or resting[0]) or nil,
    names = "S, P, LIVE, RESTING, finish, setmetatable",
    values = { cursor, R[0], live[0], resting[0], finish, setmetatable },
  }
  function view.bind(batch)
    local rows, keep = tonumber(batch.array.length), { ones }
    bound.arrays, bound.offsets = find_arrays(slots, batch)
    bound.keep = keep
    if forget then forget() end
    if c then return bind_c(c, cursor, slots, bound) end
    for _, slot in ipairs(slots) do
      bind_slot(cursor, slot, bound.arrays[slot.number], bound.offsets[slot.number], rows, keep)
    end
    keep[#keep + 1] = ones
  end
  function view.wake()
    for number, proxy in pairs(R) do setmetatable(proxy, live[number]) end
  end
  function view.rest()
    for number, proxy in pairs(R) do setmetatable(proxy, resting[number]) end
  end
  function view.kill()
    for _, meta in pairs(live) do meta.__index, meta.__tostring = is_over, resting_text end
  end
  return turn_code(view, how, has_structs)
end

--- The views of one function over one schema, made when first needed.
---@param schema mt.Schema
---@param own boolean each turn needs a row of its own
---@param watched integer[]? lines that may change a value of the row; each turn has a row of its own then
---@return { pick: (fun(batch: ffi.cdata*, in_c: boolean): mt.View), drop: fun(view: mt.View) }
function M.views(schema, own, watched)
  local slots, made = number_fields(schema.fields, {}), {}
  return {
    pick = function(batch, in_c)
      local checked = not in_c and any_nulls(slots, batch)
      local kind = in_c and "c" or checked and "checked" or "plain"
      made[kind] = made[kind] or build(schema, slots, { checked = checked, own = own or watched ~= nil,
        in_c = in_c, watched = watched })
      return made[kind]
    end,
    drop = function(view)
      for kind, one in pairs(made) do
        if one == view then made[kind] = nil end
      end
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
