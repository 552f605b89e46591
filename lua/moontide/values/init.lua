-- SPDX-License-Identifier: Apache-2.0
--- Values of a job, all in one table: numbers and text, decimals, times, nested ones.
local M = {}

for _, part in ipairs { "exact", "decimal", "times", "format_time", "nested_view" } do
  for name, what in pairs(require("moontide.values." .. part)) do M[name] = what end
end

return M
