final class Console {
    var log: [String] = []

    func ask() -> String {
        return log.last ?? ""
    }
    
    func clear() {
        log = []
    }
    
    func close() {
        log.removeAll()
    }
}
