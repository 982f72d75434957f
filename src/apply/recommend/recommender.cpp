#include "recommend/recommender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "model/new_file.hpp"
#include "unisono/apply/evaluate.hpp"
#include "unisono/apply/prediction_sink.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/records/csv_field.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/evaluation.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

/// A user's ratings of all items, to be predicted.
class Question {
 public:
  explicit Question(Index items) : entries_(static_cast<std::size_t>(items)), ranges_{{{0, items}}} {
    for (std::size_t item = 0; item < entries_.size(); ++item) {
      entries_[item].column = static_cast<std::uint32_t>(item);
    }
    set_ = data::SparseEntries(entries_);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  data::Batch of(std::int32_t user) {
    for (SparseEntry& entry : entries_) entry.row = static_cast<std::uint32_t>(user);
    return {.size = ranges_[0].last, .set = &set_, .ranges = ranges_};
  }

 private:
  std::vector<SparseEntry> entries_;
  std::array<data::ExampleRange, 1> ranges_;
  data::ExampleSet set_;
};

/// \param rated ascending
std::vector<Scored> best_of(View scores, std::span<const std::uint32_t> rated, std::size_t top) {
  Best best(top);
  for (std::size_t item = 0; item < scores.size(); ++item) {
    while (!rated.empty() && rated.front() < item) rated = rated.subspan(1);
    if (!rated.empty() && rated.front() == item) continue;
    best.offer({.row = static_cast<Index>(item), .score = static_cast<double>(scores[item])});
  }
  return best.take();
}

/// Calls visit(entry) for each rating of a group that is not below `least`.
template <typename Visit>
void visit_ratings(data::Dataset& ratings, data::Split split, double least, Visit visit) {
  constexpr Index kBatch = 1 << 20;
  if (session::examples_of(ratings.info(), split) == 0) return;
  const auto source = ratings.evaluate(split, 0, 1, kBatch);
  while (const auto batch = source->next()) {
    const auto entries = std::get<data::SparseEntries>(*batch->set);
    for (const data::ExampleRange& range : batch->ranges) {
      for (auto i = range.first; i < range.last; ++i) {
        const SparseEntry& entry = entries[static_cast<std::size_t>(i)];
        if (static_cast<double>(entry.value) >= least) visit(entry);
      }
    }
  }
}

}  // namespace

void Recommender::recommend(std::span<const std::int32_t> users, std::span<Recommendation> chosen) const {
  Question question(items_);
  std::vector<float> scores(static_cast<std::size_t>(items_));
  std::fill(chosen.begin(), chosen.end(), Recommendation{});
  for (std::size_t i = 0; i < users.size(); ++i) {
    model_.predict(question.of(users[i]), state_, scores);
    const auto best = best_of(scores, rated_.of(users[i]), top_);
    for (std::size_t k = 0; k < best.size(); ++k) {
      chosen[i * top_ + k] = {.item = static_cast<std::int32_t>(best[k].row),
                              .score = static_cast<float>(best[k].score)};
    }
  }
}

RatedItems::RatedItems(data::Dataset& ratings, Index users, data::Split split, double least)
    : begins_(static_cast<std::size_t>(users) + 1) {
  visit_ratings(ratings, split, least, [&](const SparseEntry& entry) { ++begins_[entry.row + 1]; });
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  items_.resize(begins_.back());
  std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
  visit_ratings(ratings, split, least, [&](const SparseEntry& entry) { items_[next[entry.row]++] = entry.column; });
  for (std::size_t user = 0; user + 1 < begins_.size(); ++user) {
    const auto at = [&](std::size_t place) { return items_.begin() + static_cast<std::ptrdiff_t>(place); };
    std::sort(at(begins_[user]), at(begins_[user + 1]));
  }
}

namespace {

constexpr std::size_t kUsersOfRound = 4096;  // per rank: their recommendations are held in memory

/// The requested names, from the command line and from a file with one name per line.
std::vector<std::string> asked_users(const TopOptions& options) {
  std::vector<std::string> names = options.users;
  if (options.users_file.empty()) return names;
  std::ifstream file(options.users_file);
  if (!file)
    throw DataError(
        fmt::format("{}: cannot be read; it must be a text file with one user per line", options.users_file));
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.empty()) throw DataError(fmt::format("{}: lists no users", options.users_file));
  return names;
}

/// The numbers of the requested users; all, if none is named.
std::vector<std::int32_t> choose_users(const TopOptions& options, const data::NameTable& users,
                                       const std::string& model) {
  const std::vector<std::string> asked = asked_users(options);
  std::vector<std::int32_t> chosen;
  std::unordered_map<std::string_view, std::int32_t> rows;
  for (std::size_t row = 0; row < users.names.size(); ++row) {
    if (asked.empty()) chosen.push_back(static_cast<std::int32_t>(row));
    rows.emplace(users.names[row], static_cast<std::int32_t>(row));
  }
  for (const std::string& name : asked) {
    const auto row = rows.find(name);
    chosen.push_back(row != rows.end() ? row->second : static_cast<std::int32_t>(row_of(users, name, model)));
  }
  return chosen;
}

