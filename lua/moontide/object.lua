-- SPDX-License-Identifier: Apache-2.0
--- Objects that know their names: an unknown one is an error with a suggestion, what Spark has
--- and Moontide has not yet says so, and a call with "." instead of ":" says that.
--
-- Under `check` a call at fault is noted and answers with the object itself, marked _flawed: what
-- depends on a flawed object raises no follow-ups.
local fault = require "moontide.fault"
local suggest = require "moontide.suggest"

local M = {}

---@class mt.ClassSpec
---@field name string as people see it
---@field getters table<string, fun(self: table): any>? names read without a call
---@field later table<string, string>? names that come later, with the words for them
---@field parent table? a sealed class whose names hold too
---@field otherwise (fun(self: table, method: string?, first: any): any)? under `check`, what a method at fault
--- gives, with its first argument; without it, or where it gives nil, the object itself, marked
---@field newindex string? the cure for an assignment
---@field hidden string[]? getters that no suggestion names
---@field callable boolean? calling the object gives itself: df:writeStream() is df.writeStream

local sealed = {} -- class -> what seal makes of it

local function is_a(value, class)
  local meta = getmetatable(value)
  local of = type(value) == "table" and type(meta) == "table" and rawget(meta, "class")
  while of do
    if of == class then return true end
    of = sealed[of].spec.parent
  end
  return false
end
M.is_a = is_a

--- The words for a name that Spark has.
---@param name string
---@return string
function M.known_in_spark(name)
  return ("%s is known in Spark, not here yet"):format(name)
end

--- A table of names that come later, each with the same words.
---@param names string names with blanks between
---@return table<string, string>
function M.later(names)
  local later = {}
  for name in names:gmatch "%S+" do later[name] = M.known_in_spark(name) end
  return later
end

-- Under `check`, what a method at fault gives.
local function flawed(class, self, method, first)
  local otherwise = sealed[class].otherwise
  return otherwise and otherwise(self, method, first) or M.with(self, { _flawed = true })
end

local after_fault -- below

local function called_with_a_dot(name)
  fault.raise(("%s is called with a colon: write :%s(…), not .%s(…)"):format(name, name, name))
end

local function guarded(class, name, method)
  return function(self, ...)
    if not is_a(self, class) then
      return fault.guard(function() return after_fault(class, M.new(class, { _flawed = true })) end,
        called_with_a_dot, name)
    end
    if not fault.noted then return method(self, ...) end
    local first = ...
    return fault.guard(function() return flawed(class, self, name, first) end, method, self, ...)
  end
end

local function refuse(class, key)
  local info = sealed[class]
  if info.later[key] then fault.raise(info.later[key]) end
  fault.raise(("%s has no %q%s"):format(info.spec.name, tostring(key),
    suggest.cure(key, suggest.keys(info.names))))
end

-- Under `check`, what an unknown name gives: whatever is done with it gives it again.
function after_fault(class, self)
  return setmetatable({}, {
    __index = function() return after_fault(class, self) end,
    __call = function() return flawed(class, self) end,
  })
end

local function lookup(class, self, key)
  local info = sealed[class]
  local method = info.methods[key]
  if method then return method end
  local getter = info.getters[key]
  if getter then
    if not fault.noted then return getter(self) end
    return fault.guard(function() return after_fault(class, self) end, getter, self)
  end
  if type(key) == "string" and key:sub(1, 1) == "_" then return nil end
  return fault.guard(function() return after_fault(class, self) end, refuse, class, key)
end

--- Closes a class: its functions become methods, every other name an error.
---@generic T: table
---@param class T
---@param spec mt.ClassSpec
---@return T
function M.seal(class, spec)
  local parent = spec.parent and sealed[spec.parent]
  local info = { spec = spec, methods = {}, getters = {}, later = {}, names = {},
    otherwise = spec.otherwise or parent and parent.otherwise }
  for _, field in ipairs { "methods", "getters", "later", "names" } do
    for key, value in pairs(parent and parent[field] or {}) do info[field][key] = value end
  end
  for name, method in pairs(class) do
    info.methods[name] = guarded(class, name, method)
    info.names[name] = true
  end
  for name, getter in pairs(spec.getters or {}) do
    info.getters[name] = getter
    info.names[name] = true
  end
  for _, name in ipairs(spec.hidden or {}) do info.names[name] = nil end
  for name, words in pairs(spec.later or {}) do info.later[name] = words end
  info.meta = {
    class = class,
    __index = function(self, key) return lookup(class, self, key) end,
    __newindex = function(_, key)
      fault.raise(("%s is not to be assigned to%s"):format(tostring(key), spec.newindex or ""))
    end,
    __tostring = function() return spec.name end,
    __call = spec.callable and function(self) return self end or nil,
  }
  sealed[class] = info
  return class
end

--- The names that an object has; nil: it is none of a sealed class.
---@param object any
---@return string[]?
function M.names(object)
  local meta = type(object) == "table" and getmetatable(object)
  local class = type(meta) == "table" and rawget(meta, "class")
  return class and suggest.keys(sealed[class].names)
end

--- A new object of a sealed class. Names of its own state begin with "_".
---@param class table
---@param state table taken
function M.new(class, state)
  return setmetatable(state, sealed[class].meta)
end

--- A copy of an object with some of its state replaced.
---@param object table
---@param changes table<string, any>
function M.with(object, changes)
  local state = {}
  for key, value in pairs(object) do state[key] = value end
  for key, value in pairs(changes) do state[key] = value end
  return setmetatable(state, getmetatable(object))
end

return M
