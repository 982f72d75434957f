#pragma once

#include <functional>
#include <string>
#include <vector>

#include "unisono/kernels/cuda.hpp"

namespace unisono {

/// A result of an operation, in canonical order.
struct Result {
  std::string name;
  std::vector<float> values;
  double terms = 1;         ///< floats that are added up for one of these, at most
  bool activations = true;  ///< stored as such; else as floats: gradients of parameters, norms
  int roundings = 1;        ///< to the type of activations, one after the other
  double scale = 0;         ///< of what is added up, where all may cancel out
};
using Results = std::vector<Result>;

/// What a backend is asked to do, the same for all: with numbers that every precision holds exactly, so that what it
/// gives differs by sums and by the rounding of results alone.
struct Operation {
  std::string name;
  std::function<Results(kernels::Backend&)> run;
};

/// Every kernel of Backend, at odd shapes. One table for the device against the reference, and under
/// compute-sanitizer.
std::vector<Operation> operations();
/// The same of vectors and update rules, which the reference of layers does not have: against the CPU's kernels.
std::vector<Operation> vector_operations();

}  // namespace unisono
