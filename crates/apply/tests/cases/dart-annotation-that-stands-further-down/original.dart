class Scope extends Widget {
  /// The container of a context.
  static Container containerOf(Context context, {bool listen = true}) {
    if (listen) {
      return context.dependOn(scope);
    }
    return context.find(scope);
  }

  /// Overrides of providers.
  @visibleForTesting
  final List<Override> overrides;
}
