defmodule TextTest do
  use ExUnit.Case

  test "joins parts" do
    assert Text.join(["a", "b"]) == "ab"
  end

  test "splits parts" do
    assert Text.split("a-b") == ["a", "b"]
  end

  test "counts parts" do
    assert Text.count("a-b") == 2
    assert Text.count("") == 0
  end
end
