local M = {}

function M:_add(cmd)
  vim.api.nvim_create_user_command(cmd, function(event)
    local command = { cmd = cmd, bang = event.bang or nil }
    self:load(cmd)

    local info = vim.api.nvim_get_commands({})[cmd]
    command.nargs = info.nargs
    if event.args and event.args ~= "" and info.nargs and info.nargs:find("[1?]") then
      command.args = { event.args }
    end

    vim.cmd(command)
  end, {
    bang = true,
    range = true,
  })
end

return M
