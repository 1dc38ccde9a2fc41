defmodule JoinsTest do
  test "inner joins" do
    assert one() == 1
  end

  @tag :left_join
  test "left joins with missing entries" do
    first = insert(title: "1")
    second = insert(title: "2")
    assert all(first) == second
  end

  @tag :left_join
  test "left joins from a subquery" do
    first = insert(title: "1")
    assert one(first) == 1
  end
end
