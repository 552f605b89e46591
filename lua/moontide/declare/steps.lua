-- SPDX-License-Identifier: Apache-2.0
--- The steps of a frame as declarations: what each makes of a schema and which columns it needs.
--
-- A step is data; `batch/ops.lua` runs it. `derive` is asked twice: when the step is declared, to tell
-- mistakes at the job's line, and when a query is planned, over the columns the source then reads.
-- By then columns that nothing needs are gone, so drop and rename pass over absent ones.
local core = require "moontide._core"
local fault = require "moontide.fault"
local object = require "moontide.object"
local schemas = require "moontide.schema"
local suggest = require "moontide.suggest"
local C = core.C

local M = {}

---@class mt.Step
---@field kind string
---@field at mt.At
---@field derive fun(self: mt.Step, schema: mt.Schema, other: mt.Schema?): mt.Schema
---@field needs fun(self: mt.Step, schema: mt.Schema, wanted: table<string, boolean>):
--- table<string, boolean>, table<string, boolean>? of its first input, and of its second
---@field words string one line for people

local function step(kind, words, fields)
  fields.kind, fields.words, fields.at = kind, words, fault.here()
  return fields
end

-- A function of the job may read any column.
local function needs_all(_, schema)
  local all = {}
  for _, name in ipairs(schema:names()) do all[name] = true end
  return all
end

local function unknown_column(schema, name, what)
  local _, cure = schema:find(name)
  fault.raise(("%s: there is no column %q%s"):format(what, tostring(name), cure or ""))
end

local function expect_column(schema, name, what)
  fault.expect(what, name, "string")
  return schema.by_name[name] or unknown_column(schema, name, what)
end

local function expect_distinct(schema, cure)
  local name = schema:clash()
  if name then fault.raise(("two columns are named %q; %s"):format(name, cure)) end
end

local function parse_ddl(ddl, what)
  fault.expect(what .. ": the schema", ddl, "string")
  local schema, problem = schemas.parse(ddl)
  if not schema then fault.raise(("%s: %s"):format(what, problem)) end
  expect_distinct(schema, "give each its own name")
  if #schema.fields == 0 then fault.raise(what .. ": the schema names no column") end
  return schema
end

local function expect_function(what, fn)
  if type(fn) == "function" then return end
  fault.raise(("%s takes a function of the row, not %s"):format(what,
    type(fn) == "string" and "text; SQL expressions are not here yet" or type(fn)))
end

local function place_of(fn)
  local info = debug.getinfo(fn, "S")
  return ("%s:%d"):format(info.source:gsub("^[@=]", ""), info.linedefined)
end

-- ---- functions of the job

---@param fn fun(row: mt.Row): boolean?
---@return mt.Step
function M.filter(fn)
  expect_function("filter", fn)
  return step("filter", ("filter(function at %s)"):format(place_of(fn)), {
    fn = fn,
    derive = function(_, schema) return schema end,
    needs = needs_all,
  })
end

---@param ddl string
---@param fn fun(row: mt.Row): table
---@return mt.Step
function M.map(ddl, fn)
  local out = parse_ddl(ddl, "map")
  expect_function("map", fn)
  return step("map", ("map(function at %s)"):format(place_of(fn)), {
    fn = fn, out = out,
    derive = function() return out end,
    needs = needs_all,
  })
end

---@param ddl string
---@param fn fun(row: mt.Row): table[]
---@return mt.Step
function M.flat_map(ddl, fn)
  local out = parse_ddl(ddl, "flatMap")
  expect_function("flatMap", fn)
  return step("flatMap", ("flatMap(function at %s)"):format(place_of(fn)), {
    fn = fn, out = out,
    derive = function() return out end,
    needs = needs_all,
  })
end

