// Ranks that end in the way that the arguments name, for check_failure.sh.
//
//   comm_failure WAY RANK [SHARED_MEMORY [RANKS_PER_NODE]]
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "unisono/base/errors.hpp"
#include "unisono/comm/buckets.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/comm/process_grid.hpp"

using namespace unisono::comm;

namespace {

struct Arguments {
  std::string way;
  int rank = 0;  ///< the one to which it happens
  unisono::comm::CommunicationSettings settings;
};

Arguments read(int argc, char** argv) {
  Arguments arguments{argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : 0, {}};
  arguments.settings.timeout_seconds = 1;
  if (argc > 3) arguments.settings.shared_memory = std::atoi(argv[3]) != 0;
  if (argc > 4) arguments.settings.ranks_per_node = std::atoi(argv[4]);
  return arguments;
}

/// Some steps of training, in which something may happen before step 3.
template <typename Happening>
void train(unisono::comm::Communicator& communicator, Happening happening) {
  unisono::Buffer gradient(100'000, communicator.shared_allocator());
  unisono::comm::GradientBuckets buckets(communicator, gradient.view(), 1 << 16);
  for (std::int64_t step = 0; step < 6; ++step) {
    communicator.set_step(step);
    buckets.ready(50'000, 100'000);
    if (step == 3) happening();  // half of the gradient is under way
    buckets.finish();
  }
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

void run(unisono::comm::MpiSession& session, const Arguments& arguments) {
  const auto communicator = session.world(arguments.settings);
  const bool is_it = communicator->rank() == arguments.rank;
  const std::string& way = arguments.way;
  if (way == "all-fail") throw unisono::ConfigError("the same on all ranks");
  if (way == "all-well" || way == "interrupted") return train(*communicator, [] {});
  if (way == "fails-after-the-others-ended") {
    train(*communicator, [] {});
    usleep(300'000);
    if (is_it) throw unisono::OutputError("the disk is full");
    return;
  }
  if (way == "fails-in-a-grid") {
    const ProcessGrid grid(*communicator, {.data = 2, .stages = communicator->size() / 2});
    train(grid.data(), [&] {
      if (is_it) throw unisono::DataError("a broken file");
    });
    return communicator->barrier();
  }
  train(*communicator, [&] {
    if (way == "busy-while-another-fails" && !is_it) usleep(2'000'000);
    if (way == "two-fail" && communicator->rank() <= arguments.rank) throw unisono::DataError("a broken file");
    if (!is_it) return;
    if (way == "fails" || way == "busy-while-another-fails") throw unisono::DataError("a broken file");
    if (way == "throws-something") throw std::runtime_error("an assertion of a library");
    if (way == "hangs") sleep_for_ever();
    if (way == "calls-something-else") communicator->barrier();
  });
}

}  // namespace

int main(int argc, char** argv) {
  unisono::comm::MpiSession session(argc, argv);
  const Arguments arguments = read(argc, argv);
  try {
    run(session, arguments);
    return session.finish(arguments.way == "interrupted" ? 75 : 0);
  } catch (const std::exception& error) {
    return session.fail(error, [&] { fmt::print(stderr, "printed by rank {}: {}\n", session.rank(), error.what()); });
  }
}
