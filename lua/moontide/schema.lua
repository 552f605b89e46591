-- SPDX-License-Identifier: Apache-2.0
--- Schemas: an ArrowSchema of the core with its fields read out for Lua.
local core = require "moontide._core"
local suggest = require "moontide.suggest"
local C = core.C

local M = {}

local TYPES = {
  [0] = "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING",
  "BINARY", "DATE", "TIMESTAMP", "ARRAY", "STRUCT", "MAP",
}
local NESTED = { ARRAY = true, STRUCT = true, MAP = true }
local NULLABLE = 2

---@class mt.Field
---@field name string
---@field type string "BIGINT", "DECIMAL", "STRUCT", …
---@field ddl string the whole type, "DECIMAL(10,2)"
---@field nullable boolean
---@field precision integer of a DECIMAL
---@field scale integer of a DECIMAL
---@field index integer column number, from 0
---@field children mt.Field[]?
---@field c ffi.cdata* struct ArrowSchema *, in `owner`
---@field owner ffi.cdata* kept alive with the field

---@class mt.Schema
---@field c ffi.cdata* struct ArrowSchema, owned
---@field fields mt.Field[]
---@field by_name table<string, mt.Field>
local Schema = {}
Schema.__index = Schema

local function read_field(c, index, owner)
  local field = {
    c = c, index = index, owner = owner,
    name = core.string(c.name),
    type = TYPES[tonumber(C.mt_schema_type(c))],
    ddl = core.take(C.mt_schema_type_name(c)),
    nullable = bit.band(tonumber(c.flags), NULLABLE) ~= 0,
  }
  if field.type == "DECIMAL" then
    local out = core.new "int32_t[2]"
    C.mt_schema_decimal(c, out, out + 1)
    field.precision, field.scale = out[0], out[1]
  end
  if NESTED[field.type] then
    field.children = {}
    for i = 0, tonumber(c.n_children) - 1 do field.children[i + 1] = read_field(c.children[i], i, owner) end
  end
  return field
end

local function adopt(c)
  local schema = setmetatable({ c = core.gc(c, C.mt_schema_release), fields = {}, by_name = {} }, Schema)
  for i = 0, tonumber(c.n_children) - 1 do
    local field = read_field(c.children[i], i, c)
    schema.fields[i + 1] = field
    schema.by_name[field.name] = field
  end
  return schema
end

--- A copy of a schema that C lends.
---@param c ffi.cdata* const struct ArrowSchema *
---@return mt.Schema
function M.copy(c)
  local out = core.new "struct ArrowSchema"
  C.mt_schema_copy(c, out)
  return adopt(out)
end

--- Reads DDL, "a BIGINT, b DECIMAL(10,2)".
---@param ddl string
---@return mt.Schema?, string? problem
function M.parse(ddl)
  local out = core.new "struct ArrowSchema"
  if C.mt_schema_parse(ddl, out, core.err) ~= 0 then return nil, (core.failure()) end
  return adopt(out)
end

--- Reads one type, as a column of that name.
---@param text string
---@param name string
---@return mt.Schema? one, string? problem
function M.parse_type(text, name)
  local field = core.gc(core.new "struct ArrowSchema", C.mt_schema_release)
  if C.mt_schema_parse_type(text, name, field, core.err) ~= 0 then return nil, (core.failure()) end
  return M.of { { c = field } }
end

--- A schema of copies of fields, each under its own name or another.
---@param list { c: ffi.cdata*, name: string? }[]
---@return mt.Schema
function M.of(list)
  local fields = core.new("const struct ArrowSchema *[?]", math.max(1, #list))
  local names = core.new("const char *[?]", math.max(1, #list))
  for i, item in ipairs(list) do
    fields[i - 1] = item.c
    names[i - 1] = item.name -- kept alive by the list
  end
  local out = core.new "struct ArrowSchema"
  C.mt_schema_of(fields, names, #list, out)
  return adopt(out)
end

--- The schema as one nullable STRUCT column.
---@param name string
---@return mt.Schema
function Schema:as_struct(name)
  return assert(M.parse_type(core.take(C.mt_schema_type_name(self.c)), name))
end

-- The keys of a MAP are never null, and neither are its pairs.
local function set_nullable(c)
  c.flags = bit.bor(tonumber(c.flags), NULLABLE)
  if TYPES[tonumber(C.mt_schema_type(c))] == "MAP" then return set_nullable(c.children[0].children[1]) end
  for i = 0, tonumber(c.n_children) - 1 do set_nullable(c.children[i]) end
end

--- A copy in which everything may be null, as from_json makes it.
---@return mt.Schema
function Schema:nullable()
  local out = core.new "struct ArrowSchema"
  C.mt_schema_copy(self.c, out)
  for i = 0, tonumber(out.n_children) - 1 do set_nullable(out.children[i]) end
  return adopt(out)
end

---@return string[]
function Schema:names()
  local names = {}
  for i, field in ipairs(self.fields) do names[i] = field.name end
  return names
end

--- The column, or nil and the end of a sentence that says what there is.
---@param name any
---@return mt.Field?, string? cure
function Schema:find(name)
  local field = self.by_name[name]
  if field then return field end
  return nil, suggest.cure(name, self:names())
end

--- The first name that two columns share, or nil.
---@return string?
function Schema:clash()
  local seen = {}
  for _, field in ipairs(self.fields) do
    if seen[field.name] then return field.name end
    seen[field.name] = true
  end
end

---@return string DDL text
function Schema:ddl()
  return core.take(C.mt_schema_ddl(self.c))
end

local TREE = {
  TINYINT = "byte", SMALLINT = "short", INT = "integer", BIGINT = "long",
}

local function tree_type(field)
  if field.type == "DECIMAL" then return field.ddl:lower() end
  return TREE[field.type] or field.type:lower()
end

local add_tree

local function add_inside(lines, field, indent)
  if field.type == "STRUCT" then
    for _, child in ipairs(field.children) do add_tree(lines, child, indent) end
  elseif field.type == "ARRAY" then
    local element = field.children[1]
    lines[#lines + 1] = ("%s |-- element: %s (containsNull = %s)"):format(indent, tree_type(element),
      tostring(element.nullable))
    add_inside(lines, element, indent .. " |   ")
  elseif field.type == "MAP" then
    local pair = field.children[1].children
    lines[#lines + 1] = ("%s |-- key: %s"):format(indent, tree_type(pair[1]))
    add_inside(lines, pair[1], indent .. " |   ")
    lines[#lines + 1] = ("%s |-- value: %s (valueContainsNull = %s)"):format(indent,
      tree_type(pair[2]), tostring(pair[2].nullable))
    add_inside(lines, pair[2], indent .. " |   ")
  end
end

function add_tree(lines, field, indent)
  lines[#lines + 1] = ("%s |-- %s: %s (nullable = %s)"):format(indent, field.name, tree_type(field),
    tostring(field.nullable))
  add_inside(lines, field, indent .. " |   ")
end

--- Spark's tree of the schema, as printSchema writes it.
---@return string
function Schema:tree()
  local lines = { "root" }
  for _, field in ipairs(self.fields) do add_tree(lines, field, "") end
  return table.concat(lines, "\n") .. "\n"
end

return M
