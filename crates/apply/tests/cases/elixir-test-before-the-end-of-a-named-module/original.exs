defmodule TextTest do
  use ExUnit.Case

  test "joins parts" do
    assert Text.join(["a", "b"]) == "ab"
  end

  test "splits parts" do
    assert Text.split("a-b") == ["a", "b"]
  end
end
