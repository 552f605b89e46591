-- SPDX-License-Identifier: Apache-2.0
--- Proves from its bytecode which keys the tables that a function returns can have.
--
-- A table returned by map must have no key that the result's columns do not. Looking into every
-- table costs 160 ns a row, because only then must it exist: the JIT keeps a table that is built,
-- read by name and dropped in registers. Most row functions return a table they have just built,
-- `return { user = row.user_id, … }`, and then the keys stand in the bytecode. What this cannot
-- prove is checked row by row.
--
-- The proof, for every `return` of one value in register a: going back in the code, a was last set
-- by making a table; since then a was only stored into under constant names or read; no jump comes
-- from outside into the stretch between. So every way to the return passes the making, and nobody
-- else ever had the table.
local bytecode = require "moontide.rows.bytecode"
local util = require "jit.util"
local uses, writes = bytecode.uses, bytecode.writes
local band = bit.band

local M = {}

local function last_write(code, before, register)
  for pc = before - 1, 1, -1 do
    if writes(code[pc], register) then return pc end
  end
end

local function entered(code, from, to)
  for pc, one in ipairs(code) do
    local inside = pc > from and pc < to
    if one.target and not inside and one.target > from and one.target <= to then return true end
  end
  return false
end

local function all_known(fn, index, names)
  for key in next, util.funck(fn, -index - 1) do
    if not names[key] then return false end
  end
  return true
end

-- True when one instruction between the making and the return keeps the table to itself.
local function harmless(fn, one, register, names)
  if one.name == "TSETM" and one.a == register + 1 then return false end
  if one.name == "TSETS" and one.b == register then
    return one.a ~= register and names[util.funck(fn, -one.c - 1)] ~= nil
  end
  if one.name == "TGETS" and one.b == register then return true end
  if uses(one, register) then return false end
  local reads_a = band(one.mode, bytecode.A_MODE) > bytecode.A_BASE
  return not reads_a or one.a ~= register or one.name:find "^RET" ~= nil
end

local CONSTANTS = { KPRI = true, KSTR = true, KSHORT = true, KNUM = true, KCDATA = true }

-- For `return` of register a at pc: "table", "constant", "row" (the argument), or nil: not proved.
local function returned(fn, code, pc, names)
  local register = code[pc].a
  local made = last_write(code, pc, register)
  if not made then return register == 0 and util.funcinfo(fn).params > 0 and "row" or nil end
  if entered(code, made, pc) then return nil end
  local maker = code[made]
  if CONSTANTS[maker.name] then return "constant" end
  if maker.name == "TDUP" and not all_known(fn, maker.d, names) then return nil end
  if maker.name ~= "TDUP" and maker.name ~= "TNEW" then return nil end
  for between = made + 1, pc - 1 do
    if not harmless(fn, code[between], register, names) then return nil end
  end
  return "table"
end

-- Register 0 is the row as long as nothing writes it.
local function keeps_row(code)
  for _, one in ipairs(code) do
    if writes(one, 0) then return false end
  end
  return true
end

-- Tail calls and several results; a closure, which may hold any register as its upvalue.
local BEYOND = { CALLT = true, CALLMT = true, RET = true, RETM = true, FNEW = true }

--- True when every table that fn returns has only keys of `names`; the second result is false
--- when it never returns its argument. False when that cannot be proved.
---@param fn function
---@param names table<string, any>
---@return boolean proved, boolean may_return_row
function M.proves(fn, names)
  if not bytecode.is_open(fn) then return false, true end
  local code, row = bytecode.decode(fn), false
  for pc, one in ipairs(code) do
    if BEYOND[one.name] or one.name:find "^J" and one.name ~= "JMP" then return false, true end
    if one.name == "RET1" then
      local what = returned(fn, code, pc, names)
      if not what or what == "row" and not keeps_row(code) then return false, true end
      row = row or what == "row"
    end
  end
  return true, row
end

return M
