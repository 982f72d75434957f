#pragma once

#include "cpu/linear_loops.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {

/// Calls work.operator()<loss>(), with the loss as a constant.
template <typename Work>
__attribute__((always_inline)) static inline void with_loss(MarginLoss loss, const Work& work) {
  switch (loss) {
    case MarginLoss::logistic:
      return work.template operator()<MarginLoss::logistic>();
    case MarginLoss::hinge:
      return work.template operator()<MarginLoss::hinge>();
    case MarginLoss::squared_hinge:
      return work.template operator()<MarginLoss::squared_hinge>();
    case MarginLoss::squared:
      return work.template operator()<MarginLoss::squared>();
  }
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
