#include "layers/residual.hpp"

#include "layers/catalog.hpp"

namespace unisono::nn {

void Addition::forward(const Pass& pass, const ForwardViews& views) const {
  if (views.x.data() != views.y.data()) {
    pass.backend.activation_forward(kernels::Activation::none, out().extent, pass.batch, views.x, views.y);
  }
  pass.backend.add(out().extent, pass.batch, views.residual, views.y);
}

namespace {

void describe_inner(const Field& field, std::vector<LayerSettings>& layers, ConfigVisitor& visitor) {
  visitor.list(
      field, layers.size(), [&](std::size_t size) { layers.resize(size); },
      [&](std::size_t i, ConfigVisitor& inner) {
        layers[i].inside_residual = true;
        layers[i].describe(inner);
      });
}

void describe_residual(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<ResidualSettings>();
  describe_inner(
      {.name = "layers", .meaning = "layers of the branch, whose output is added to the input", .required = true},
      own.layers, visitor);
  describe_inner(
      {.name = "shortcut",
       .meaning = "layers that replace the identity, for branches that change the shape; if empty, the identity"},
      own.shortcut, visitor);
}

}  // namespace

LayerKind residual_block() {
  return {.name = "residual",
          .meaning = "layers whose outputs are added to their inputs (He et al. 2016)",
          .describe = describe_residual,
          .form = LayerForm::residual};
}

}  // namespace unisono::nn
