#include "recommend/sink.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "model/new_file.hpp"
#include "unisono/apply/prediction_sink.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/records/csv_field.hpp"

namespace unisono::apply {
namespace {

/// A line for each user and item: user,rank,item,score.
class CsvSink final : public RecommendationSink {
 public:
  explicit CsvSink(const RecommendationOptions& options) : options_(options), file_(options.path, /*overwrite=*/true) {
    file_.write("user,rank,item,score\n");
  }

  void write(std::span<const std::int32_t> users, std::span<const Recommendation> chosen) override {
    std::string text;
    for (std::size_t i = 0; i < users.size(); ++i) {
      const std::string user = records::csv_field(options_.user_names[static_cast<std::size_t>(users[i])]);
      for (std::size_t k = 0; k < options_.top; ++k) {
        const auto& [item, score] = chosen[i * options_.top + k];
        if (item < 0) break;
        const std::string name = records::csv_field(options_.item_names[static_cast<std::size_t>(item)]);
        fmt::format_to(std::back_inserter(text), "{},{},{},{}\n", user, k + 1, name, score);
      }
    }
    file_.write(text);
  }

  void finish() override { file_.finish(); }

 private:
  RecommendationOptions options_;
  NewFile file_;
};

/// users [n] and their items and scores [n, top]: numbers of dictionary/users and dictionary/items; −1 and NaN where
/// there are no more items.
class Hdf5Sink final : public RecommendationSink {
 public:
  explicit Hdf5Sink(const RecommendationOptions& options) : options_(options) {
    const std::uint64_t users = options.users, top = options.top;
    file_.emplace(aside(), data::hdf5::File::Mode::create);
    file_->create<std::int32_t>("users", {users});
    file_->create<std::int32_t>("items", {users, top});
    file_->create<float>("scores", {users, top});
    file_->write_strings("dictionary/users", options.user_names);
    file_->write_strings("dictionary/items", options.item_names);
  }

  ~Hdf5Sink() override {
    file_.reset();
    std::error_code ignored;
    std::filesystem::remove(aside(), ignored);
  }

  void write(std::span<const std::int32_t> users, std::span<const Recommendation> chosen) override {
    std::vector<std::int32_t> items;
    std::vector<float> scores;
    for (const Recommendation& one : chosen) {
      items.push_back(one.item);
      scores.push_back(one.item < 0 ? std::nanf("") : one.score);
    }
    file_->write_rows<std::int32_t>("users", written_, users.size(), users.data());
    file_->write_rows<std::int32_t>("items", written_, users.size(), items.data());
    file_->write_rows<float>("scores", written_, users.size(), scores.data());
    written_ += users.size();
  }

  void finish() override {
    file_->flush();
    file_.reset();
    sync_and_rename(aside(), options_.path);
  }

 private:
  std::string aside() const { return options_.path + ".tmp"; }

  RecommendationOptions options_;
  std::optional<data::hdf5::File> file_;
  std::uint64_t written_ = 0;
};

}  // namespace

std::unique_ptr<RecommendationSink> make_recommendation_sink(const RecommendationOptions& options) {
  require_replaceable(options.path, options.overwrite);
  if (options.path.ends_with(".h5")) return std::make_unique<Hdf5Sink>(options);
  return std::make_unique<CsvSink>(options);
}

}  // namespace unisono::apply
