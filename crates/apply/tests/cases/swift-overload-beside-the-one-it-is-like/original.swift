extension Pathed {
  /// Whether the value is the case of a path.
  ///
  /// ```swift
  /// actions.filter { $0.is(\.settings) }
  /// ```
  public func `is`(_ path: PartialPath<Self>) -> Bool {
    self[case: path] != nil
  }

  /// Changes the value below a path.
  public mutating func modify<Value>(_ path: Path<Self, Value>, yield: (inout Value) -> Void) {
    guard var value = self[case: path] else { return }
    yield(&value)
  }
}
