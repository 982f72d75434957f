#include "unisono/comm/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <tuple>
#include <utility>

#include "ordered_sum.hpp"
#include "unisono/base/threads.hpp"
#include "world.hpp"

namespace unisono::comm::threads {
namespace {

/// A rank that is a thread of this process. Whoever arrives last at a collective carries it out for all, under the
/// world's lock: simple, and clean for the thread sanitizer. For tests, and for a rank that is alone.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  int node_rank() const override { return group_->place(rank_).number; }
  int node_size() const override { return group_->node_of(rank_).size(); }
  int node() const override { return group_->place(rank_).node; }
  std::string host() const override;
  void set_step(std::int64_t step) override;

  void barrier() override;
  void node_barrier() override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override;
  void allreduce_sum(std::span<double> values) override;
  void allreduce_sum(std::span<std::int64_t> values) override;
  void allreduce_max(std::span<std::int64_t> values) override;
  void allreduce_max(std::span<double> values) override;
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) override;
  RequestPtr start_reduce_scatter_sum(std::span<float> values) override;
  RequestPtr start_all_gather(std::span<float> values) override;
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override;

  RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) override;
  RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) override;
  std::vector<std::size_t> wait_any(std::span<Request* const> messages, const std::function<bool()>& enough) override;

  void watch(std::string_view name, const std::function<bool()>& done) override { group_->watch(name, done); }

  std::unique_ptr<Communicator> split(int color, int key) override;
  Allocator& shared_allocator() override { return page_allocator(); }
  std::shared_ptr<std::byte> allocate_on_node(std::size_t bytes) override;

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

/// Casts parts to their type.
template <typename Contribution>
std::vector<Contribution*> as(const std::vector<void*>& parts) {
  std::vector<Contribution*> typed(parts.size());
  std::transform(parts.begin(), parts.end(), typed.begin(),
                 [](void* part) { return static_cast<Contribution*>(part); });
  return typed;
}

template <typename T>
void check_equal_sizes(const std::vector<std::span<T>*>& spans) {
  for (const auto* span : spans) {
    if (span->size() != spans[0]->size()) {
      throw CommunicationError("the ranks bring spans of different lengths to one collective");
    }
  }
}

/// Every span ← all spans combined in rank order.
template <typename T, typename Combine>
void combine_spans(const std::vector<void*>& parts, Combine combine) {
  const auto spans = as<std::span<T>>(parts);
  check_equal_sizes(spans);
  std::vector<T*> targets;
  for (const auto* span : spans) targets.push_back(span->data());
  const std::vector<const T*> inputs(targets.begin(), targets.end());
  combine_in_order<T>(inputs, targets, static_cast<Index>(spans[0]->size()), combine);
}

/// A started operation. It owns `Contribution`, this rank's arguments, which must live as long as the operation.
template <typename Contribution>
class ThreadRequest final : public Request {
 public:
  ThreadRequest(std::shared_ptr<Group> group, Contribution part) : group_(std::move(group)), part_(std::move(part)) {}
  ~ThreadRequest() override {
    if (rendezvous_ != nullptr) group_->abandon(*rendezvous_);
  }
  Contribution& part() { return part_; }
  const Rendezvous& rendezvous() const { return *rendezvous_; }
  void started(RendezvousPtr rendezvous) { rendezvous_ = std::move(rendezvous); }

  void wait() override { group_->wait(*rendezvous_); }
  bool test() override { return group_->test(*rendezvous_); }
  bool wait_unless(const std::function<bool()>& enough) override { return group_->wait_unless(*rendezvous_, enough); }
  void wait_for_arrivals() override { group_->wait(*rendezvous_); }

 private:
  std::shared_ptr<Group> group_;
  Contribution part_;
  RendezvousPtr rendezvous_;
};

/// Starts a collective on a span of each rank.
RequestPtr start(const std::shared_ptr<Group>& group, int rank, const char* name, std::span<float> values,
                 const Action& action) {
  auto request = std::make_unique<ThreadRequest<std::span<float>>>(group, values);
  request->started(group->arrive(rank, name, &request->part(), action));
  return request;
}

/// A blocking collective. Its part lives on the caller's stack: where the wait fails, the world has failed with it and
/// nobody touches the part any more.
template <typename Contribution>
void meet(Group& group, int rank, const char* name, Contribution& part, const Action& action) {
  group.wait(*group.arrive(rank, name, &part, action));
}

template <typename T, typename Combine>
void meet_to_combine(Group& group, int rank, const char* name, std::span<T> values) {
  meet(group, rank, name, values, [](const std::vector<void*>& parts) { combine_spans<T>(parts, Combine{}); });
}

}  // namespace

