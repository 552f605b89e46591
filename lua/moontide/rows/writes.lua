-- SPDX-License-Identifier: Apache-2.0
--- Proves from its bytecode that a function changes no ARRAY, MAP or STRUCT that it read of its row.
--
-- Such a value is a plain table underneath (nested_view.lua): nothing is asked when an element that
-- is there is set, and the change would be one of a copy, without a word. Of most functions the code
-- shows that they set nothing but tables of their own and give no such value to a function that
-- might. For all others row.lua looks at each turn's end whether what it gave out is as it was.
--
-- The proof follows through the code which registers may hold the row, something read of it, or a
-- function known to change nothing. What was once put into a table or an upvalue may come out of any.
local bytecode = require "moontide.rows.bytecode"
local util = require "jit.util"

local M = {}

--- Functions that may be given a value of a row: they change none. "copy": what they give is another.
M.harmless = {} ---@type table<function, true|"copy">
for _, fn in ipairs { ipairs, pairs, next, unpack, select, assert, rawget } do M.harmless[fn] = true end
for _, fn in ipairs { type, tostring, tonumber, rawequal, print, table.concat } do M.harmless[fn] = "copy" end
for _, library in ipairs { math, string } do
  for _, fn in next, library do
    if type(fn) == "function" then M.harmless[fn] = "copy" end
  end
end

-- What a register may hold: ROW, VALUE (read of it), { is = … } a known function or module, nil all else.
local ROW, VALUE = "row", "value"

local NESTED = { STRUCT = true, ARRAY = true, MAP = true }

---@class mt.NestedNames what of the fields of a schema is nested
---@field any boolean an ARRAY or MAP
---@field deep boolean such in one, or a STRUCT
---@field names table<string, "row"|"value"> fields that are ARRAY, MAP or STRUCT, at any depth; "row": a STRUCT is
---@field of_maps boolean a MAP has such values, under names that nobody knows

--- What of a schema's fields is nested.
---@param fields mt.Field[]
---@param into mt.NestedNames?
---@return mt.NestedNames
function M.nested_names(fields, into)
  into = into or { any = false, deep = false, of_maps = false, names = {} }
  for _, field in ipairs(fields) do
    if field.type == "STRUCT" then into.names[field.name] = ROW end
    if field.type == "ARRAY" or field.type == "MAP" then
      into.any, into.names[field.name] = true, into.names[field.name] or VALUE
      for _, inner in ipairs(field.type == "MAP" and field.children[1].children or field.children) do
        if NESTED[inner.type] then into.deep, into.of_maps = true, into.of_maps or field.type == "MAP" end
      end
    end
    M.nested_names(field.children or {}, into)
  end
  return into
end

local function join(a, b)
  if a == b then return a end
  if a == ROW or b == ROW then return ROW end
  if a == VALUE or b == VALUE then return VALUE end
  return type(a) == "table" and type(b) == "table" and a.is == b.is and a.upvalue == b.upvalue and a or nil
end

local function is_of_row(state) return state == ROW or state == VALUE end

-- What a module or function of the job's surroundings is known by: where it came from, if an upvalue.
local function known(v, upvalue)
  return (type(v) == "table" or type(v) == "function") and { is = v, upvalue = upvalue } or nil
end

-- A global of fn, also where its globals are laid over others.
local function global(fn, name)
  local own = getfenv(fn)
  local under = rawget(own, name) == nil and getmetatable(own)
  if type(under) == "table" and type(rawget(under, "__index")) == "table" then own = under.__index end
  return rawget(own, name)
end

-- What is read of a module: after something of the row was stored, that may be there but for functions.
local function read_of_known(walk, from, name)
  local v = type(from.is) == "table" and name and rawget(from.is, name)
  if walk.stored and type(v) ~= "function" then return VALUE end
  return known(v, from.upvalue)
end

-- A register's state after something was read of what b holds, under a constant name or not.
local function read_of(walk, b, name)
  if type(b) == "table" then return read_of_known(walk, b, name) end
  local nested = walk.nested
  if b == ROW and name then return nested.names[name] end
  if b == ROW then return ROW end
  if b == VALUE and name then return (nested.names[name] or nested.of_maps) and VALUE or nil end
  if b == VALUE then return nested.deep and VALUE or nil end
  return walk.stored and VALUE or nil
end

local function constant(walk, one) return util.funck(walk.fn, -one.c - 1) end

local function suspect(walk, pc) walk.suspects[pc] = true end

local function set_in(walk, one, pc, at)
  if is_of_row(at[one.b]) then suspect(walk, pc) end
  if is_of_row(at[one.a]) then walk.stored = true end
end

-- The results of a call or of what an iterator gives, from register a on.
local function results(walk, one, at, state)
  local last = one.b == 0 and walk.size or one.a + one.b - 2
  for register = one.a, walk.size do at[register] = register <= last and state or nil end
end

-- Arguments are two above the function: its frame has a slot between.
local function call(walk, one, pc, at, last)
  local callee, of_row = at[one.a], false
  for register = one.a + 2, last do of_row = of_row or is_of_row(at[register]) end
  local is_harmless = type(callee) == "table" and M.harmless[callee.is]
  if of_row and not is_harmless then suspect(walk, pc) end
  if of_row and is_harmless and callee.upvalue then
    local _, v = debug.getupvalue(walk.fn, callee.upvalue)
    walk.upvalues[callee.upvalue] = v
  end
  return is_harmless ~= "copy" and (of_row or walk.stored) and VALUE or nil
end

local steps = {}