/// Known on rank 0 only.
struct Names {
  explicit Names(const TrainedModel& model)
      : users(names_of(model, choose_table(model, "users"))), items(names_of(model, choose_table(model, "items"))) {}
  data::NameTable users, items;
};

void require_ratings(const TrainedModel& model) {
  if (model.checkpoint.header.inputs.kind == data::SetKind::ratings) return;
  throw ConfigError(fmt::format("--top: {} was trained on {}, but only models of ratings can recommend items",
                                model.checkpoint.path, data::name_of(model.checkpoint.header.inputs.kind)));
}

void require_ending(const std::string& path) {
  if (path.ends_with(".h5") || path.ends_with(".csv")) return;
  throw ConfigError(fmt::format("--output {}: predictions can be written to FILE.h5 or FILE.csv", path));
}

/// Recommendations for this rank's users, computed by all its threads. \return [users, top]
std::vector<Recommendation> recommend(const Recommender& recommender, std::span<const std::int32_t> users,
                                      std::size_t top, ThreadTeam& team) {
  std::vector<Recommendation> chosen(users.size() * top);
  team.run([&](int thread) {
    const comm::Slice part = comm::slice_of(static_cast<Index>(users.size()), thread, team.size());
    const auto first = static_cast<std::size_t>(part.first), count = static_cast<std::size_t>(part.last - part.first);
    recommender.recommend(users.subspan(first, count), std::span(chosen).subspan(first * top, count * top));
  });
  return chosen;
}

/// Every rank's share of some users, on every rank.
std::vector<Recommendation> recommend_together(comm::Communicator& world, const Recommender& recommender,
                                               std::span<const std::int32_t> users, std::size_t top, ThreadTeam& team) {
  const comm::Slice own = comm::slice_of(static_cast<Index>(users.size()), world.rank(), world.size());
  const auto mine = users.subspan(static_cast<std::size_t>(own.first), static_cast<std::size_t>(own.last - own.first));
  return world.all_gather_joined(recommend(recommender, mine, top, team));
}

/// A line for each user and item: user,rank,item,score.
class CsvSink final : public RecommendationSink {
 public:
  explicit CsvSink(const RecommendationOptions& options) : options_(options), file_(options.path, Replace::anything) {
    file_.write("user,rank,item,score\n");
  }

  void write(std::span<const std::int32_t> users, std::span<const Recommendation> chosen) override {
    std::string text;
    for (std::size_t i = 0; i < users.size(); ++i) {
      const std::string user = records::csv_text(options_.user_names[static_cast<std::size_t>(users[i])]);
      for (std::size_t k = 0; k < options_.top; ++k) {
        const auto& [item, score] = chosen[i * options_.top + k];
        if (item < 0) break;
        const std::string name = records::csv_text(options_.item_names[static_cast<std::size_t>(item)]);
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

void predict_top(comm::Communicator& world, const TopOptions& options, Log& log) {
  require_ending(options.output);
  TrainedModel model(world, options.model, log);
  require_ratings(model);
  const models::ModelInputs& inputs = model.checkpoint.header.inputs;
  const auto top = static_cast<std::size_t>(std::min(options.top, inputs.columns));
  std::optional<Names> names;
  std::vector<std::int32_t> users;
  std::unique_ptr<RecommendationSink> sink;
  if (world.is_root()) {
    names.emplace(model);
    users = choose_users(options, names->users, model.checkpoint.path);
    sink = make_recommendation_sink({.path = options.output,
                                     .users = users.size(),
                                     .top = top,
                                     .user_names = names->users.names,
                                     .item_names = names->items.names,
                                     .overwrite = options.overwrite});
  }
  world.broadcast_vector(users);

  const RatedItems rated(**model.data, inputs.rows);
  const Recommender recommender(*model.parts->model, model.parts->state(), inputs.columns, rated, top);
  ThreadTeam team(model.parts->placement.threads, "recommending");
  const std::size_t round = kUsersOfRound * static_cast<std::size_t>(world.size());
  for (std::size_t first = 0; first < users.size(); first += round) {
    const auto of_round = std::span(users).subspan(first, std::min(round, users.size() - first));
    const auto chosen = recommend_together(world, recommender, of_round, top, team);
    if (sink) sink->write(of_round, chosen);
  }
  if (sink) sink->finish();
  world.barrier();
  log.info(fmt::format("{}: the best {} items for {}, without those rated in {}, by {}", options.output, top,
                       count_of(static_cast<std::int64_t>(users.size()), "user"), model.config.data.path,
                       model.checkpoint.path));
}

std::unique_ptr<RecommendationSink> make_recommendation_sink(const RecommendationOptions& options) {
  require_replaceable(options.path, options.overwrite);
  if (options.path.ends_with(".h5")) return std::make_unique<Hdf5Sink>(options);
  return std::make_unique<CsvSink>(options);
}

}  // namespace unisono::apply
