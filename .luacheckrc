std = "luajit"
max_line_length = 120
exclude_files = { "build", ".deps" }
files["spec"] = { std = "+busted" }
files["**/*_spec.lua"] = { std = "+busted" }
