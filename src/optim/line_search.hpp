#pragma once

#include <limits>

// Line searches along φ(α) = f(x + α d), by reverse communication: they are given numbers, and answer which step is to
// be tried next. They never see vectors.
//
// Losses are sums of fp32 numbers. Near the optimum φ(α) − φ(0) is smaller than its rounding errors, but slopes still
// tell where φ falls. So each search has a second test, which compares slopes wherever |φ(α) − φ(0)| ≤ noise · |φ(0)|:
// it takes the trapezoid α (φ'(0) + φ'(α))/2 for φ(α) − φ(0) (Hager, Zhang, "A new conjugate gradient method with
// guaranteed descent and an efficient line search", SIAM J. Optim. 16, 2005).

namespace unisono::optim {

struct LinePoint {
  double step = 0;   ///< α
  double value = 0;  ///< φ(α)
  double slope = 0;  ///< φ'(α)
};

struct LineConstants {
  double decrease = 1e-4;  ///< δ
  double curvature = 0.9;  ///< σ
  double noise = 1e-7;     ///< ε: of sums of fp32 losses, relative
};

/// The test that an accepted step has passed.
enum class LineTest {
  none,
  strong_wolfe,       ///< φ(α) ≤ φ(0) + δ α φ'(0), |φ'(α)| ≤ σ |φ'(0)|
  approximate_wolfe,  ///< |φ(α) − φ(0)| ≤ ε |φ(0)|, σ φ'(0) ≤ φ'(α) ≤ (2δ − 1) φ'(0)
  armijo,             ///< φ(α) ≤ φ(0) + δ α φ'(0)
  approximate_armijo  ///< |φ(α) − φ(0)| ≤ ε |φ(0)|, φ'(α) ≤ (2δ − 1) φ'(0)
};
bool passes(LineTest test, const LinePoint& start, const LinePoint& trial, const LineConstants& constants);

enum class LineAnswer {
  evaluate,  ///< φ is to be evaluated at step()
  accepted,  ///< the last trial
  failed     ///< no trial is accepted
};

class LineSearch {
 public:
  virtual ~LineSearch() = default;
  /// \param slope φ'(0) < 0 \param first the first trial step
  virtual void start(double value, double slope, double first) = 0;
  /// Takes φ and φ' at step(). Where one is not finite, a much shorter step is tried next.
  virtual LineAnswer see(double value, double slope) = 0;
  /// The trial that is asked for, or was accepted.
  double step() const { return step_; }
  LineTest test() const { return test_; }  ///< that the accepted step has passed

 protected:
  /// \return accepted. In debug builds, checks that the trial passes the test
  LineAnswer accept(LineTest test, const LinePoint& start, const LinePoint& trial, const LineConstants& constants);

  double step_ = 0;
  LineTest test_ = LineTest::none;
};

/// A step that satisfies the strong or the approximate Wolfe conditions.
/// Moré, Thuente, "Line search algorithms with guaranteed sufficient decrease", ACM TOMS 20, 1994; as dcsrch in
/// MINPACK-2. Where no such step is found, the lowest trial is taken if it passes Armijo's test.
class MoreThuente final : public LineSearch {
 public:
  explicit MoreThuente(const LineConstants& constants = {}) : constants_(constants) {}
  void start(double value, double slope, double first) override;
  LineAnswer see(double value, double slope) override;

 private:
  LineAnswer shorten();
  LineAnswer refine(const LinePoint& trial);
  void update_interval(const LinePoint& trial);
  void choose(const LinePoint& trial);
  LineAnswer settle(double last);
  bool is_exhausted() const;

  LineConstants constants_;
  LinePoint start_{};
  LinePoint best_{};        ///< the end of the interval with the least value (of φ, or of φ less the Armijo line)
  LinePoint other_{};       ///< the other end
  bool bracketed_ = false;  ///< a minimum lies between the two
  bool modified_ = true;  ///< steps are sought for ψ(α) = φ(α) − φ(0) − δ α φ'(0), until one has ψ ≤ 0, φ' ≥ 0
  bool settling_ = false;  ///< best_ is evaluated again, to be taken
  double width_ = 0, previous_width_ = 0;
  double least_ = 0, largest_ = 0;                          ///< where the next trial may lie
  double limit_ = std::numeric_limits<double>::infinity();  ///< φ was not finite there
  int trials_ = 0, not_finite_ = 0;
};

/// A trial of a search along a path: x(α) = x + α d, or its projection.
struct PathTrial {
  double value = 0;   ///< f(x(α))
  double linear = 0;  ///< the first-order change of f from x to x(α), negative: ∇f(x)·(x(α) − x)
  double mean = 0;    ///< the change by the trapezoidal rule, with the slopes at both ends
};

/// Backtracking until f(x(α)) ≤ f(x) + δ · linear, or, where f has changed by no more than noise, mean ≤ δ · linear.
/// Armijo 1966. The next step is the minimum of the parabola through f(x), its slope and the trial, in [α/10, α/2].
class Armijo final : public LineSearch {
 public:
  explicit Armijo(const LineConstants& constants = {}) : constants_(constants) {}
  void start(double value, double slope, double first) override { start(value, slope, first, value); }
  LineAnswer see(double value, double slope) override;

  /// \param reference to which the decrease is relative: f(x), or the largest of the last few values (Grippo,
  /// Lampariello, Lucidi, SIAM J. Numer. Anal. 23, 1986)
  void start(double value, double slope, double first, double reference);
  LineAnswer see(const PathTrial& trial);

 private:
  LineConstants constants_;
  LinePoint start_{};
  double reference_ = 0;
  int trials_ = 0, not_finite_ = 0;
};

}  // namespace unisono::optim
