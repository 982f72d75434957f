// What cuDNN offers for convolutions on an H100, as it lists it itself for a device that is only described to it.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "simulated_cuda/cudnn.hpp"
#include "simulated_cuda/engine_key.hpp"

namespace simulated {
namespace {

struct Row {
  const char* key;
  const char* tuned;
  const char* fallback;
};
constexpr Row rows[] = {
#include "simulated_cuda/cudnn_listed.inc"
};

/// "70t": its number, and letters for its notes; see tests/cuda/list_engines.cpp.
Engine engine_of(const std::string& word) {
  char* letters = nullptr;
  Engine engine{.number = static_cast<int>(std::strtol(word.c_str(), &letters, 10)), .notes = {}};
  for (; *letters != '\0'; ++letters) {
    switch (*letters) {
      case 't':
        engine.notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        break;
      case 'd':
        engine.notes.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
        break;
      case 'r':
        engine.notes.push_back(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
        break;
      case 'n':
        engine.notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
        break;
      default:  // "!"
        engine.builds = false;
        break;
    }
  }
  return engine;
}

std::vector<Engine> engines_of(const char* words) {
  std::istringstream in(words);
  std::vector<Engine> engines;
  for (std::string word; in >> word;) engines.push_back(engine_of(word));
  return engines;
}

const char* operation_of(const TensorGraph& graph) {
  const auto kind = [&](std::size_t i) { return graph.operations[i].kind; };
  switch (graph.operations.size()) {
    case 1:
      if (kind(0) == Operation::forward) return "forward";
      return kind(0) == Operation::backward_data ? "data" : "filter";
    case 2:
      return kind(0) == Operation::forward && kind(1) == Operation::add ? "forward bias" : "";
    case 3:
      return kind(0) == Operation::forward && kind(1) == Operation::add && kind(2) == Operation::relu
                 ? "forward bias relu"
                 : "";
    default:
      return "";
  }
}

EngineKey key_of(const TensorGraph& graph) {
  const TensorOperation& convolution = graph.operations[0];
  const auto tensor = [&](std::int64_t id) -> const Tensor& { return graph.tensors.at(id); };
  const bool data = convolution.kind == Operation::backward_data,
             filter = convolution.kind == Operation::backward_filter;
  const Tensor& x = tensor(data ? convolution.output : convolution.inputs[0]);
  const Tensor& w = tensor(filter ? convolution.output : convolution.inputs[1]);
  EngineKey key;
  key.operation = operation_of(graph);
  key.halves = tensor(convolution.inputs[0]).number == Number::bfloat16;
  key.result_halves = tensor(graph.operations.back().output).number == Number::bfloat16;
  std::copy_n(x.extents.begin() + 1, 3, key.in);
  std::copy_n(w.extents.begin(), 4, key.filters);
  std::copy_n(convolution.before, 2, key.padding);
  std::copy_n(convolution.stride, 2, key.stride);
  std::copy_n(convolution.dilation, 2, key.dilation);
  return key;
}

}  // namespace

bool is_listable(const TensorGraph& graph) {
  if (graph.operations.empty() || !graph.operations[0].is_convolution() || *operation_of(graph) == '\0') return false;
  return std::all_of(graph.tensors.begin(), graph.tensors.end(), [](const auto& entry) {
    const Tensor& tensor = entry.second;
    const auto& e = tensor.extents;
    return tensor.alignment % 16 == 0 && e.size() == 4 &&
           tensor.strides == std::vector<std::int64_t>{e[1] * e[2] * e[3], 1, e[1] * e[3], e[1]};
  });
}

std::optional<Offers> listed(const TensorGraph& graph) {
  if (!is_listable(graph)) return std::nullopt;
  const std::string key = key_of(graph).text();
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return key == r.key; });
  if (row == std::end(rows)) return std::nullopt;
  return Offers{engines_of(row->tuned), engines_of(row->fallback)};
}

}  // namespace simulated
