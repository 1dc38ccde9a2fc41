extension Wrapper where Base == Data {
    /// Gets the image format of the data.
    public var imageFormat: ImageFormat {
        var buffer = [UInt8](repeating: 0, count: 8)
        base.copyBytes(to: &buffer, count: 8)
        
        return format(of: buffer)
    }
}