-- The columns of schema with `field` in place of its namesake, or behind them.
local function put_column(schema, field)
  local list, replaced = {}, false
  for i, old in ipairs(schema.fields) do
    list[i] = old
    if old.name == field.name then list[i], replaced = field, true end
  end
  if not replaced then list[#list + 1] = field end
  return schemas.of(list)
end

---@param name string
---@param type_ string
---@param fn fun(row: mt.Row): any
---@return mt.Step
function M.with_column(name, type_, fn)
  fault.expect("withColumn: the name", name, "string")
  if name == "" then fault.raise "withColumn: the name is empty" end
  fault.expect("withColumn: the type", type_, "string")
  local one, problem = schemas.parse_type(type_, name)
  if not one then fault.raise("withColumn: " .. problem) end
  expect_function("withColumn", fn)
  return step("withColumn", ("withColumn(%q, %s, function at %s)"):format(name, one.fields[1].ddl,
    place_of(fn)), {
    fn = fn, one = one,
    derive = function(_, schema) return put_column(schema, one.fields[1]) end,
    needs = needs_all,
  })
end

-- ---- columns

-- "a" or "d.x.y" as { column field, child field, … }, or nil.
local function find_path(schema, name)
  if schema.by_name[name] then return { schema.by_name[name] } end
  local path, children = {}, schema.fields
  for part in name:gmatch "[^.]+" do
    local found
    for _, field in ipairs(children or {}) do
      if field.name == part then found = field end
    end
    if not found then return nil, part, children end
    path[#path + 1] = found
    children = found.type == "STRUCT" and found.children or nil
  end
  return path
end

local function names_of(fields)
  local names = {}
  for i, field in ipairs(fields or {}) do names[i] = field.name end
  return names
end

local function expand_star(schema, name)
  if name == "*" then return schema:names() end
  local base = name:match "^(.+)%.%*$"
  if not base then return { name } end
  local path = find_path(schema, base)
  if not path then unknown_column(schema, base, "select") end
  local struct = path[#path]
  if struct.type ~= "STRUCT" then
    fault.raise(("select: %q opens a STRUCT, and %q is %s"):format(name, base, struct.ddl))
  end
  local names = {}
  for i, child in ipairs(struct.children) do names[i] = base .. "." .. child.name end
  return names
end

local function resolve(schema, name)
  local path, part, children = find_path(schema, name)
  if path then return path end
  if not name:find(".", 1, true) then unknown_column(schema, name, "select") end
  if not children then
    fault.raise(("select: what stands before %q in %q is not a STRUCT"):format(part, name))
  end
  fault.raise(("select: there is no %q in %q%s"):format(part, name, suggest.cure(part, names_of(children))))
end

---@param schema mt.Schema
---@param names string[]
---@return mt.Step
function M.select(schema, names)
  if #names == 0 then fault.raise "select names no column" end
  local wanted = {}
  for _, name in ipairs(names) do
    fault.expect("select", name, "string")
    for _, each in ipairs(expand_star(schema, name)) do wanted[#wanted + 1] = each end
  end
  return step("select", ("select(%s)"):format(table.concat(names, ", ")), {
    names = wanted,
    derive = function(_, input)
      local list = {}
      for i, name in ipairs(wanted) do
        local path = resolve(input, name)
        list[i] = path[#path]
      end
      local out = schemas.of(list)
      expect_distinct(out, "rename one with :withColumnRenamed before")
      return out
    end,
    paths = function(_, input)
      local paths = {}
      for i, name in ipairs(wanted) do paths[i] = resolve(input, name) end
      return paths
    end,
    needs = function(_, input)
      local needed = {}
      for _, name in ipairs(wanted) do needed[resolve(input, name)[1].name] = true end
      return needed
    end,
  })
end

---@param schema mt.Schema
---@param names string[]
---@return mt.Step
function M.drop(schema, names)
  if #names == 0 then fault.raise "drop names no column" end
  local gone = {}
  for _, name in ipairs(names) do
    expect_column(schema, name, "drop")
    gone[name] = true
  end
  return step("drop", ("drop(%s)"):format(table.concat(names, ", ")), {
    derive = function(_, input)
      local rest = {}
      for _, field in ipairs(input.fields) do
        if not gone[field.name] then rest[#rest + 1] = field end
      end
      if #rest == 0 then fault.raise "drop leaves no column" end
      return schemas.of(rest)
    end,
    needs = function(_, _, wanted) return wanted end,
  })
end

---@param schema mt.Schema
---@param from string
---@param to string
---@return mt.Step
function M.rename(schema, from, to)
  expect_column(schema, from, "withColumnRenamed")
  fault.expect("withColumnRenamed: the new name", to, "string")
  return step("withColumnRenamed", ("withColumnRenamed(%s → %s)"):format(from, to), {
    derive = function(_, input)
      local list = {}
      for i, field in ipairs(input.fields) do
        list[i] = { c = field.c, name = field.name == from and to or field.name }
      end
      local out = schemas.of(list)
      expect_distinct(out, "choose another name, or drop one before")
      return out
    end,
    needs = function(_, _, wanted)
      local needed = {}
      for name in pairs(wanted) do needed[name == to and from or name] = true end
      return needed
    end,
  })
end

-- ---- two frames

local function expect_alike(one, other)
  if #one.fields ~= #other.fields then
    fault.raise(("union: %d columns (%s) and %d columns (%s)"):format(#one.fields, one:ddl(), #other.fields,
      other:ddl()))
  end
  for i, field in ipairs(one.fields) do
    local with = other.fields[i]
    if field.ddl ~= with.ddl then
      fault.raise(("union: column %d is %s %s here and %s %s there"):format(i, field.name, field.ddl, with.name,
        with.ddl))
    end
  end
end

--- The rows of two frames: columns by their place, with the names of the first; null where one of them
--- may be.
---@param one mt.Schema
---@param other mt.Schema
---@return mt.Step
function M.union(one, other)
  expect_alike(one, other)
  local names, others = one:names(), other:names()
  -- places in the two that are there: what nothing needs is gone in one of them, or in both
  local function each(a, b)
    local i = 0
    return function()
      repeat i = i + 1 until not names[i] or a.by_name[names[i]] and b.by_name[others[i]]
      return a.by_name[names[i]], b.by_name[others[i]]
    end
  end
  return step("union", "union", {
    each = each,
    derive = function(_, a, b)
      local list = {}
      for field, with in each(a, b) do
        list[#list + 1] = { c = with.nullable and with.c or field.c, name = field.name }
      end
      return schemas.of(list)
    end,
    needs = function(_, _, wanted)
      local needed, of_other = {}, {}
      for i, name in ipairs(names) do
        if wanted[name] then needed[name], of_other[others[i]] = true, true end
      end
      return needed, of_other
    end,
  })
end

--- Refuses two schemas whose columns have not the same names.
---@param one mt.Schema
---@param other mt.Schema
function M.expect_same_names(one, other)
  for _, pair in ipairs { { one, other, "the other" }, { other, one, "this" } } do
    for _, name in ipairs(pair[1]:names()) do
      local found, cure = pair[2]:find(name)
      if not found then fault.raise(("unionByName: %s frame has no column %q%s"):format(pair[3], name, cure)) end
    end
  end
end

-- ---- the first rows

--- Refuses what is no number of rows.
---@param what string
---@param n any
function M.expect_rows(what, n)
  if type(n) == "number" and n >= 0 and n == math.floor(n) then return end
  fault.raise(("%s takes a whole number of rows, not %s"):format(what,
    type(n) == "number" and tostring(n) or type(n) == "nil" and "nil" or "a " .. type(n)))
end

--- The first n rows of all there are.
---@param n integer
---@return mt.Step
function M.limit(n)
  M.expect_rows("limit", n)
  return step("limit", ("limit(%d)"):format(n), {
    n = n,
    derive = function(_, schema) return schema end,
    needs = function(_, _, wanted) return wanted end,
  })
end

-- ---- partitions, of which a batch here has one

local function expect_count(what, n)
  if type(n) == "number" and n >= 1 and n == math.floor(n) then return end
  fault.raise(("%s takes a whole number of partitions above 0, not %s"):format(what,
    type(n) == "number" and tostring(n) or type(n) == "nil" and "nil" or "a " .. type(n)))
end

--- coalesce(n)
---@param n any
function M.expect_coalesce(n)
  expect_count("coalesce", n)
end

--- repartition(n), repartition(n, "a", …) or repartition("a", …)
---@param schema mt.Schema
function M.expect_repartition(schema, n, ...)
  local names = { ... }
  if type(n) == "string" then table.insert(names, 1, n) else expect_count("repartition", n) end
  for i = 1, #names do expect_column(schema, names[i], "repartition") end
end

-- ---- fromJson

local MODES = { permissive = "MT_JSON_PERMISSIVE", failfast = "MT_JSON_FAILFAST",
  dropmalformed = "MT_JSON_DROPMALFORMED" }
local JSON_OPTIONS = { as = "as", keep = "keep", mode = "mode",
  columnnameofcorruptrecord = "columnNameOfCorruptRecord" }
local JSON_LATER = object.later [[timezone primitivesasstring prefersdecimal allowcomments
  allowunquotedfieldnames allowsinglequotes allownumericleadingzeros allowbackslashescapinganycharacter
  allowunquotedcontrolchars allownonnumericnumbers dateformat timestampformat timestampntzformat
  enabledatetimeparsingfallback multiline encoding linesep samplingratio dropfieldifallnull locale
  maxnestingdepth maxnumlen maxstringlen]]

local function read_json_options(options)
  if options == nil then options = {} end
  fault.expect("fromJson: the options", options, "table")
  local given = {}
  for key, value in pairs(options) do
    local name = JSON_OPTIONS[tostring(key):lower()]
    if JSON_LATER[tostring(key):lower()] then
      fault.raise(("fromJson: option %s"):format(object.known_in_spark(key)))
    elseif not name then
      local names = {}
      for _, known in pairs(JSON_OPTIONS) do names[#names + 1] = known end
      table.sort(names)
      fault.raise(("fromJson: unknown option %q%s"):format(tostring(key), suggest.cure(key, names)))
    end
    given[name] = value
  end
  return given
end

local function read_mode(mode)
  if mode == nil then return MODES.permissive end
  fault.expect("fromJson: mode", mode, "string")
  if MODES[mode:lower()] then return MODES[mode:lower()] end
  fault.raise(("fromJson: unknown mode %q%s"):format(mode,
    suggest.cure(mode, { "PERMISSIVE", "FAILFAST", "DROPMALFORMED" })))
end

local function read_keep(schema, keep)
  if keep == nil then return {} end
  if type(keep) == "string" then keep = { keep } end
  fault.expect("fromJson: keep", keep, "table")
  for _, name in ipairs(schema and keep or {}) do expect_column(schema, name, "fromJson: keep") end
  return keep
end

-- The column for the text of malformed records, when the DDL has it.
local function read_corrupt(ddl, name)
  if name == nil then return ddl.by_name._corrupt_record and "_corrupt_record" end
  fault.expect("fromJson: columnNameOfCorruptRecord", name, "string")
  if ddl.by_name[name] then return name end
  fault.raise(("fromJson: columnNameOfCorruptRecord names %q, which the schema does not have; "
    .. "add %q to it"):format(name, name .. " STRING"))
end

--- A reader of the core for a fromJson step; freed when it is collected.
---@param made { fields: mt.Schema, mode: string, corrupt: string? }
---@return ffi.cdata*? reader, string? problem
function M.json_reader(made)
  local out = core.new "struct mt_json_reader *[1]"
  if C.mt_json_reader_new(made.fields.c, C[made.mode], made.corrupt, out, core.err) ~= 0 then
    return nil, (core.failure())
  end
  return core.gc(out[0], C.mt_json_reader_free)
end

local function json_schema(made, input)
  if not input and #made.keep > 0 then return nil end
  local list = {}
  for i, field in ipairs((made.struct or made.fields).fields) do list[i] = field end
  for _, name in ipairs(made.keep) do list[#list + 1] = input.by_name[name] end
  return schemas.of(list)
end

--- The columns that a fromJson step keeps: their schema and their numbers in the input.
---@param made table the step
---@param input mt.Schema
---@return mt.Schema, integer[]
function M.kept(made, input)
  local list, numbers = {}, {}
  for i, name in ipairs(made.keep) do
    list[i] = input.by_name[name]
    numbers[i] = list[i].index
  end
  return schemas.of(list), numbers
end

local function expect_text_column(schema, column)
  local field = expect_column(schema, column, "fromJson")
  if field.type ~= "STRING" and field.type ~= "BINARY" then
    fault.raise(("fromJson: column %q is %s; JSON text is read from STRING or BINARY"):format(column,
      field.ddl))
  end
end

---@param schema mt.Schema? nil: unknown
---@param column string
---@param ddl string
---@param options table?
---@return mt.Step
function M.from_json(schema, column, ddl, options)
  if schema then expect_text_column(schema, column) end
  local fields = parse_ddl(ddl, "fromJson"):nullable()
  local given = read_json_options(options)
  local made = step("fromJson", ("fromJson(%s)"):format(column), {
    column = column, fields = fields, as = given.as,
    keep = read_keep(schema, given.keep), mode = read_mode(given.mode),
    corrupt = read_corrupt(fields, given.columnNameOfCorruptRecord),
    derive = json_schema,
    needs = function(self)
      local needed = { [self.column] = true }
      for _, name in ipairs(self.keep) do needed[name] = true end
      return needed
    end,
  })
  if made.as ~= nil then
    fault.expect("fromJson: as", made.as, "string")
    made.struct = fields:as_struct(made.as)
  end
  local reader, problem = M.json_reader(made)
  if not reader then fault.raise(problem) end
  local out = json_schema(made, schema)
  if not out then return made end
  expect_distinct(out, made.as and "choose another name for as"
    or "put the fields into one column with { as = \"d\" }, or keep fewer")
  return made
end

return M