std::string ThreadCommunicator::host() const {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

void ThreadCommunicator::set_step(std::int64_t step) {
  const std::lock_guard lock(group_->world().mutex);
  group_->world().steps[static_cast<std::size_t>(group_->world_rank(rank_))] = step;
}

void ThreadCommunicator::barrier() {
  int nothing = 0;
  meet(*group_, rank_, "barrier", nothing, [](const auto&) {});
}

void ThreadCommunicator::node_barrier() {
  int nothing = 0;
  meet(group_->node_of(rank_), node_rank(), "node_barrier", nothing, [](const auto&) {});
}

void ThreadCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  meet(*group_, rank_, "broadcast", bytes, [root](const std::vector<void*>& parts) {
    const auto spans = as<std::span<std::byte>>(parts);
    check_equal_sizes(spans);
    const auto& source = *spans[static_cast<std::size_t>(root)];
    for (const auto* span : spans) std::copy(source.begin(), source.end(), span->begin());
  });
}

void ThreadCommunicator::allreduce_sum(std::span<float> values) {
  meet_to_combine<float, Sum>(*group_, rank_, "allreduce_sum", values);
}
void ThreadCommunicator::allreduce_sum(std::span<double> values) {
  meet_to_combine<double, Sum>(*group_, rank_, "allreduce_sum of doubles", values);
}
void ThreadCommunicator::allreduce_sum(std::span<std::int64_t> values) {
  meet_to_combine<std::int64_t, Sum>(*group_, rank_, "allreduce_sum of integers", values);
}
void ThreadCommunicator::allreduce_max(std::span<std::int64_t> values) {
  meet_to_combine<std::int64_t, Max>(*group_, rank_, "allreduce_max of integers", values);
}
void ThreadCommunicator::allreduce_max(std::span<double> values) {
  meet_to_combine<double, Max>(*group_, rank_, "allreduce_max", values);
}

RequestPtr ThreadCommunicator::start_allreduce_sum(std::span<float> values) {
  return start(group_, rank_, "start_allreduce_sum", values,
               [](const std::vector<void*>& parts) { combine_spans<float>(parts, Sum{}); });
}

RequestPtr ThreadCommunicator::start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) {
  using Vectors = std::vector<std::span<float>>;
  auto request = std::make_unique<ThreadRequest<Vectors>>(group_, Vectors(vectors.begin(), vectors.end()));
  request->started(group_->arrive(rank_, "start_tree_sum", &request->part(), [&order](const std::vector<void*>& parts) {
    const auto held = as<Vectors>(parts);
    std::vector<const float*> inputs;
    std::vector<float*> targets;
    for (const TreeSum::Input& input : order.inputs) {
      inputs.push_back((*held[static_cast<std::size_t>(input.rank)])[static_cast<std::size_t>(input.vector)].data());
    }
    for (const Vectors* vectors_of_rank : held) targets.push_back(vectors_of_rank->front().data());
    combine_in_tree(inputs, order.program, targets, static_cast<Index>(held.front()->front().size()));
  }));
  return request;
}

RequestPtr ThreadCommunicator::start_reduce_scatter_sum(std::span<float> values) {
  return start(group_, rank_, "reduce_scatter_sum", values, [](const std::vector<void*>& parts) {
    const auto spans = as<std::span<float>>(parts);
    check_equal_sizes(spans);
    for (std::size_t r = 0; r < spans.size(); ++r) {
      const Slice slice = line_slice_of(std::ssize(*spans[r]), static_cast<int>(r), static_cast<int>(spans.size()));
      std::vector<const float*> inputs;
      for (const auto* span : spans) inputs.push_back(span->data() + slice.first);
      float* const target = spans[r]->data() + slice.first;
      combine_in_order<float>(inputs, std::span(&target, 1), slice.last - slice.first, Sum{});
    }
  });
}

RequestPtr ThreadCommunicator::start_all_gather(std::span<float> values) {
  return start(group_, rank_, "all_gather", values, [](const std::vector<void*>& parts) {
    const auto spans = as<std::span<float>>(parts);
    check_equal_sizes(spans);
    for (std::size_t from = 0; from < spans.size(); ++from) {
      const float* const source = spans[from]->data();
      const Slice slice =
          line_slice_of(std::ssize(*spans[from]), static_cast<int>(from), static_cast<int>(spans.size()));
      for (const auto* span : spans) {
        if (span->data() != source) std::copy(source + slice.first, source + slice.last, span->data() + slice.first);
      }
    }
  });
}

std::vector<std::vector<std::byte>> ThreadCommunicator::all_gather_bytes(std::span<const std::byte> bytes) {
  using Contribution = std::pair<std::span<const std::byte>, std::vector<std::vector<std::byte>>>;  // mine; everybody's
  Contribution part{bytes, {}};
  meet(*group_, rank_, "all_gather_bytes", part, [](const std::vector<void*>& parts) {
    const auto typed = as<Contribution>(parts);
    for (auto* to : typed) {
      for (const auto* from : typed) to->second.emplace_back(from->first.begin(), from->first.end());
    }
  });
  return std::move(part.second);
}

