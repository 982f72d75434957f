#include "layers/catalog.hpp"

#include <algorithm>

#include "layers/activation_layer.hpp"
#include "layers/batch_norm.hpp"
#include "layers/convolution.hpp"
#include "layers/dense.hpp"
#include "layers/dropout.hpp"
#include "layers/global_average_pool.hpp"
#include "layers/layer_norm.hpp"
#include "layers/pool.hpp"
#include "layers/residual.hpp"

namespace unisono::nn {
namespace {

void no_fields(LayerSettings&, ConfigVisitor&) {}

}  // namespace

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = {
      {"dense", "fully connected layer: y = x Wᵀ + b; an image is flattened", describe_dense, make_dense},
      {"convolution", "2D convolution (a cross-correlation, as in other frameworks)", describe_convolution,
       make_convolution},
      {"max_pool", "maximum of each window", describe_pool, make_max_pool},
      {"average_pool", "mean of each window, without the padding", describe_pool, make_average_pool},
      {"global_average_pool", "mean of each channel over height and width", no_fields, make_global_average_pool},
      {"batch_norm", "normalises each channel over the micro-batch (Ioffe & Szegedy 2015)", describe_batch_norm,
       make_batch_norm},
      {"layer_norm", "normalises each example over its own values (Ba et al. 2016)", describe_layer_norm,
       make_layer_norm},
      {"relu", "max(x, 0)", no_fields, make_activation<kernels::Activation::relu>},
      {"gelu", "x Φ(x), Φ the standard normal distribution (Hendrycks & Gimpel 2016)", no_fields,
       make_activation<kernels::Activation::gelu>},
      {"silu", "x / (1 + exp(−x)), also called swish (Elfwing et al. 2018)", no_fields,
       make_activation<kernels::Activation::silu>},
      {"leaky_relu", "x where x > 0, else slope · x (Maas et al. 2013)", describe_leaky_relu, make_leaky_relu},
      {"elu", "x where x > 0, else alpha · (exp(x) − 1) (Clevert et al. 2016)", describe_elu, make_elu},
      {"softplus", "ln(1 + exp(x))", no_fields, make_activation<kernels::Activation::softplus>},
      {"tanh", "hyperbolic tangent", no_fields, make_activation<kernels::Activation::tanh>},
      {"sigmoid", "1 / (1 + exp(−x))", no_fields, make_activation<kernels::Activation::sigmoid>},
      {"dropout", "during training, sets random values to zero and scales up the others (Srivastava et al. 2014)",
       describe_dropout, make_dropout},
      {"flatten", "turns an image into a vector; costs nothing", no_fields, nullptr},
      {"residual", "layers whose outputs are added to their inputs (He et al. 2016)", describe_residual, nullptr},
  };
  return kinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  const auto& kinds = layer_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace unisono::nn
