#pragma once

// Student's t distribution, central and not, as tests of means need it.

namespace unisono::records {

/// I_x(a, b), the regularised incomplete beta function, to about 14 digits. \param x in [0, 1] \param a, b above 0
double incomplete_beta(double a, double b, double x);

/// P(|T| ≥ |t|) for T with so many degrees of freedom, with full relative precision where it is tiny.
double student_two_sided(double t, double freedom);
/// The t with P(T ≤ t) = p. \param p in (0, 1)
double student_quantile(double p, double freedom);

/// P(|T| ≥ critical) for the noncentral distribution: T = (Z + shift) / √(V / freedom), Z standard normal and V χ².
double noncentral_two_sided(double critical, double freedom, double shift);

}  // namespace unisono::records
