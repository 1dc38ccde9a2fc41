public struct Pair {
    let first: Int
}

public struct Triple {
    let first: Int
    let third: Int
}
