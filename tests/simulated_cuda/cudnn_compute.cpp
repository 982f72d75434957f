// Computes a graph on packed arrays of double, tensor by tensor.
#include <algorithm>

#include "simulated_cuda/cudnn.hpp"

namespace simulated {
namespace {

using Values = std::vector<double>;  // packed, the last extent fastest

/// Calls visit(packed index, index by strides) for each element.
template <typename Visit>
void for_each_element(const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& strides, Visit visit) {
  std::vector<std::int64_t> at(extents.size(), 0);
  std::int64_t offset = 0;
  for (std::size_t packed = 0;; ++packed) {
    visit(packed, offset);
    std::size_t d = extents.size();
    while (d > 0 && ++at[d - 1] == extents[d - 1]) {
      offset -= (extents[d - 1] - 1) * strides[d - 1];
      at[--d] = 0;
    }
    if (d == 0) return;
    offset += strides[d - 1];
  }
}

Values loaded(const Tensor& tensor, const void* from) {
  Values values(static_cast<std::size_t>(tensor.size()));
  for_each_element(tensor.extents, tensor.strides,
                   [&](std::size_t i, std::int64_t at) { values[i] = load(tensor.number, from, at); });
  return values;
}

std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (std::size_t d = extents.size(); d-- > 0; stride *= extents[d]) strides[d] = stride;
  return strides;
}

/// The three loops of a convolution are one: over all (n, k, c, r, s, p) it multiplies rows.
///   y[n,k,p,q] += x[n,c,h,w] f[k,c,r,s]     h = p·stride + r·dilation − before, w likewise
class Convolution {
 public:
  Convolution(const TensorOperation& o, const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& f,
              const std::vector<std::int64_t>& y)
      : o_(o), x_(x), f_(f), y_(y) {}

  /// Adds to the one of the three that is the result.
  /// \param first_channel  where the loop over input channels of a group begins, and goes on to the one before it
  /// \param narrow         rounds sums to float after each channel
  void run(double* x, double* f, double* y, std::int64_t first_channel, bool narrow) const {
    const auto groups = x_[1] / f_[1];
    const auto per_group = f_[0] / groups;
    for (std::int64_t n = 0; n < x_[0]; ++n) {
      for (std::int64_t k = 0; k < f_[0]; ++k) {
        for (std::int64_t i = 0; i < f_[1]; ++i) {
          const auto c = (first_channel + i) % f_[1];
          double* plane = x + (n * x_[1] + k / per_group * f_[1] + c) * x_[2] * x_[3];
          double* image = y + (n * y_[1] + k) * y_[2] * y_[3];
          double* filter = f + (k * f_[1] + c) * f_[2] * f_[3];
          channel(plane, filter, image);
          if (narrow) round_result(plane, filter, image);
        }
      }
    }
  }

 private:
  void channel(double* x, double* f, double* y) const {
    for (std::int64_t r = 0; r < f_[2]; ++r) {
      for (std::int64_t s = 0; s < f_[3]; ++s) {
        const auto fr = o_.flipped ? f_[2] - 1 - r : r;
        const auto fs = o_.flipped ? f_[3] - 1 - s : s;
        for (std::int64_t p = 0; p < y_[2]; ++p) {
          const auto h = p * o_.stride[0] + r * o_.dilation[0] - o_.before[0];
          if (h < 0 || h >= x_[2]) continue;
          row(x + h * x_[3], s * o_.dilation[1] - o_.before[1], f[fr * f_[3] + fs], y + p * y_[3]);
        }
      }
    }
  }

  /// \param shift  of the row of x that belongs to q = 0
  void row(double* x, std::int64_t shift, double& f, double* y) const {
    const auto step = o_.stride[1];
    const auto begin = shift >= 0 ? 0 : (-shift + step - 1) / step;
    const auto end = x_[3] - shift <= 0 ? 0 : std::min(y_[3], (x_[3] - shift - 1) / step + 1);
    double sum = 0;
    for (std::int64_t q = begin; q < end; ++q) {
      double& value = x[shift + q * step];
      if (o_.kind == Operation::forward) y[q] += value * f;
      if (o_.kind == Operation::backward_data) value += y[q] * f;
      if (o_.kind == Operation::backward_filter) sum += value * y[q];
    }
    f += sum;
  }

  void round_result(double* x, double* f, double* y) const {
    const auto round = [](double* values, std::int64_t size) {
      for (std::int64_t i = 0; i < size; ++i) values[i] = static_cast<float>(values[i]);
    };
    if (o_.kind == Operation::forward) round(y, y_[2] * y_[3]);
    if (o_.kind == Operation::backward_data) round(x, x_[2] * x_[3]);
    if (o_.kind == Operation::backward_filter) round(f, f_[2] * f_[3]);
  }

