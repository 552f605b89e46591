-- SPDX-License-Identifier: Apache-2.0
--- The bytecode of a function of the job, read for what its text promises.
local M = {}

local has_util, util = pcall(require, "jit.util")
local has_def, vmdef = pcall(require, "jit.vmdef")

-- Operand modes of jit.util.funcbc, as jit.bc reads them.
M.A_MODE, M.B_MODE, M.CD_MODE = 7, 15 * 8, 15 * 128
M.A_DST, M.A_BASE, M.A_VAR, M.A_RANGE = 1, 2, 3, 4
M.B_VAR, M.B_RANGE, M.CD_VAR, M.CD_RANGE, M.CD_JUMP = 3 * 8, 4 * 8, 3 * 128, 4 * 128, 13 * 128

local band, rshift = bit.band, bit.rshift

---@class mt.Instruction
---@field name string
---@field a integer
---@field b integer?
---@field c integer?
---@field d integer?
---@field mode integer
---@field target integer? where it may jump

--- The name of an opcode.
---@param op integer
---@return string
function M.name(op)
  return vmdef.bcnames:sub(op * 6 + 1, op * 6 + 6):match "%S+"
end

--- True when the function's code can be read: it is one of Lua's, and LuaJIT's tables are there.
---@param fn function
function M.is_open(fn)
  return has_util and has_def and util.funcinfo(fn).bytecodes ~= nil
end

local function decode(fn, pc)
  local ins, mode = util.funcbc(fn, pc)
  local one = { name = M.name(band(ins, 0xff)), a = band(rshift(ins, 8), 0xff), mode = mode }
  if band(mode, M.B_MODE) ~= 0 then
    one.b, one.c = rshift(ins, 24), band(rshift(ins, 16), 0xff)
  else
    one.d = rshift(ins, 16)
  end
  if band(mode, M.CD_MODE) == M.CD_JUMP then one.target = pc + one.d - 0x7fff end
  return one
end

--- All instructions but the first, which only enters the function.
---@param fn function
---@return mt.Instruction[]
function M.decode(fn)
  local code = {}
  for pc = 1, util.funcinfo(fn).bytecodes - 1 do code[pc] = decode(fn, pc) end
  return code
end

--- True when an instruction writes a register.
---@param one mt.Instruction
---@param register integer
function M.writes(one, register)
  local mode = band(one.mode, M.A_MODE)
  return mode == M.A_DST and one.a == register or mode == M.A_BASE and one.a <= register
end

--- True when an instruction puts a value into its register A.
---@param one mt.Instruction
function M.is_written(one)
  return band(one.mode, M.A_MODE) == M.A_DST
end

--- True when any operand but A is this register.
---@param one mt.Instruction
---@param register integer
function M.uses(one, register)
  return one.b == register and band(one.mode, M.B_MODE) == M.B_VAR
    or band(one.mode, M.CD_MODE) == M.CD_VAR and (one.c or one.d) == register
end

return M