RequestPtr ThreadCommunicator::start_send(std::span<const std::byte> bytes, int peer, int tag) {
  // A send's bytes are only read.
  const std::span<std::byte> source(const_cast<std::byte*>(bytes.data()), bytes.size());
  auto request = std::make_unique<ThreadRequest<std::span<std::byte>>>(group_, source);
  request->started(group_->post(true, source, rank_, peer, tag));
  return request;
}

RequestPtr ThreadCommunicator::start_receive(std::span<std::byte> bytes, int peer, int tag) {
  auto request = std::make_unique<ThreadRequest<std::span<std::byte>>>(group_, bytes);
  request->started(group_->post(false, bytes, rank_, peer, tag));
  return request;
}

std::vector<std::size_t> ThreadCommunicator::wait_any(std::span<Request* const> messages,
                                                      const std::function<bool()>& enough) {
  std::vector<const Rendezvous*> rendezvous_points;
  for (Request* message : messages) {
    rendezvous_points.push_back(&static_cast<ThreadRequest<std::span<std::byte>>*>(message)->rendezvous());
  }
  return group_->wait_any(rendezvous_points, enough);
}

std::unique_ptr<Communicator> ThreadCommunicator::split(int color, int key) {
  struct Contribution {
    int color, key, rank;
    std::shared_ptr<Group> group = {};
    int new_rank = 0;
  } part{color, key, rank_};
  meet(*group_, rank_, "split", part, [this](const std::vector<void*>& parts) {
    auto typed = as<Contribution>(parts);
    std::sort(typed.begin(), typed.end(), [](const Contribution* a, const Contribution* b) {
      return std::tie(a->color, a->key, a->rank) < std::tie(b->color, b->key, b->rank);
    });
    for (auto first = typed.begin(); first != typed.end();) {
      const auto last =
          std::find_if(first, typed.end(), [&](const Contribution* p) { return p->color != (*first)->color; });
      std::vector<int> members;
      for (auto p = first; p != last; ++p) members.push_back(group_->world_rank((*p)->rank));
      const auto group = std::make_shared<Group>(group_->shared_world(), members);
      for (auto p = first; p != last; ++p) {
        (*p)->group = group;
        (*p)->new_rank = static_cast<int>(p - first);
      }
      first = last;
    }
  });
  return std::make_unique<ThreadCommunicator>(part.group, part.new_rank);
}

std::shared_ptr<std::byte> ThreadCommunicator::allocate_on_node(std::size_t bytes) {
  std::shared_ptr<std::byte> memory;
  meet(group_->node_of(rank_), node_rank(), "allocate_on_node", memory, [bytes](const std::vector<void*>& parts) {
    const std::shared_ptr<std::byte> one(static_cast<std::byte*>(plain_allocator().allocate(bytes)),
                                         [](std::byte* pointer) { plain_allocator().deallocate(pointer); });
    for (auto* part : as<std::shared_ptr<std::byte>>(parts)) *part = one;
  });
  return memory;
}

}  // namespace unisono::comm::threads

namespace unisono::comm {
namespace {

/// Keeps the first exception that is a cause of failure, or else the first that is only a consequence (PeerFailure).
class FirstError {
 public:
  void add(std::exception_ptr error, bool is_consequence) {
    const std::lock_guard lock(mutex_);
    std::exception_ptr& first = is_consequence ? consequence_ : cause_;
    if (!first) first = std::move(error);
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
    if (consequence_) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_, consequence_;
};

void run_rank(const std::shared_ptr<threads::Group>& group, int rank, const std::function<void(Communicator&)>& body,
              FirstError& errors) {
  try {
    threads::ThreadCommunicator communicator(group, rank);
    body(communicator);
  } catch (const PeerFailure&) {
    errors.add(std::current_exception(), true);
  } catch (const std::exception& error) {
    errors.add(std::current_exception(), false);
    group->world().fail("rank " + std::to_string(rank) + " failed: " + error.what());
  } catch (...) {
    errors.add(std::current_exception(), false);
    group->world().fail("rank " + std::to_string(rank) + " failed");
  }
  group->world().end(rank);
}

std::shared_ptr<threads::Group> make_group(int ranks, double timeout_seconds, int ranks_per_node = 0) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return std::make_shared<threads::Group>(std::make_shared<threads::World>(ranks, timeout_seconds, ranks_per_node),
                                          members);
}

}  // namespace

void run_as_threads(int ranks, const std::function<void(Communicator&)>& body, double timeout_seconds,
                    int ranks_per_node) {
  const auto group = make_group(ranks, timeout_seconds, ranks_per_node);
  FirstError errors;
  Threads threads("ranks of one process", ranks);
  try {
    for (int rank = 0; rank < ranks; ++rank) {
      threads.start([&, rank] { run_rank(group, rank, body, errors); });
    }
  } catch (const std::exception& error) {
    group->world().fail(error.what());
    throw;
  }
  threads.join();
  errors.rethrow();
}

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<threads::ThreadCommunicator>(make_group(1, 300), 0);
}

}  // namespace unisono::comm
