describe("plugin spec opt", function()
  it("handles dependencies", function()
    Config.options.opt = false
    local spec = Plugin.Spec.new({ "foo/bar", dependencies = { "foo/dep1" } })
    assert.same(2, vim.tbl_count(spec.plugins))
  end)

  it("handles opt from dep", function()
    Config.options.opt = false
    local spec = Plugin.Spec.new({ "foo/bar", module = "foo" })
    Plugin.update_state({ plugins = spec.plugins })
    assert.same(1, vim.tbl_count(spec.plugins))
    assert(spec.plugins.bar.dep ~= true)
    assert(spec.plugins.bar.opt == true)
  end)

  it("merges lazy loaders", function()
    local tests = {
      { { "foo/bar", module = "bar" }, { "foo/bar", opt = true } },
    }
    assert(#tests == 1)
  end)
end)
