#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "step.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/kernels/in_place.hpp"

namespace unisono::strategies {

inline constexpr int kStripes = 4096;

/// Hogwild's steps of a model with gradients: one thread makes a whole step. It copies θ, computes the gradient and the
/// optimizer's update on the copy, and adds the change of the copy to the shared θ.
class WorkerSteps {
 public:
  WorkerSteps(TrainContext& run, models::RowLocks* locks)
      : run_(run), locks_(locks), team_(run.threads, "hogwild"), threads_(static_cast<std::size_t>(run.threads)) {
    for (Worker& worker : run.workers.subspan(1)) take_state(run.workers.front().optimizer, worker.optimizer);
  }

  /// Makes steps [first, last), between which nothing is averaged or reported; worker w makes every `threads`-th step,
  /// beginning with first_step + w. \return the record of the last one
  StepRecord make(std::int64_t first, std::int64_t last) {
    const parallel::ComputeScope computes(run_);
    team_.run([&](int number) {
      Thread& thread = threads_[static_cast<std::size_t>(number)];
      Worker& worker = run_.workers[static_cast<std::size_t>(number)];
      std::copy(run_.state.statistics.begin(), run_.state.statistics.end(), worker.state.statistics.begin());
      for (std::int64_t step = first; step < last; ++step) {
        if ((step - run_.first_step) % run_.threads == number) make_one(step, worker, thread);
      }
    });
    return combine(last);
  }
  Index own_examples() const { return own_examples_; }

 private:
  struct alignas(kAlignmentBytes) Thread {
    std::vector<float> before;  ///< θ as this thread read it
    kernels::LossSums sums;
    data::Batch last;
    Index examples = 0, global_examples = 0;
    models::RowLocks::Set stripe;
  };

  /// Every thread has an optimizer state of its own, which begins as a copy of the first thread's: that is the one in
  /// checkpoints.
  static void take_state(optim::Optimizer& from, optim::Optimizer& to) {
    for (std::size_t i = 0; i < to.state().size(); ++i) {
      const View values = from.state()[i].values.view();
      std::copy(values.begin(), values.end(), to.state()[i].values.data());
    }
    to.set_steps(from.steps());
  }

  void make_one(std::int64_t step, Worker& worker, Thread& thread) {
    read_parameters(worker, thread);
    for (kernels::Write write = kernels::Write::overwrite;; write = kernels::Write::add) {
      thread.last = worker.source.next();
      const float scale = 1.0F / static_cast<float>(std::max<Index>(1, thread.last.rank_step_size));
      worker.model.loss_and_gradient(thread.last, scale, worker.state, worker.gradient, write, {}, thread.sums);
      if (thread.last.last_of_step) break;
    }
    thread.examples += thread.last.rank_step_size;
    thread.global_examples += thread.last.global_size;
    if (thread.last.rank_step_size == 0) return;
    worker.optimizer.step(worker.state.parameters, worker.gradient, run_.schedule.rate(step));
    add_changes(worker, thread);
  }

  /// Calls visit(first, floats) for the stripes of θ, holding the stripe's lock where locking is on.
  template <typename Visit>
  void for_each_stripe(Thread& thread, Visit visit) {
    const auto size = static_cast<Index>(run_.state.parameters.size());
    const Index floats = locks_ == nullptr ? size : (size + kStripes - 1) / kStripes;
    for (Index first = 0, stripe = 0; first < size; first += floats, ++stripe) {
      if (locks_ == nullptr) {
        visit(first, size);
        continue;
      }
      thread.stripe.clear();
      thread.stripe.add(*locks_, 0, stripe);
      const auto guard = locks_->lock(thread.stripe);
      visit(first, std::min(floats, size - first));
    }
  }

  void read_parameters(Worker& worker, Thread& thread) {
    for_each_stripe(thread, [&](Index first, Index floats) {
      kernels::read_shared(run_.state.parameters.data() + first, worker.state.parameters.data() + first, floats);
    });
    thread.before.assign(worker.state.parameters.begin(), worker.state.parameters.end());
  }

  void add_changes(Worker& worker, Thread& thread) {
    for_each_stripe(thread, [&](Index first, Index floats) {
      kernels::add_to_shared(thread.before.data() + first, worker.state.parameters.data() + first,
                             run_.state.parameters.data() + first, floats);
    });
  }

  /// Adds up the threads' losses and averages their running statistics.
  StepRecord combine(std::int64_t made) {
    const auto& statistics = run_.state.statistics;
    std::vector<double> sums(statistics.size());
    Index examples = 0, global_examples = 0;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[i];
      run_.sums += std::exchange(thread.sums, {});
      for (std::size_t k = 0; k < sums.size(); ++k) {
        sums[k] += static_cast<double>(thread.examples) * static_cast<double>(run_.workers[i].state.statistics[k]);
      }
      examples += std::exchange(thread.examples, 0);
      global_examples += std::exchange(thread.global_examples, 0);
    }
    for (std::size_t k = 0; examples > 0 && k < sums.size(); ++k) {
      statistics[k] = static_cast<float>(sums[k] / static_cast<double>(examples));
    }
    own_examples_ = examples;
    const auto last = static_cast<std::size_t>((made - 1 - run_.first_step) % run_.threads);
    StepRecord record = make_record(threads_[last].last, made, run_.schedule.rate(made - 1), /*consistent=*/true);
    record.global_size = global_examples;
    return record;
  }

  TrainContext& run_;
  models::RowLocks* locks_;
  ThreadTeam team_;
  std::vector<Thread> threads_;
  Index own_examples_ = 0;
};

}  // namespace unisono::strategies
