-- SPDX-License-Identifier: Apache-2.0
--- What a frame is made by: sources, and steps over what they give. Frames that branch from one
--- share its nodes, so what is shared is read and done once.
local M = {}

---@class mt.TreeNode a source, or a step over what one or two others give
---@field source mt.Source?
---@field step mt.Step?
---@field inputs mt.TreeNode[]
---@field schema mt.Schema? of the rows it gives; nil: unknown, after a fault that `check` noted

--- The node of a source: one, however many frames are made of it.
---@param source mt.Source
---@return mt.TreeNode
function M.source(source)
  source.node = source.node or { source = source, inputs = {}, schema = source.schema }
  return source.node
end

--- A step over what nodes give.
---@param step mt.Step
---@param inputs mt.TreeNode[]
---@param schema mt.Schema?
---@return mt.TreeNode
function M.step(step, inputs, schema)
  return { step = step, inputs = inputs, schema = schema }
end

local function add_in_order(node, list, seen)
  if seen[node] then return end
  seen[node] = true
  for _, input in ipairs(node.inputs) do add_in_order(input, list, seen) end
  list[#list + 1] = node
end

--- All nodes below one and itself, each once and behind those that it takes from.
---@param root mt.TreeNode
---@return mt.TreeNode[]
function M.order(root)
  local list = {}
  add_in_order(root, list, {})
  return list
end

--- The sources of a node, in the order in which it names them.
---@param root mt.TreeNode
---@return mt.Source[]
function M.sources(root)
  local list = {}
  for _, node in ipairs(M.order(root)) do list[#list + 1] = node.source end
  return list
end

local add_lines -- below

local function add_inputs(lines, node, seen)
  for k, input in ipairs(node.inputs) do
    local last = k == #node.inputs
    for i, line in ipairs(add_lines({}, input, seen)) do
      lines[#lines + 1] = (i > 1 and (last and "  " or "│ ") or last and "└ " or "├ ") .. line
    end
  end
end

-- A source or a union, and the steps behind it.
function add_lines(lines, node, seen)
  local steps = {}
  while #node.inputs == 1 do
    table.insert(steps, 1, "  " .. node.step.words)
    node = node.inputs[1]
  end
  if not node.source then
    lines[1] = node.step.words
    add_inputs(lines, node, seen)
  else
    lines[1] = ("%s (%s)"):format(node.source.words, seen[node] and "read once, above"
      or table.concat(node.schema:names(), ", "))
    seen[node] = true
  end
  for _, words in ipairs(steps) do lines[#lines + 1] = words end
  return lines
end

--- The sources and steps for people.
---@param root mt.TreeNode
---@return string
function M.text(root)
  return table.concat(add_lines({}, root, {}), "\n")
end

return M
