#include "cpu/cpu_backend.hpp"

#include <fmt/format.h>

#include <cassert>

#include "cpu/thread_team.hpp"

namespace unisono::kernels {
namespace cpu {

CpuBackend::CpuBackend(const CpuSettings& settings)
    : settings_(settings),
      loops_(loops_for(settings.instruction_set)),
      narrow_loops_(narrow_loops_for(settings.instruction_set)) {
  assert(settings.threads >= 1);
}
CpuBackend::~CpuBackend() = default;

std::string CpuBackend::description() const {
  return fmt::format("CPU, {}, {} thread{}", loops_.name, settings_.threads, settings_.threads == 1 ? "" : "s");
}

int CpuBackend::threads() const { return settings_.threads; }

Index CpuBackend::scratch_size() const {
  return packed_.size() + partials_.size() + x_copy_.size() + y_copy_.size() + dx_copy_.size();
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  cpu::ThreadTeam::of_this_thread().grow(threads);
  return std::make_unique<cpu::CpuBackend>(cpu::CpuSettings{.threads = threads});
}

bool threads_lacked_cores() { return cpu::TeamSize::was_reduced(); }

std::string cpu_instruction_set() { return cpu::loops_for(cpu::chosen_instruction_set()).name; }

}  // namespace unisono::kernels
