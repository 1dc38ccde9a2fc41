extension Singletons {
    public static func install() -> Bool {
        #if compiler(>=5.9) && swift(<5.11)
        guard #available(macOS 14.0, *) else {
            return false
        }
        return true
        #endif
    }

    private static func installed() -> Bool {
    #if compiler(>=5.9) && swift(<5.11)
    guard #available(macOS 14.0, *) else {
        return false
    }
    return true
    #endif
    }
}
