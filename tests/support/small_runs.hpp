#pragma once

#include <string>

#include "scratch_folder.hpp"
#include "unisono/data/import.hpp"
#include "unisono/session/run.hpp"

namespace unisono::testing {

/// Two classes of points, five in seven for training (40), the others for validation and test.
inline std::string make_points(const ScratchFolder& folder, int points = 56) {
  std::string text = "x,y,class\n";
  for (int i = 0; i < points; ++i) {
    const bool inside = i % 3 == 0;
    text += std::to_string((i * 37 % 100) / 50.0 - (inside ? 1.5 : 0.5)) + "," +
            std::to_string((i * 61 % 100) / 100.0 + (inside ? 0.3 : -0.3)) + (inside ? ",in\n" : ",out\n");
  }
  data::CsvOptions options;
  options.label = "class";
  options.scale = data::Scaling::none;
  options.validation_fraction = 8.0 / 56;
  options.test_fraction = 8.0 / 56;
  data::import_csv(folder.file("points.csv", text), options, {.path = folder.path("points.h5")});
  return folder.path("points.h5");
}

/// Of 50 users and 50 items: enough for a grid of 2 × 2 blocks.
inline std::string make_ratings(const ScratchFolder& folder) {
  std::string text;
  for (int i = 0; i < 2500; ++i) {
    text += "u" + std::to_string(i % 50) + "," + std::to_string(i / 50) + "," + std::to_string(1 + i * 7 % 5) + "\n";
  }
  data::RatingsOptions options;
  options.header = unisono::data::Header::no;
  data::import_ratings({folder.file("ratings.csv", text)}, options, {.path = folder.path("ratings.h5")});
  return folder.path("ratings.h5");
}

/// A perceptron of two layers on the points; one thread a rank.
inline settings::Config perceptron(const std::string& set, const std::vector<std::string>& overrides = {}) {
  return settings::parse_config({"small.toml",
                                 "name = \"small\"\n"
                                 "[data]\npath = \"" +
                                     set +
                                     "\"\n"
                                     "[model]\nkind = \"network\"\nloss = \"softmax_cross_entropy\"\n"
                                     "layers = [{ kind = \"dense\", units = 6 }, { kind = \"relu\" }, "
                                     "{ kind = \"dense\", units = 2 }]\n"
                                     "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.1\n"
                                     "[train]\nepochs = 2\nbatch_size = 8\nthreads = 1\n"
                                     "[strategy]\nkind = \"allreduce\"\n",
                                 overrides});
}

inline settings::Config factorization(const std::string& set, const std::vector<std::string>& overrides = {}) {
  return settings::parse_config({"small.toml",
                                 "name = \"ratings\"\n"
                                 "[data]\npath = \"" +
                                     set +
                                     "\"\n"
                                     "[model]\nkind = \"factorization\"\ndimension = 4\n"
                                     "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.05\n"
                                     "[train]\nepochs = 3\nbatch_size = 0\nthreads = 1\n"
                                     "[strategy]\nkind = \"stratified\"\n",
                                 overrides});
}

/// Writes nothing and shows nothing.
inline session::RunOptions quiet(std::vector<float>* parameters = nullptr) {
  session::RunOptions options;
  options.watching = session::Watching::none;
  options.results = session::Results::nowhere;
  options.parameters = parameters;
  return options;
}

}  // namespace unisono::testing