function steps.MOV(_, one, _, at) at[one.a] = at[one.d] end
function steps.KNIL(_, one, _, at)
  for register = one.a, one.d do at[register] = nil end
end
function steps.GGET(walk, one, _, at)
  at[one.a] = walk.kept and VALUE or known(global(walk.fn, util.funck(walk.fn, -one.d - 1)))
end
function steps.UGET(walk, one, _, at)
  local _, v = debug.getupvalue(walk.fn, one.d + 1)
  at[one.a] = walk.kept and VALUE or known(v, one.d + 1)
end
function steps.USETV(walk, one, _, at)
  if is_of_row(at[one.d]) then walk.kept, walk.stored = true, true end
end
function steps.GSET(walk, one, _, at)
  if is_of_row(at[one.a]) then walk.kept, walk.stored = true, true end
end
function steps.TGETS(walk, one, _, at) at[one.a] = read_of(walk, at[one.b], constant(walk, one)) end
function steps.TGETV(walk, one, _, at) at[one.a] = read_of(walk, at[one.b], nil) end
steps.TGETB, steps.TGETR = steps.TGETV, steps.TGETV
steps.TSETS, steps.TSETV, steps.TSETB, steps.TSETR = set_in, set_in, set_in, set_in
function steps.TSETM(walk) walk.stored = true end
function steps.ISTC(_, one, _, at) at[one.a] = join(at[one.a], at[one.d]) end
steps.ISFC = steps.ISTC
function steps.CALL(walk, one, pc, at)
  results(walk, one, at, call(walk, one, pc, at, one.a + one.c))
end
function steps.CALLM(walk, one, pc, at)
  results(walk, one, at, call(walk, one, pc, at, walk.size))
end
function steps.CALLT(walk, one, pc, at) call(walk, one, pc, at, one.a + one.d) end
function steps.CALLMT(walk, one, pc, at) call(walk, one, pc, at, walk.size) end
-- What ipairs and the like gave for a value of a row walks over that.
function steps.ITERC(walk, one, _, at)
  local over = at[one.a - 2]
  results(walk, one, at, is_of_row(over) and walk.nested.deep and VALUE or walk.stored and VALUE or nil)
end
steps.ITERN = steps.ITERC
function steps.FNEW(walk, one, pc, at)
  suspect(walk, pc)
  at[one.a] = nil
end

local function after(walk, pc, at)
  local one, out = walk.code[pc], {}
  for register, state in pairs(at) do out[register] = state end
  local step = steps[one.name]
  if step then
    step(walk, one, pc, out)
  elseif bytecode.is_written(one) then
    out[one.a] = nil
  end
  return out
end

local function next_of(one, pc)
  if one.name:find "^RET" or one.name:find "^CALLM?T$" then return {} end
  if one.name == "JMP" or one.name == "UCLO" or one.name == "ISNEXT" then return { one.target } end
  if one.name:find "^IS" then return { pc + 1, pc + 2 } end
  return { pc + 1, one.target }
end

-- Joins what may be in the registers into what was known at pc; true when that is more.
local function arrive(walk, pc, at)
  local before = walk.at[pc]
  if not before then
    walk.at[pc] = at
    return true
  end
  local merged, is_more = {}, false
  for register = 0, walk.size do
    merged[register] = join(before[register], at[register])
    if merged[register] ~= before[register] then is_more = true end
  end
  walk.at[pc] = merged
  return is_more
end

local function follow(walk, at)
  walk.at = {}
  arrive(walk, 1, at)
  local open = { 1 }
  while #open > 0 do
    local pc = table.remove(open)
    local out = after(walk, pc, walk.at[pc])
    for _, to in pairs(next_of(walk.code[pc], pc)) do
      if walk.code[to] and arrive(walk, to, out) then open[#open + 1] = to end
    end
  end
end

-- The lines of the instructions.
local function lines_of(fn, suspects)
  local lines, seen = {}, {}
  for pc in pairs(suspects) do
    local line = util.funcinfo(fn, pc).currentline
    if not seen[line] then lines[#lines + 1], seen[line] = line, true end
  end
  table.sort(lines)
  return lines
end

---@class mt.Writes
---@field lines integer[] of a function that may change a value of its row
---@field upvalues table<integer, any> the proof that it does not is good for these

--- Where in fn a value of the row that it is given may be changed.
---@param fn function
---@param nested mt.NestedNames
---@return mt.Writes
function M.find(fn, nested)
  if not nested.any then return { lines = {}, upvalues = {} } end
  if not bytecode.is_open(fn) then return { lines = { 0 }, upvalues = {} } end
  local info = util.funcinfo(fn)
  local code = bytecode.decode(fn)
  local walk = { fn = fn, code = code, size = info.stackslots, nested = nested,
    suspects = {}, upvalues = {}, stored = false, kept = false }
  if info.isvararg then walk.suspects[0] = true end
  for pc, one in ipairs(code) do
    if one.name:find "^J" and one.name ~= "JMP" then walk.suspects[pc] = true end
  end
  local stored, kept
  repeat
    stored, kept = walk.stored, walk.kept
    follow(walk, { [0] = info.params > 0 and ROW or nil })
  until walk.stored == stored and walk.kept == kept
  return { lines = lines_of(fn, walk.suspects), upvalues = walk.upvalues }
end

--- True when what was found of a closure is so of another over the same code.
---@param fn function
---@param found mt.Writes
---@return boolean
function M.holds(fn, found)
  for n, v in pairs(found.upvalues) do
    local _, now = debug.getupvalue(fn, n)
    if now ~= v then return false end
  end
  return true
end

return M
