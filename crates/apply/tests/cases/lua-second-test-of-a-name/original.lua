describe("plugin spec opt", function()
  it("handles dependencies", function()
    Config.options.opt = false
    local spec = Plugin.Spec.new({ "foo/bar", dependencies = { "foo/dep1" } })
    assert.same(2, vim.tbl_count(spec.plugins))
  end)

  it("handles opt from dep", function()
    Config.options.opt = false
    local spec = Plugin.Spec.new({ "foo/dep1", { "foo/bar", dependencies = { "foo/dep1", "foo/dep2" } } })
    Plugin.update_state({ plugins = spec.plugins })
    assert.same(3, vim.tbl_count(spec.plugins))
    assert(spec.plugins.bar.dep ~= true)
    assert(spec.plugins.bar.opt == false)
    assert(spec.plugins.dep2.dep == true)
    assert(spec.plugins.dep2.opt == true)
    assert(spec.plugins.dep1.dep ~= true)
    assert(spec.plugins.dep1.opt == false)
  end)

  it("merges lazy loaders", function()
    local tests = {
      { { "foo/bar", module = "bar" }, { "foo/bar", opt = true } },
    }
    assert(#tests == 1)
  end)
end)