  const TensorOperation& o_;
  const std::vector<std::int64_t>&x_, &f_, &y_;
};

class GraphRun {
 public:
  GraphRun(const TensorGraph& graph, const std::map<std::int64_t, void*>& pointers, const Engine& engine)
      : graph_(graph), pointers_(pointers), engine_(engine) {}

  void run() {
    for (const TensorOperation& operation : graph_.operations) {
      const Tensor& output = tensor(operation.output);
      Values result = operation.is_convolution() ? convolve(operation) : pointwise(operation);
      for (double& value : result) value = as_stored(output.number, value);
      if (!output.is_virtual) {
        for_each_element(output.extents, output.strides, [&](std::size_t i, std::int64_t at) {
          store(output.number, pointers_.at(output.id), at, result[i]);
        });
      }
      values_[output.id] = std::move(result);
    }
  }

 private:
  const Tensor& tensor(std::int64_t id) const { return graph_.tensors.at(id); }

  const Values& values(std::int64_t id) {
    const auto found = values_.find(id);
    return found != values_.end() ? found->second
                                  : values_.emplace(id, loaded(tensor(id), pointers_.at(id))).first->second;
  }

  Values convolve(const TensorOperation& operation) {
    Values first = values(operation.inputs[0]);
    Values second = values(operation.inputs[1]);
    Values result(static_cast<std::size_t>(tensor(operation.output).size()), 0.0);
    if (engine_.has_tensor_cores() && tensor(operation.inputs[0]).number == Number::float32) {
      for (double& value : first) value = to_tf32(static_cast<float>(value));
      for (double& value : second) value = to_tf32(static_cast<float>(value));
    }
    const bool forward = operation.kind == Operation::forward;
    const bool filter = operation.kind == Operation::backward_filter;
    // x, the filter and y among first input, second input and result
    const auto x_id = forward || filter ? operation.inputs[0] : operation.output;
    const auto f_id = filter ? operation.output : operation.inputs[1];
    const auto y_id = forward ? operation.output : filter ? operation.inputs[1] : operation.inputs[0];
    Values& x = forward || filter ? first : result;
    Values& f = filter ? result : second;
    Values& y = forward ? result : filter ? second : first;
    static std::int64_t runs = 0;  // under the machine's lock
    const bool unordered = engine_.is_unordered();
    const auto first_channel = unordered ? ++runs : 0;
    Convolution(operation, tensor(x_id).extents, tensor(f_id).extents, tensor(y_id).extents)
        .run(x.data(), f.data(), y.data(), first_channel, unordered);
    for (double& value : result) value *= operation.alpha;
    if (operation.beta == 0) return result;
    const Values before = loaded(tensor(operation.output), pointers_.at(operation.output));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += operation.beta * before[i];
    return result;
  }

  /// The values of an input, spread over the output's extents.
  Values spread(std::int64_t id, const Tensor& output) {
    const Values& from = values(id);
    const auto& extents = tensor(id).extents;
    auto strides = packed_strides(extents);
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] == 1) strides[d] = 0;
    }
    Values result(static_cast<std::size_t>(output.size()));
    for_each_element(output.extents, strides,
                     [&](std::size_t i, std::int64_t at) { result[i] = from[static_cast<std::size_t>(at)]; });
    return result;
  }

  Values pointwise(const TensorOperation& operation) {
    const Tensor& output = tensor(operation.output);
    Values x = spread(operation.inputs[0], output);
    const Values b = operation.inputs.size() > 1 ? spread(operation.inputs[1], output) : Values(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double left = operation.alpha1 * x[i];
      const double right = operation.alpha2 * b[i];
      switch (operation.kind) {
        case Operation::add:
          x[i] = left + right;
          break;
        case Operation::multiply:
          x[i] = left * right;
          break;
        case Operation::relu:
          x[i] = left < 0 ? 0 : left;
          break;
        case Operation::relu_gradient:
          x[i] = x[i] > 0 ? b[i] : 0;
          break;
        default:
          x[i] = left;
          break;
      }
    }
    return x;
  }

  const TensorGraph& graph_;
  const std::map<std::int64_t, void*>& pointers_;
  const Engine& engine_;
  std::map<std::int64_t, Values> values_;
};

}  // namespace

void run_graph(const TensorGraph& graph, const std::map<std::int64_t, void*>& pointers, const Engine& engine) {
  GraphRun(graph, pointers, engine).run();
}

}  // namespace simulated
