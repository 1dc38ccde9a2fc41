class Cart
  def initialize
    @lines = []
  end

  def add(item, price)
    @lines << [item, price]
  end

  def total
    @lines.sum { |_, price| price }
  end
end
