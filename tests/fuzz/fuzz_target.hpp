// Each kind of input file has a function that reads any bytes and aborts if a promise does not
// hold. Clang makes a fuzzer of each function. With OMNI_MUTATIONS one program has all of them, and
// calls them with mutated good files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace omni::test {

using FuzzTarget = int (*)(const std::uint8_t*, std::size_t);

inline std::map<std::string, FuzzTarget>& fuzz_targets() {
  static std::map<std::string, FuzzTarget> targets;
  return targets;
}

}  // namespace omni::test

#ifdef OMNI_MUTATIONS
#define OMNI_FUZZ_TARGET(name)                                                   \
  static int name##_target(const std::uint8_t* data, std::size_t size);          \
  static const bool name##_registered =                                          \
      omni::test::fuzz_targets().emplace(#name, name##_target).second;           \
  [[maybe_unused]] static const bool* const name##_is_used = &name##_registered; \
  static int name##_target(const std::uint8_t* data, std::size_t size)
#else
#define OMNI_FUZZ_TARGET(name) \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#endif
