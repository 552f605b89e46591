-- SPDX-License-Identifier: Apache-2.0
--- Proves from its bytecode that a function does not let its row out of its own hands.
--
-- A row is good for one turn. A function that only reads fields of it cannot keep it, and then one
-- proxy serves all turns at no cost; most row functions are such. What is passed to another
-- function, stored, copied to another variable or caught in a closure may be read later, so then
-- each turn has a proxy of its own. What this cannot prove counts as let out.
--
-- The row is register 0 for the whole of the function. A STRUCT in the row is another such view:
-- from where one is read, its register is followed until something else is written there, or
-- through all of the code if there is a jump before that.
local bytecode = require "moontide.rows.bytecode"
local util = require "jit.util"
local band = bit.band

local M = {}

local INDEXED = { TGETS = true, TGETV = true, TGETB = true, TGETR = true, TSETS = true, TSETV = true,
  TSETB = true }
local FILLS = { KNIL = true, VARG = true } -- these only write from register a on
local WALKS = { JMP = true, UCLO = true, LOOP = true, ILOOP = true, JLOOP = true }
local RETURNS = { RET0 = true, RET1 = true }

local function in_range(one, register)
  return band(one.mode, bytecode.B_MODE) == bytecode.B_RANGE and one.b <= register and register <= one.c
end

-- True when an instruction does with a view in `register` anything but index or return it.
local function lets_out(one, register)
  if WALKS[one.name] or FILLS[one.name] or RETURNS[one.name] then return false end
  if INDEXED[one.name] and one.b == register then
    return one.a == register and one.name:find "^TS" ~= nil
      or one.c == register and band(one.mode, bytecode.CD_MODE) == bytecode.CD_VAR
  end
  if bytecode.uses(one, register) or in_range(one, register) then return true end
  local mode = band(one.mode, bytecode.A_MODE)
  if mode == bytecode.A_BASE or mode == bytecode.A_RANGE then return one.a <= register end
  return mode == bytecode.A_VAR and one.a == register
end

local function any_lets_out(code, from, to, register)
  for pc = from, to do
    if lets_out(code[pc], register) then return true end
  end
  return false
end

-- The view that the instruction at pc puts into its register a.
local function follow(code, pc)
  local register = code[pc].a
  for at = pc + 1, #code do
    local one = code[at]
    if lets_out(one, register) then return true end
    if one.target or one.name:find "^J" then return any_lets_out(code, 1, #code, register) end
    if bytecode.writes(one, register) then return false end
  end
  return false
end

-- True when the instruction may read a STRUCT out of a view.
local function reads_struct(fn, one, structs)
  if one.name == "TGETV" then return next(structs) ~= nil end
  return one.name == "TGETS" and structs[util.funck(fn, -one.c - 1)] == true
end

-- Functions that give a view over the row, to be returned at once: mt.with.
M.views = {} ---@type table<function, true>

-- True when an upvalue of fn is a module with one of views under a name.
local function holds_view(fn, upvalue, name)
  local _, module = debug.getupvalue(fn, upvalue)
  return type(module) == "table" and M.views[rawget(module, name)] == true
end

-- True when the function that the instructions before pc put into a register is one of views:
-- `mt.with`, mt being a local of the file. Where that was found is added to `trusted`: another closure
-- over the same code may have something else there.
local function is_view(fn, code, pc, register, trusted)
  local field, table_ = code[pc - 1], code[pc - 2]
  if not table_ or field.name ~= "TGETS" or field.a ~= register or field.b ~= register then return false end
  if table_.name ~= "UGET" or table_.a ~= register then return false end
  local one = { upvalue = table_.d + 1, name = util.funck(fn, -field.c - 1) }
  if not holds_view(fn, one.upvalue, one.name) then return false end
  trusted[#trusted + 1] = one
  return true
end

-- True when the row is copied at pc to be the first argument of `return mt.with(row, …)`: what that
-- gives is read in this turn, and nobody else has the copy.
local function is_changed(fn, code, pc, trusted)
  local copy = code[pc].name == "MOV" and code[pc].a
  local callee = copy and copy - 2 -- its frame has a slot between
  if not copy or callee < 1 or not is_view(fn, code, pc, callee, trusted) then return false end
  for at = pc + 1, #code do
    if code[at].name == "CALLT" and code[at].a == callee then return true end
    if lets_out(code[at], copy) then return false end
  end
  return false
end

---@class mt.Trusted what the proof for one closure does not say of another over the same code
---@field upvalue integer
---@field name string of a function of views in it

--- True when no row that fn is given, and no STRUCT of it, can be read after the call.
---@param fn function
---@param structs table<string, boolean> names of STRUCT fields, at any depth
---@return boolean
---@return mt.Trusted[]? of which that hangs on
function M.keeps(fn, structs)
  if not bytecode.is_open(fn) then return false end
  local info = util.funcinfo(fn)
  if info.isvararg then return false end
  if info.params == 0 then return true end
  local code, trusted = bytecode.decode(fn), {}
  for pc, one in ipairs(code) do
    if one.name == "FNEW" or lets_out(one, 0) and not is_changed(fn, code, pc, trusted) then return false end
    if reads_struct(fn, one, structs) and follow(code, pc) then return false end
  end
  return true, trusted[1] and trusted
end

--- True when what was proved of a closure is so of another over the same code.
---@param fn function
---@param trusted mt.Trusted[]?
---@return boolean
function M.holds(fn, trusted)
  for _, one in ipairs(trusted or {}) do
    if not holds_view(fn, one.upvalue, one.name) then return false end
  end
  return true
end

return M
