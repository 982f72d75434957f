#include "cpu/instruction_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "cpu/blis.hpp"
#include "unisono/base/errors.hpp"

#ifdef UNISONO_X86
#include <cpuid.h>
#endif

namespace unisono::kernels::cpu {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "blis", "avx2",
                                                    "avx512"};  // in the order of InstructionSet

}  // namespace

#ifdef UNISONO_X86
namespace {

/// F16C, MOVBE and LZCNT, for which not all compilers' __builtin_cpu_supports has a name.
bool has_rest_of_v3() {
  constexpr unsigned kLzcnt = 1U << 5;  // of leaf 0x80000001's ECX
  unsigned a = 0, b = 0, features = 0, more = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &features, &d) == 0 || __get_cpuid(0x80000001, &a, &b, &more, &d) == 0) return false;
  return (features & bit_F16C) != 0 && (features & bit_MOVBE) != 0 && (more & kLzcnt) != 0;
}

}  // namespace
#endif

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets{InstructionSet::portable};
  if (has_blis()) sets.push_back(InstructionSet::blis);
#ifdef UNISONO_X86
  // The levels of the x86-64 psABI: what -march=x86-64-v3 and -v4 let a compiler use.
  const bool v3 = has_rest_of_v3() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v3) sets.push_back(InstructionSet::avx2);
  if (v3 && v4) sets.push_back(InstructionSet::avx512);
#endif
  return sets;
}

InstructionSet chosen_instruction_set() {
  const std::vector<InstructionSet> sets = available_instruction_sets();
  const char* const most = std::getenv("UNISONO_MAX_ISA");
  if (most == nullptr) return sets.back();
  const auto named = std::find(kNames.begin(), kNames.end(), std::string_view(most));
  if (named == kNames.end()) {
    throw ConfigError(
        fmt::format("UNISONO_MAX_ISA is '{}' in the environment; it may be {}", most, fmt::join(kNames, ", ")));
  }
  // The first set is portable, which every name allows.
  return *std::prev(std::upper_bound(sets.begin(), sets.end(), static_cast<InstructionSet>(named - kNames.begin())));
}

Loops loops_for(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable:
      return portable::make_loops();
    case InstructionSet::blis:
      return with_blis(portable::make_loops());
#ifdef UNISONO_X86
    case InstructionSet::avx2:
      return avx2::make_loops();
    case InstructionSet::avx512:
      return avx512::make_loops();
#else
    default:
      break;
#endif
  }
  throw std::logic_error("loops_for: an instruction set that this build lacks");
}

Loops narrow_loops_for(InstructionSet set) {
  return loops_for(set == InstructionSet::avx512 ? InstructionSet::avx2 : set);
}

}  // namespace unisono::kernels::cpu
