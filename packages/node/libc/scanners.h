/* What scanners of grammars call of the C library, included before each of their files.
 *
 * Some of it the headers of tree-sitter-language for WebAssembly lack. The classes of signs are those of the locale "C", which Rust
 * programs run in: tree-sitter's for WebAssembly know all of Unicode, and a parse would find its errors in other places. */
#ifndef TREE_SITTER_WASM_STDLIB

#include <stddef.h>
#include <stdint.h>

#define static_assert _Static_assert

static inline int isdigit(int c) { return c >= '0' && c <= '9'; }

static inline int iswdigit(unsigned c) { return c >= '0' && c <= '9'; }
static inline int iswlower(unsigned c) { return c >= 'a' && c <= 'z'; }
static inline int iswupper(unsigned c) { return c >= 'A' && c <= 'Z'; }
static inline int iswalpha(unsigned c) { return iswlower(c) || iswupper(c); }
static inline int iswalnum(unsigned c) { return iswalpha(c) || iswdigit(c); }
static inline int iswxdigit(unsigned c) { return iswdigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static inline int iswblank(unsigned c) { return c == ' ' || c == '\t'; }
static inline int iswspace(unsigned c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline int iswpunct(unsigned c) { return c > ' ' && c < 127 && !iswalnum(c); }
static inline unsigned towlower(unsigned c) { return iswupper(c) ? c + 32 : c; }
static inline unsigned towupper(unsigned c) { return iswlower(c) ? c - 32 : c; }

#endif
