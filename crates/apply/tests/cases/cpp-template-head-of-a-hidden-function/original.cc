namespace detail {

template <typename Context>
constexpr auto is_formattable_impl(...) -> bool {
  return false;
}
template <typename T, typename Context>
constexpr auto is_formattable() -> bool {
  return is_formattable_impl<Context>(nullptr);
}

// Extracts a container.
int container();

}  // namespace detail
