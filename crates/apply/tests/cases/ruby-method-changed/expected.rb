class Cart
  def initialize
    @lines = []
  end

  def add(item, price)
    raise ArgumentError, "price" if price.negative?
    @lines << [item, price]
  end

  def total
    @lines.sum { |_, price| price }
  end
end
