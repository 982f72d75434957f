#pragma once

#include <compare>
#include <map>
#include <memory>

#include "cuda/libraries.hpp"
#include "cuda/precision.hpp"
#include "cuda/queue.hpp"

namespace unisono::kernels::cuda {

/// What cuBLASLt fuses into a product.
enum class Epilogue { none, bias, relu, bias_relu, bias_gradient };

/// d[m][n] = a b (+ d), matrices in cuBLASLt's order, column-major.
/// a is [m][k], or [k][m] where transposed; b is [k][n], or [n][k].
struct ProductSpec {
  Index m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool floats = false;  ///< d holds floats in any precision: gradients of parameters
  bool adds = false;
  Epilogue epilogue = Epilogue::none;
  auto operator<=>(const ProductSpec&) const = default;
};

struct ProductMemory {
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  /// bias: added to each column, [m]; bias_gradient: receives the sums of b over k, [n] floats
  void* bias = nullptr;
  void* workspace = nullptr;
};

/// Products by cuBLASLt, planned once for each shape.
class Products {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// \param most_offers how many algorithms to ask the library for; training takes its first one
  explicit Products(Precision precision, int most_offers = 1);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Whether the library has a kernel for it.
  bool can(const ProductSpec& spec);
  /// 2·m·n·k flops. \pre can(spec)
  void multiply(Queue& queue, const ProductSpec& spec, const ProductMemory& memory);
  /// How many algorithms the library offers for it, best first by its own estimate.
  int offers(const ProductSpec& spec);
  /// From now on, computes it by another one of these. \pre offer < offers(spec)
  void choose(const ProductSpec& spec, int offer);
  /// How often `multiply` was called.
  std::int64_t multiplied() const { return multiplied_; }

 private:
  struct Plan;
  Plan& plan(const ProductSpec& spec);
  std::unique_ptr<Plan> make_plan(const ProductSpec& spec) const;

  Precision precision_;
  int most_offers_;
  cublasLtHandle_t handle_ = nullptr;
  std::int64_t multiplied_ = 0;
  std::map<ProductSpec, std::unique_ptr<Plan>> plans_;
};

}  // namespace unisono::kernels::cuda
