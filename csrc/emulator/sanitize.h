// What this build checks besides results: `sparkctl test --sanitize` defines one of these.
#pragma once

namespace spark::emulator {

#if defined(SPARK_SANITIZE_RACE)
inline constexpr bool kChecksRaces = true;
#else
inline constexpr bool kChecksRaces = false;
#endif
#if defined(SPARK_SANITIZE_MEMORY)
inline constexpr bool kChecksMemory = true;
#else
inline constexpr bool kChecksMemory = false;
#endif
#if defined(SPARK_SANITIZE_UNDEFINED)
inline constexpr bool kChecksUndefined = true;
#else
inline constexpr bool kChecksUndefined = false;
#endif
// Whether every load and store is seen (watch.h).
inline constexpr bool kWatches = kChecksRaces || kChecksMemory;

}  // namespace spark::emulator
