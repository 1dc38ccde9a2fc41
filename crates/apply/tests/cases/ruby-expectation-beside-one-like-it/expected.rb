require_relative "../spec_helper"

describe "allowed plugin" do
  it "names the methods that a path takes" do
    app(:allowed) do |r|
      r.get "c" do
        "get"
      end
      r.post "c" do
        "post"
      end
    end

    body("/c").must_equal "get"
    header("Allow", "/c", "METHOD"=>"PATCH").must_equal "GET, POST"

    @app.plugin :head
    header("Allow", "METHOD"=>"POST").must_equal "HEAD, GET"
    header("Allow", "/c", "METHOD"=>"PATCH").must_equal "HEAD, GET, POST"
  end
end
