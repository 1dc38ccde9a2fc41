struct Row {
  func rebuilt(as name: String) -> Row {
    let cells = self.cells.map { cell in
      Cell(
        label: cell.label,
        width: cell.width,
        style: cell.style,
        padding: cell.padding,
        border: cell.border
      )
    }
    return Row(
      name: name,
      cells: cells
    )
  }

  var isEmpty: Bool { cells.isEmpty }
}
