class TestManyTasks < Test::Unit::TestCase
  include Tasks

  def setup
    Task.clear
    @runs = Array.new
  end
end
