final class CartTests: XCTestCase {
  func testAdd() {
    let cart = Cart()
    cart.add(Item())
    XCTAssertEqual(cart.count, 1)
  }
}

private class Item: Equatable {
  static func == (lhs: Item, rhs: Item) -> Bool { lhs === rhs }
}
