/// A request with a streaming body.
class StreamedRequest extends BaseRequest {
  /// The sink to which to write the data of the body.
  /// This may be safely written to before the request is sent; the data will be
  /// buffered.
  ///
  /// Closing this signals the end of the request.
  EventSink<List<int>> get sink => _controller.sink;
}
