#include "unisono/records/statistics.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "student_cdf.hpp"

using namespace unisono::records;

// The references are scipy 1.x's (scipy.stats.t).

TEST_CASE("Student's t is scipy's", "[intervals]") {
  struct Reference {
    double degrees;
    std::array<double, 5> quantiles, cdf;
  };
  const std::array<double, 5> p{0.6, 0.9, 0.975, 0.995, 0.9999}, t{-3.5, -0.2, 0.0, 1.0, 4.2};
  const std::vector<Reference> references = {
      {1,
       {0.32491969623290634, 3.0776835371752544, 12.706204736174694, 63.656741162871526, 3183.098757118502},
       {0.08858553278290476, 0.4371670418109989, 0.5, 0.75, 0.9255972347013828}},
      {2,
       {0.2886751345948128, 1.8856180831641272, 4.302652729749462, 9.924843200918287, 70.70007107496818},
       {0.036413675027234665, 0.42998599579859953, 0.5, 0.7886751345948129, 0.9738583665268504}},
      {4,
       {0.2707222947075976, 1.533206274058944, 2.7764451051977934, 4.604094871349992, 13.033671720896821},
       {0.012448081730111374, 0.4256185070684612, 0.5, 0.8130495168499705, 0.9931520948474518}},
      {9,
       {0.260955336473911, 1.3830287383966329, 2.262157162798205, 3.249835541592126, 6.010132129081531},
       {0.0033617578815294796, 0.4229633196572523, 0.5, 0.8282818019310432, 0.9988466537467299}},
      {29,
       {0.25568363457125604, 1.311433647301551, 2.045229642132703, 2.756385903670605, 4.253894118432321},
       {0.0007622231573273012, 0.4214382352630969, 0.5, 0.8372090059919032, 0.9998840765818049}},
      {99,
       {0.25402901215180673, 1.2901614420344854, 1.9842169515864174, 2.626405457280827, 3.8630891071273092},
       {0.0003495323241843972, 0.42094541665763846, 0.5, 0.8401257629303494, 0.9999707810235513}},
      {1000,
       {0.25341451583949876, 1.2823987214609247, 1.9623390808264083, 2.580754698065951, 3.7328516045753966},
       {0.0002428871729839163, 0.42076062216198806, 0.5, 0.8412237909576638, 0.9999854635389174}}};
  for (const auto& [degrees, quantiles, cdf] : references) {
    CAPTURE(degrees);
    for (std::size_t i = 0; i < p.size(); ++i) {
      CHECK(student_quantile(p[i], degrees) == Approx(quantiles[i]).epsilon(1e-9));
      CHECK(student_quantile(1 - p[i], degrees) == Approx(-quantiles[i]).epsilon(1e-9));
      CHECK(student_cdf(t[i], degrees) == Approx(cdf[i]).epsilon(1e-11));
    }
  }
}

TEST_CASE("intervals of means, plain and corrected for overlapping training examples", "[intervals]") {
  const std::vector<double> accuracies{0.81, 0.79, 0.84, 0.80, 0.83, 0.78, 0.82, 0.85, 0.80, 0.79};
  const Interval plain = mean_interval(accuracies);
  CHECK(plain.mean == Approx(0.811).epsilon(1e-12));
  CHECK(plain.deviation == Approx(0.023309511649396087).epsilon(1e-12));
  CHECK(plain.low == Approx(0.7943253798668009).epsilon(1e-10));
  CHECK(plain.high == Approx(0.827674620133199).epsilon(1e-10));
  const Interval corrected = corrected_interval(accuracies, 1.0 / 9);  // ten folds
  CHECK(corrected.low == Approx(0.786772338639152).epsilon(1e-10));
  CHECK(corrected.high == Approx(0.8352276613608479).epsilon(1e-10));
  const Interval one = mean_interval(std::vector<double>{0.5});
  CHECK(one.mean == 0.5);
  CHECK(std::isnan(one.low));
}
