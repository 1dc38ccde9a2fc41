#pragma once

#ifdef __clang__
QUIET_PUSH
QUIET_OFF(weak-vtables)
#endif

#ifdef _MSC_VER
QUIET_PUSH
QUIET_OFF(4512) // no assignment operator
#endif

namespace json {
struct Schema;
}
