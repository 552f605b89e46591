-- SPDX-License-Identifier: Apache-2.0
--- A Parquet table as a bounded source: which files it has, and their rows, some at a time.
--
-- Where a folder has the log of a stream (_spark_metadata), its files are those that the log names: others
-- are of batches that failed, or not yet whole. Else they are all that are there, but for names that
-- begin with _ or ".". Folders such as day=2026-11-30 are columns, with types as Spark infers them.
local columns = require "moontide.declare.memory"
local core = require "moontide._core"
local fault = require "moontide.fault"
local json_parse = require "moontide.values.json_parse"
local ops = require "moontide.batch.ops"
local paths = require "moontide.paths"
local schemas = require "moontide.schema"
local value = require "moontide.values"
local C = core.C

local M = {}

local LOG = "_spark_metadata"
local NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

local function failed()
  local text, class = core.failure()
  error(fault.new(class, "FATAL", text), 0)
end

-- ---- which files

local function names_below(folder)
  local out = core.new "char *[1]"
  if C.mt_path_files(folder, out, core.err) ~= 0 then fault.raise((core.failure())) end
  return json_parse.decode(core.take(out[0]))
end

local function unescape(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The entries of the log that count: the last compact one and those behind it, in order.
local function entries_of(names)
  local compact, plain, last = -1, {}, -1
  for _, name in ipairs(names) do
    local n, ending = name:match("^" .. LOG .. "/(%d+)(.*)$")
    n = tonumber(n)
    if n and ending == ".compact" then compact = math.max(compact, n) end
    if n and ending == "" then plain[n] = true end
    if n and (ending == "" or ending == ".compact") then last = math.max(last, n) end
  end
  local list = {}
  if compact >= 0 then list[1] = ("%d.compact"):format(compact) end
  for n = compact + 1, last do
    if not plain[n] then return nil, n end
    list[#list + 1] = ("%d"):format(n)
  end
  return list
end

local function add_logged(list, folder, entry)
  local text, problem = paths.read(("%s/%s/%s"):format(folder, LOG, entry))
  if not text then fault.raise(problem) end
  if not text:find "^v1" then
    fault.raise(("%s/%s/%s is no log of version v1"):format(folder, LOG, entry))
  end
  for line in text:gsub("^v1\n?", ""):gmatch "[^\n]+" do
    local one = json_parse.decode(line)
    if one.action == "add" then list[#list + 1] = unescape(one.path:gsub("^file:/+", "/")) end
  end
end

local function logged(folder, names)
  local entries, gap = entries_of(names)
  if not entries then fault.raise(("%s/%s: entry %d is missing"):format(folder, LOG, gap)) end
  local list = {}
  for _, entry in ipairs(entries) do add_logged(list, folder, entry) end
  return list
end

local function is_hidden(name)
  for part in name:gmatch "[^/]+" do
    if part:find "^%." or part:find "^_" and not part:find "=" then return true end
  end
  return false
end

-- Absolute paths of the files of a table.
local function files_of(path)
  local names = names_below(path)
  if #names == 1 and names[1] == "" then return { path }, "" end
  for _, name in ipairs(names) do
    if name:find("^" .. LOG .. "/%d") then return logged(path, names) end
  end
  local list = {}
  for _, name in ipairs(names) do
    if not is_hidden(name) then list[#list + 1] = path .. "/" .. name end
  end
  return list
end

-- ---- columns that are folders

-- "/t/day=2026-11-30/part-0.parquet" -> { { "day", "2026-11-30" } }; nil is null
local function partitions_of(root, file)
  local list = {}
  if file:sub(1, #root + 1) ~= root .. "/" then return list end
  for folder in file:sub(#root + 2):gmatch "([^/]+)/" do
    local name, text = folder:match "^([^=]+)=(.*)$"
    if name then
      text = unescape(text)
      list[#list + 1] = { unescape(name), text ~= NULL_FOLDER and text or nil }
    end
  end
  return list
end

local function is_integer(text, most)
  local n = text:find "^[+-]?%d+$" and tonumber(text)
  return n and n >= -most and n < most
end

local micros = core.new "int64_t[1]"

local function time_of(text)
  if not text:find "^%d%d%d%d%-%d%d?%-%d%d?[T ]%d+:" then return nil end
  return C.mt_timestamp_parse(text, #text, 0, micros) and value.integer(micros[0]) or nil
end

-- In this order; a column has the first that takes all its values: type, whether it takes a text, what
-- makes a value of it.
local KINDS = {
  { "INT", function(text) return is_integer(text, 2 ^ 31) end, tonumber },
  { "BIGINT", function(text) return text:find "^-?%d+$" and #text <= 18 end },
  { "DOUBLE", function(text) return text:find "^[+-]?%d*%.?%d+[eE]?[+-]?%d*$" and tonumber(text) end, tonumber },
  { "DATE", value.days },
  { "TIMESTAMP", time_of, time_of },
  { "STRING", function() return true end },
}

local function kind_of(values)
  for _, kind in ipairs(KINDS) do
    local all = true
    for text in pairs(values) do all = all and kind[2](text) end
    if all and (next(values) or kind[1] == "STRING") then return kind end
  end
end

local function same_names(one, other)
  if #one ~= #other then return false end
  for i = 1, #one do
    if one[i][1] ~= other[i][1] then return false end
  end
  return true
end

-- The schema of the folders, nil without; and each file's values in it.
local function read_folders(root, files)
  local first, seen, lists = partitions_of(root, files[1]), {}, {}
  for i, file in ipairs(files) do
    lists[i] = partitions_of(root, file)
    if not same_names(first, lists[i]) then
      fault.raise(("%s: its folders are of other columns than those of %s"):format(file, files[1]))
    end
    for k, one in ipairs(lists[i]) do
      seen[k] = seen[k] or {}
      if one[2] then seen[k][one[2]] = true end
    end
  end
  if #first == 0 then return nil, {} end
  local ddl, rows, kinds = {}, {}, {}
  for k, one in ipairs(first) do
    kinds[k] = kind_of(seen[k])
    ddl[k] = ("`%s` %s"):format(one[1]:gsub("`", "``"), kinds[k][1])
  end
  for i, list in ipairs(lists) do
    rows[i] = {}
    for k, one in ipairs(list) do
      rows[i][one[1]] = one[2] and kinds[k][3] and kinds[k][3](one[2]) or one[2]
    end
  end
  return assert(schemas.parse(table.concat(ddl, ", "))), rows
end

-- ---- reading

local function open(file, batch_rows)
  local out = core.new "struct mt_parquet_reader *[1]"
  if C.mt_parquet_open(file, batch_rows, out, core.err) ~= 0 then failed() end
  return core.gc(out[0], C.mt_parquet_close)
end

-- n rows of one row's values.
local function repeated(schema, row, n)
  local one = ops.batch()
  one.schema, one.array = schema.c, columns.array_of(schema, { row })
  local out, rows = ops.batch(), core.new("int32_t[?]", math.max(1, n))
  local status = C.mt_batch_gather(one, rows, n, out, core.err)
  C.mt_batch_release(one)
  if status ~= 0 then failed() end
  return out
end

-- What of the wanted columns a file has: numbers there, by name.
local function found_in(file, reader, wanted)
  local there, schema = {}, schemas.copy(C.mt_parquet_schema(reader))
  for _, field in ipairs(wanted.fields) do
    local own = schema.by_name[field.name]
    if own and own.ddl ~= field.ddl then
      fault.raise(("%s: column %q is %s here and %s in the table's first file"):format(file, field.name, own.ddl,
        field.ddl))
    end
    there[field.name] = own and own.index
  end
  return there
end

-- Puts the columns of a file's batch, and those that are values of its folders or null, in order.
local function arranged(batch, wanted, numbers, constants)
  local n = tonumber(batch.array.length)
  local rest = constants and repeated(constants.schema, constants.row, n)
  local arrays, out = core.new("struct ArrowArray[?]", math.max(1, #wanted.fields)), ops.batch()
  for i, field in ipairs(wanted.fields) do
    local own = numbers[field.name]
    local from = own and batch or rest
    C.mt_array_share(from.array.children[own or constants.schema.by_name[field.name].index], arrays + (i - 1))
  end
  C.mt_batch_like(batch, arrays, #wanted.fields, wanted.c, out)
  C.mt_batch_release(batch)
  if rest then C.mt_batch_release(rest) end
  return out
end

-- What gives the batches of one file, one after the other, then nil.
local function batches_of(file, wanted, row, folders, batch_rows)
  local reader = open(file, batch_rows)
  local in_file, picks, numbers, missing = found_in(file, reader, wanted), {}, {}, {}
  for _, field in ipairs(wanted.fields) do
    if in_file[field.name] and not (folders and folders.by_name[field.name]) then
      picks[#picks + 1] = in_file[field.name]
      numbers[field.name] = #picks - 1
    else
      missing[#missing + 1] = field
    end
  end
  local wanted_there = core.new("int32_t[?]", math.max(1, #picks))
  for i, pick in ipairs(picks) do wanted_there[i - 1] = pick end
  C.mt_parquet_project(reader, wanted_there, #picks)
  local constants = #missing > 0 and { schema = schemas.of(missing):nullable(), row = {} }
  for _, field in ipairs(missing) do constants.row[field.name] = row[field.name] end
  return function()
    local batch = ops.batch()
    if C.mt_parquet_next(reader, batch, core.err) ~= 0 then failed() end
    if batch.array.release == nil then
      C.mt_parquet_close(core.gc(reader, nil))
      return nil
    end
    return arranged(batch, wanted, numbers, constants or nil)
  end
end

--- The table at a path: its schema, and what begins to read it.
---@param path string absolute
---@return mt.Schema
---@return fun(wanted: mt.Schema, batch_rows: integer): fun(): ffi.cdata*?
function M.table(path)
  local files = files_of(path)
  if #files == 0 then
    fault.raise(("%s holds no Parquet file: there are no columns to be known"):format(path))
  end
  local folders, rows = read_folders(path, files)
  local list = {}
  for _, field in ipairs(schemas.copy(C.mt_parquet_schema(open(files[1], 1))).fields) do
    if not (folders and folders.by_name[field.name]) then list[#list + 1] = field end
  end
  for _, field in ipairs(folders and folders.fields or {}) do list[#list + 1] = field end
  return schemas.of(list):nullable(), function(wanted, batch_rows)
    local i, next_batch = 0, nil
    return function()
      while true do
        local batch = next_batch and next_batch()
        if batch then return batch end
        i = i + 1
        if not files[i] then return nil end
        next_batch = batches_of(files[i], wanted, rows[i] or {}, folders, batch_rows)
      end
    end
  end
end

return M
