public struct Pair {
    let first: Int
}

