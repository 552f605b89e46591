-- SPDX-License-Identifier: Apache-2.0
--- The C core, by FFI. The only file that knows the ffi library: other files get from here what
--- they need of it. All calls are leaf calls; none of them runs Lua.
local ffi = require "ffi"

local ABI = 5

ffi.cdef(require "moontide._cdef")

local C = ffi.C
if C.mt_abi() ~= ABI then
  error(("moontide: this Lua library is for core %d, the core is %d"):format(ABI, C.mt_abi()), 0)
end

local M = {
  C = C,
  new = ffi.new,
  typeof = ffi.typeof,
  cast = ffi.cast,
  copy = ffi.copy,
  fill = ffi.fill,
  string = ffi.string,
  istype = ffi.istype,
  metatype = ffi.metatype,
  gc = ffi.gc,
}

--- Where C leaves the words of a failure; one for the whole state, since calls are leaf calls.
M.err = ffi.new "struct mt_error"

local CLASSES = {
  [0] = "INTERNAL", "INTERNAL", "USAGE", "JOB", "SCRIPT", "DATA", "SOURCE", "DATA_LOSS", "SINK",
  "CHECKPOINT", "MACHINE",
}

--- The name of a class that C numbers.
---@param number integer
---@return string
function M.class_of(number)
  return CLASSES[number] or "INTERNAL"
end

--- The words, class and option of the last failure.
---@return string text
---@return string class
---@return string? option the option at fault
function M.failure()
  local option = ffi.string(M.err.option)
  return ffi.string(M.err.text), M.class_of(tonumber(M.err.class_)),
    option ~= "" and option or nil
end

--- Text that C allocated, as a Lua string; frees it.
---@param text ffi.cdata*
---@return string
function M.take(text)
  local s = ffi.string(text)
  C.mt_free(text)
  return s
end

--- A number that names an address, for the host; and back.
---@param pointer ffi.cdata*
---@return integer
function M.address(pointer)
  return tonumber(ffi.cast("intptr_t", pointer))
end

---@param ctype string
---@param address integer
---@return ffi.cdata*
function M.at(ctype, address)
  return ffi.cast(ctype, ffi.cast("intptr_t", address))
end

--- A C string that lives as long as the returned cdata.
---@param text string
---@return ffi.cdata*
function M.cstring(text)
  return ffi.new("char[?]", #text + 1, text)
end

--- Keys and values as struct mt_pairs, and what keeps them alive.
---@param list { name: string, value: string?, secret: string? }[]
---@return ffi.cdata* pairs, table keep
function M.pairs(list)
  local keep = { ffi.new("struct mt_pair[?]", math.max(1, #list)) }
  for i, item in ipairs(list) do
    local pair, key = keep[1][i - 1], M.cstring(item.name)
    local value, secret = item.value and M.cstring(item.value), item.secret and M.cstring(item.secret)
    keep[i + 1] = { key, value, secret }
    pair.key, pair.value, pair.secret = key, value, secret
  end
  local pairs_ = ffi.new "struct mt_pairs"
  pairs_.items, pairs_.n = keep[1], #list
  keep[#keep + 1] = pairs_
  return pairs_, keep
end

return M
