auto make_arg(T&& val) -> value {
  const auto& arg = map(val);

  constexpr bool pointer = !is_same<decltype(arg), unformattable>::value;
  static_assert(pointer, "non-void pointers are disallowed");

  check_context(arg);
  check_locale(arg);
  check_width(arg);
  check_fill(arg);
  check_sign(arg);
  check_alternate(arg);

  constexpr bool character = is_char(arg);
  static_assert(character, "character types are mixed");

  return {arg};
}
