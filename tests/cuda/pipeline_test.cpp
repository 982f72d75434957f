// Pipelines and reproducible sums on devices: the bits of one rank with a device.
#include <atomic>
#include <catch2/catch.hpp>

#include "devices.hpp"
#include "optimizers.hpp"
#include "strategies/small_network.hpp"
#include "unisono/kernels/cuda.hpp"
#include "unisono/parallel/counters.hpp"

namespace unisono::strategies {
namespace {

constexpr auto kNccl = comm::DeviceTransport::nccl, kStaged = comm::DeviceTransport::staged;

std::string text_of(comm::DeviceTransport transport) { return transport == kNccl ? "nccl" : "staged"; }

/// On so many ranks: a device each with NCCL, and one for all of them through plain memory. 23 examples in batches of
/// 9: the last step of an epoch has 5.
Training training_of(int ranks, comm::DeviceTransport transport, Index micro_batches,
                     kernels::Precision precision = kernels::Precision::fp32) {
  Training training;
  training.model = small_network(/*batch_norm=*/true);
  training.strategy = strategy_of("kind = 'allreduce'");
  training.optimizer = {.kind = "adamw", .learning_rate = 0.02, .weight_decay = 0.1};
  training.batch_size = 9;
  training.micro_batches = micro_batches;
  training.epochs = 2;
  training.ranks = ranks;
  training.device_transport = transport;
  training.backend = [=](int rank) { return kernels::make_cuda_backend(transport == kNccl ? rank : 0, precision); };
  return training;
}

void check_same(const std::vector<Outcome>& trained, const std::vector<Outcome>& expected) {
  CHECK(ranks_agree(trained));
  CHECK(trained[0].parameters == expected[0].parameters);
  CHECK(trained[0].statistics == expected[0].statistics);
  for (std::size_t i = 0; i < expected[0].optimizer_state.size(); ++i) {
    CHECK(
        std::ranges::equal(trained[0].optimizer_state[i].values.view(), expected[0].optimizer_state[i].values.view()));
  }
}

parallel::ReplicaSettings replica_of(parallel::PipelineSchedule schedule, int stages) {
  parallel::ReplicaSettings settings;
  settings.stages = stages;
  settings.schedule = schedule;
  settings.chunks = schedule == parallel::PipelineSchedule::interleaved ? 2 : 1;
  return settings;
}

TEST_CASE("pipelines on devices train to the bits of one device", "[gpu][pipeline]") {
  const Examples examples = small_images();
  for (const Index micro_batches : {1, 5}) {
    const Devices one(1);
    const auto expected = train(examples, training_of(1, kStaged, micro_batches));
    REQUIRE(expected[0].parameters != expected[0].trajectory.front());
    for (const auto transport : {kNccl, kStaged}) {
      for (const int stages : {2, 3}) {
        for (const auto& schedule : parallel::kPipelineSchedules) {
          if (schedule.value == parallel::PipelineSchedule::interleaved && stages > 2)
            continue;  // there are no so many pieces
          INFO(text_of(transport) << ", " << schedule.name << ", " << stages << " stages, " << micro_batches
                                  << " micro-batches");
          const Devices devices(stages);
          Training training = training_of(stages, transport, micro_batches);
          training.replica = replica_of(schedule.value, stages);
          const auto trained = train(examples, training);
          check_same(trained, expected);
          CHECK(losses_over_ranks(trained) == losses_over_ranks(expected));
        }
      }
    }
  }
}

TEST_CASE("activations that are made anew on devices change no bit", "[gpu][pipeline]") {
  const Examples examples = small_images();
  const Devices one(1);
  const auto expected = train(examples, training_of(1, kStaged, 5));
  for (const auto transport : {kNccl, kStaged}) {
    for (const auto schedule :
         {parallel::PipelineSchedule::one_forward_one_backward, parallel::PipelineSchedule::zero_bubble}) {
      INFO(text_of(transport) << ", " << name_of(schedule, parallel::kPipelineSchedules));
      const Devices devices(2);
      Training training = training_of(2, transport, 5);
      training.replica = replica_of(schedule, 2);
      training.replica.recompute = parallel::Recompute::all;
      check_same(train(examples, training), expected);
    }
  }
}

TEST_CASE("a stage with several pieces rounds the parameters of all of them", "[gpu][pipeline]") {
  const Examples examples = small_images();
  const Devices one(1);
  const auto expected = train(examples, training_of(1, kStaged, 5, kernels::Precision::bf16));
  for (const auto transport : {kNccl, kStaged}) {
    INFO(text_of(transport));
    const Devices devices(2);
    Training training = training_of(2, transport, 5, kernels::Precision::bf16);
    training.replica = replica_of(parallel::PipelineSchedule::interleaved, 2);
    check_same(train(examples, training), expected);
  }
}

TEST_CASE("with NCCL messages are a part of the devices' work", "[gpu][pipeline]") {
  const Examples examples = small_images(36);
  const Devices devices(2);
  const auto statistics_of = [&](comm::DeviceTransport transport) {
    Training training = training_of(2, transport, 3);
    training.replica = replica_of(parallel::PipelineSchedule::one_forward_one_backward, 2);
    simulated::reset_statistics();
    const auto trained = train(examples, training);
    REQUIRE(trained[0].counters.get<parallel::PipelineCounters>().boundary_bytes > 0);
    return simulated::statistics();
  };
  const simulated::Statistics nccl = statistics_of(kNccl), staged = statistics_of(kStaged);
  constexpr std::uint64_t kMessages = 2 * 3 * 8;  // both ways, micro-batches, steps
  CHECK(nccl.collectives == 2 * kMessages);
  CHECK(staged.collectives == 0);
  CHECK(staged.copies_to_host == nccl.copies_to_host + kMessages);
  CHECK(nccl.graph_launches > 0);  // what is between the messages is recorded
  CHECK(staged.graph_launches > 0);
}

TEST_CASE("a stage that fails does not leave the other ones waiting", "[gpu][pipeline]") {
  const Examples examples = small_images();
  for (const auto transport : {kNccl, kStaged}) {
    for (const int failing : {0, 1, 2}) {
      INFO(text_of(transport) << ", stage " << failing);
      const Devices devices(3);
      Training training = training_of(3, transport, 5);
      training.replica = replica_of(parallel::PipelineSchedule::one_forward_one_backward, 3);
      std::atomic<int> rank = 0;
      training.source = [&](const data::SourceOptions& options) {
        const bool fails = rank++ == failing;
        return std::make_unique<PausingSource>(examples, options, [fails, batches = 0]() mutable {
          if (fails && ++batches == 8) throw DataError("no more examples");
        });
      };
      CHECK_THROWS_AS(train(examples, training), DataError);
    }
  }
}

TEST_CASE("reproducible sums on devices have the same bits on any number of ranks", "[gpu][pipeline]") {
  const Examples examples = small_images();
  const Devices one(1);
  Training serial = training_of(1, kStaged, 8);
  serial.leaves = 6;
  const auto expected = train(examples, serial);
  for (const auto transport : {kNccl, kStaged}) {
    for (const int ranks : {2, 3}) {
      INFO(text_of(transport) << " on " << ranks << " ranks");
      const Devices devices(ranks);
      Training training = training_of(ranks, transport, 8);
      training.leaves = 6;
      const auto trained = train(examples, training);
      check_same(trained, expected);
      CHECK(trained[0].trajectory == expected[0].trajectory);
      CHECK(settled_losses(trained) == settled_losses(expected));
    }
    INFO(text_of(transport) << ", 2 replicas of 2 stages");
    const Devices devices(4);
    Training hybrid = training_of(4, transport, 8);
    hybrid.leaves = 6;
    hybrid.replica = replica_of(parallel::PipelineSchedule::one_forward_one_backward, 2);
    const auto trained = train(examples, hybrid);
    check_same(trained, expected);
    CHECK(settled_losses(trained) == settled_losses(expected));
  }
}

TEST_CASE("replicas that are pipelines on devices have the bits of single ranks", "[gpu][pipeline]") {
  const Examples examples = small_images();
  for (const char* strategy :
       {"kind = 'allreduce'", "kind = 'averaging', period = 2", "kind = 'gossip', topology = 'ring'"}) {
    for (const auto transport : {kNccl, kStaged}) {
      INFO(strategy << ", " << text_of(transport));
      const Devices devices(4);
      Training ranks = training_of(2, transport, 6);
      ranks.strategy = strategy_of(strategy);
      const auto expected = train(examples, ranks);
      Training hybrid = ranks;
      hybrid.ranks = 4;
      hybrid.replica = replica_of(parallel::PipelineSchedule::one_forward_one_backward, 2);
      const auto trained = train(examples, hybrid);
      CHECK(trained[0].parameters == expected[0].parameters);
      CHECK(trained[0].statistics == expected[0].statistics);
    }
  }
}

}  // namespace
}  // namespace unisono::strategies
