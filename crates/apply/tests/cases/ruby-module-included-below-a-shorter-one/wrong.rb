class TestManyTasks < Test::Unit::TestCase
  include Tasks::DSL

  def setup
    Task.clear
    @runs = Array.new
  end
end
