local function tabline() return line(config.tabline) end

local function check_name(name)
  local renamed = { old = 'new' }
  if renamed[name] then
    return renamed[name]
  end
  return name
end

local function warn(name)
  print(name)
end

local function theme()
  local name = config.theme
  if type(name) == 'string' then
    local ok, found = pcall(load, name)
    if ok then return found end
  end
end
