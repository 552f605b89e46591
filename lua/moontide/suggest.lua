-- SPDX-License-Identifier: Apache-2.0
--- The nearest of some names to a mistyped one: every "did you mean" asks here.
local M = {}

-- Edits (insert, delete, replace, swap two neighbours) from a to b.
local function distance(a, b)
  local before, last, row = {}, {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    row[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        row[j] = math.min(row[j], before[j - 2] + 1)
      end
    end
    before, last, row = last, row, before
  end
  return last[#b]
end

--- The name nearest to `word`, or nil when none is near enough to be meant.
---@param word any
---@param names string[]
---@return string?
function M.nearest(word, names)
  word = tostring(word):lower()
  if #word > 100 then return nil end
  local best, least = nil, math.min(3, math.floor(#word / 3)) + 1
  for _, name in ipairs(names) do
    local d = distance(word, name:lower())
    if d < least then best, least = name, d end
  end
  return best
end

--- The end of an error about an unknown name: a suggestion, else what there is.
---@param word any
---@param names string[]
---@return string
function M.cure(word, names)
  local near = M.nearest(word, names)
  if near then return ("; did you mean %q?"):format(near) end
  if #names == 0 then return "" end
  local shown = {}
  for i = 1, math.min(#names, 20) do shown[i] = names[i] end
  return "; there are: " .. table.concat(shown, ", ") .. (#names > 20 and ", …" or "")
end

--- The keys of a table, sorted.
---@param map table<string, any>
---@return string[]
function M.keys(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

return M
