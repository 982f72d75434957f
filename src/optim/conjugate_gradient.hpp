#pragma once

#include "descent.hpp"

namespace unisono::optim {

enum class ConjugateBeta { hager_zhang, polak_ribiere };

inline constexpr Named<ConjugateBeta> kConjugateBetas[] = {
    {ConjugateBeta::hager_zhang, "hager_zhang", "Hager and Zhang's lower bound, which may be negative"},
    {ConjugateBeta::polak_ribiere, "polak_ribiere", "at least 0 (PR+)"}};

struct ConjugateSettings {
  ConjugateBeta beta = ConjugateBeta::hager_zhang;
  LineSearchKind line_search = LineSearchKind::strong_wolfe;
  BatchStopping stopping{};
};

/// \param search along each direction
std::unique_ptr<BatchMethod> make_conjugate_gradient(const ConjugateSettings& settings, Index size,
                                                     std::unique_ptr<LineSearch> search);

}  // namespace unisono::optim
