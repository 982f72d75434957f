#include "communicator.hpp"

#include <exception>
#include <mutex>
#include <utility>

#include "unisono/base/random.hpp"

namespace unisono::comm::mpi {
namespace {

constexpr std::uint64_t kTags = 32768;  // MPI promises as many

/// Equal for equal arguments, hardly ever for others.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const std::uint64_t words[] = {a, b, c};
  return hash_bytes(std::as_bytes(std::span(words)));
}

}  // namespace

void Resources::free(Progress& progress) {
  if (splits) splits->free_all(progress);
  if (node_group) node_group->free(progress);
  if (shared) shared->free_windows();
  const std::lock_guard lock(progress.mutex());
  if (board) board->free();
  for (MPI_Comm* communicator : {&node, &messages, &collectives}) {
    if (*communicator != MPI_COMM_NULL) check(MPI_Comm_free(communicator), "MPI_Comm_free");
  }
}

std::uint64_t Splits::add() {
  groups_.emplace(++count_, std::nullopt);
  return count_;
}

std::vector<std::int64_t> Splits::in_use() const {
  std::vector<std::int64_t> uses;
  for (const auto& [number, resources] : groups_) uses.push_back(resources ? 0 : 1);
  return uses;
}

void Splits::free_unused(const std::vector<std::int64_t>& in_use, Progress& progress) {
  auto group = groups_.begin();
  for (const std::int64_t used : in_use) {
    if (used != 0) {
      ++group;
      continue;
    }
    group->second->free(progress);
    group = groups_.erase(group);
  }
}

void Splits::free_all(Progress& progress) { free_unused(in_use(), progress); }

// --- Its life --------------------------------------------------------------------------------------------------------

MpiCommunicator::MpiCommunicator(Terms terms, MPI_Comm ranks, std::uint64_t id) : terms_(std::move(terms)) {
  group_.id = id;
  group_.timeout_seconds = terms_.settings.timeout_seconds;
  {
    const std::lock_guard lock(terms_.job->progress().mutex());
    make_places(ranks);
    membership_.enter();
  }
  if (!topology_.one_node()) {
    node_group_ =
        std::make_unique<MpiCommunicator>(terms_, node_, mix(id, 0, static_cast<std::uint64_t>(topology_.node)));
    terms_.job->progress().start_thread();
  }
  share_memory();
}

MpiCommunicator::Membership::~Membership() {
  if (!entered_) return;
  const std::lock_guard lock(job_.progress().mutex());
  job_.control().leave(group_);
}

void MpiCommunicator::Membership::enter() {
  job_.control().enter(group_);
  entered_ = true;
}

void MpiCommunicator::make_places(MPI_Comm ranks) {
  check(MPI_Comm_dup(ranks, &collectives_), "MPI_Comm_dup");
  check(MPI_Comm_dup(ranks, &messages_), "MPI_Comm_dup");
  check(MPI_Comm_rank(ranks, &rank_), "MPI_Comm_rank");
  int size = 0;
  check(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
  group_.members.resize(static_cast<std::size_t>(size));
  const int member = terms_.job->roster().rank();
  check(MPI_Allgather(&member, 1, MPI_INT, group_.members.data(), 1, MPI_INT, collectives_), "MPI_Allgather");
  std::vector<std::int64_t> node_of;
  for (const int rank : group_.members) node_of.push_back(node_key(rank));
  topology_ = make_topology(node_of, rank_);
  check(MPI_Comm_split(collectives_, topology_.node, rank_, &node_), "MPI_Comm_split");
}

/// A key for each rank of the job, equal for ranks that are to share memory.
std::int64_t MpiCommunicator::node_key(int rank) const {
  const std::int64_t pretended = terms_.settings.ranks_per_node > 0 ? rank / terms_.settings.ranks_per_node : 0;
  return pretended * terms_.job->roster().size() + terms_.job->roster()[rank].node;
}

void MpiCommunicator::share_memory() {
  const bool useful = terms_.settings.shared_memory && topology_.largest_node() > 1;
  bool shares = useful;
  if (useful) {
    const auto lack = SharedWindow::lack(SharedWindow::needed_bytes(Board::part_bytes(), node_size()));
    shares = max(lack ? 1 : 0) == 0;
    if (lack && node_rank() == 0 && terms_.warn) {
      terms_.warn(host() + ": no room for shared memory in " + SharedWindow::backing_folder() + " (" + lack->what +
                  "): all goes through MPI, which is slower; " + lack->remedy);
    }
  }
  shared_ =
      std::make_unique<SharedAllocator>(*this, shares ? node_ : MPI_COMM_NULL, terms_.job->progress(), terms_.warn);
  if (!shares) return;
  const std::lock_guard lock(terms_.job->progress().mutex());
  board_ = std::make_unique<Board>(node_);
}

MpiCommunicator::~MpiCommunicator() {
  if (!has_resources_) return;
  try {
    if (const auto home = home_.lock()) {
      home->give_back(number_, take_resources());
    } else if (std::uncaught_exceptions() == 0 && !terms_.job->failed()) {
      release();
    }
  } catch (const std::exception&) {
    // A peer failed meanwhile: nobody frees anything.
  }
  if (node_group_) node_group_->has_resources_ = false;
}

Resources MpiCommunicator::take_resources() {
  has_resources_ = false;
  Resources all{collectives_, messages_, node_, std::move(board_), std::move(shared_), nullptr, splits_};
  if (node_group_) all.node_group = std::make_unique<Resources>(node_group_->take_resources());
  return all;
}

void MpiCommunicator::release() {
  free_splits();
  take_resources().free(terms_.job->progress());
}

/// Frees the groups that all ranks have given back. It is a barrier, too: no rank returns before all have called it.
void MpiCommunicator::free_splits() {
  std::vector<std::int64_t> in_use = splits_->in_use();
  if (in_use.empty()) return barrier();
  allreduce_max(in_use);
  splits_->free_unused(in_use, terms_.job->progress());
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  free_splits();
  const std::uint64_t number = splits_->add();
  MPI_Comm ranks = MPI_COMM_NULL;
  {
    const std::lock_guard lock(terms_.job->progress().mutex());
    check(MPI_Comm_split(collectives_, color, key, &ranks), "MPI_Comm_split");
  }
  auto group = std::make_unique<MpiCommunicator>(
      terms_, ranks, mix(group_.id, number, static_cast<std::uint64_t>(static_cast<std::int64_t>(color))));
  group->home_ = splits_;
  group->number_ = number;
  const std::lock_guard lock(terms_.job->progress().mutex());
  check(MPI_Comm_free(&ranks), "MPI_Comm_free");
  return group;
}

std::shared_ptr<std::byte> MpiCommunicator::allocate_on_node(std::size_t bytes) {
  MpiCommunicator& node = node_group();
  Allocator& allocator = node.size() == 1 ? plain_allocator() : *node.shared_;
  std::byte* const memory =
      node.size() == 1 ? static_cast<std::byte*>(allocator.allocate(bytes)) : node.shared_->allocate_one_copy(bytes);
  if (memory == nullptr) return nullptr;
  return {memory, [&allocator](std::byte* pointer) { allocator.deallocate(pointer); }};
}

// --- Collectives -----------------------------------------------------------------------------------------------------

void MpiCommunicator::arrive(const Place& place, Kind kind, std::size_t size, std::uint64_t where) {
  if (board_) board_->arrive(place.sequence, mix(static_cast<std::uint64_t>(kind), size, where));
  group_.begun = place.sequence;
}

void MpiCommunicator::run(Operation& operation, const Place& place, Kind kind, std::size_t size, std::uint64_t where) {
  arrive(place, kind, size, where);
  terms_.job->run(operation, place);
}

Participants MpiCommunicator::participants(const Place& place) const {
  Participants all{collectives_, {}, rank_, static_cast<int>(place.sequence % kTags)};
  for (int r = 0; r < size(); ++r) all.ranks.push_back(r);
  return all;
}

void MpiCommunicator::barrier() {
  if (size() == 1) return;
  const Place place = next("barrier");
  if (board_ && topology_.one_node()) {
    InboxCombine<float, Sum> meeting(*board_, {}, place.sequence);
    return run(meeting, place, Kind::barrier, 0);
  }
  Barrier native(collectives_);
  run(native, place, Kind::barrier, 0);
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  if (size() == 1 || bytes.empty()) return;
  Broadcast native(bytes, collectives_, root);
  run(native, next("broadcast"), Kind::broadcast, bytes.size(), static_cast<std::uint64_t>(root));
}

template <typename T, typename Combine>
void MpiCommunicator::combine(std::span<T> values, std::string_view name, Kind kind) {
  if (size() == 1 || values.empty()) return;
  const Place place = next(name);
  if (board_ && topology_.one_node() && InboxCombine<T, Combine>::fits(values.size())) {
    InboxCombine<T, Combine> operation(*board_, values, place.sequence);
    return run(operation, place, kind, values.size());
  }
  MessageCombine<T, Combine> operation(participants(place), values);
  run(operation, place, kind, values.size());
}

void MpiCommunicator::allreduce_sum(std::span<double> values) {
  combine<double, Sum>(values, "allreduce_sum", Kind::sum_doubles);
}
void MpiCommunicator::allreduce_sum(std::span<std::int64_t> values) {
  combine<std::int64_t, Sum>(values, "allreduce_sum", Kind::sum_integers);
}
void MpiCommunicator::allreduce_max(std::span<std::int64_t> values) {
  combine<std::int64_t, Max>(values, "allreduce_max", Kind::max_integers);
}
void MpiCommunicator::allreduce_max(std::span<double> values) {
  combine<double, Max>(values, "allreduce_max", Kind::max_doubles);
}

std::unique_ptr<Operation> MpiCommunicator::make_sum(std::span<float> values, const Place& place,
                                                     std::uint64_t& where) {
  auto window = board_ ? shared_->find(values) : std::nullopt;
  if (!window) return std::make_unique<MessageCombine<float, Sum>>(participants(place), values);
  where = window->place;
  const std::uint64_t previous = std::exchange(last_in_window_, place.sequence);
  if (topology_.one_node()) return std::make_unique<NodeSum>(*board_, std::move(*window), place.sequence, previous);
  return std::make_unique<NodesSum>(*board_, std::move(*window), Lanes(topology_, participants(place)), place.sequence,
                                    previous);
}

RequestPtr MpiCommunicator::start_allreduce_sum(std::span<float> values) {
  if (size() == 1 || values.empty()) return std::make_unique<NothingToDo>();
  const Place place = next("allreduce_sum");
  wait_for_room(place);
  std::uint64_t where = 0;
  auto operation = make_sum(values, place, where);
  arrive(place, Kind::sum_floats, values.size(), where);
  return std::make_unique<Started>(*terms_.job, std::move(operation), place, &in_flight_);
}

/// Waits until one more sum may be in flight.
void MpiCommunicator::wait_for_room(const Place& place) {
  if (in_flight_ < Board::kMostInFlight) return;
  terms_.job->wait([this] { return in_flight_ < Board::kMostInFlight; }, place);
}

std::unique_ptr<Operation> MpiCommunicator::make_tree_sum(std::span<const std::span<float>> vectors,
                                                          const TreeSum& order, const Place& place,
                                                          std::uint64_t& where) {
  std::vector<WindowSpan> windows;
  for (const std::span<float>& vector : vectors) {
    auto window = board_ ? shared_->find(vector) : std::nullopt;
    if (!window)
      return std::make_unique<MessageTreeSum>(participants(place), std::vector(vectors.begin(), vectors.end()), order);
    where = mix(where, window->place, 0);
    windows.push_back(std::move(*window));
  }
  const std::uint64_t previous = std::exchange(last_in_window_, place.sequence);
  if (topology_.one_node())
    return std::make_unique<NodeTreeSum>(*board_, std::move(windows), order, place.sequence, previous);
  return std::make_unique<NodesTreeSum>(*board_, std::move(windows), order, topology_,
                                        Lanes(topology_, participants(place)), place.sequence, previous);
}

RequestPtr MpiCommunicator::start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) {
  if (size() == 1 || vectors.front().empty()) return std::make_unique<NothingToDo>();
  const Place place = next("tree_sum");
  wait_for_room(place);
  std::uint64_t where = 0;
  auto operation = make_tree_sum(vectors, order, place, where);
  arrive(place, Kind::sum_tree, vectors.front().size(), where);
  return std::make_unique<Started>(*terms_.job, std::move(operation), place, &in_flight_);
}

std::vector<std::vector<std::byte>> MpiCommunicator::all_gather_bytes(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(size()));
  sizes[static_cast<std::size_t>(rank_)] = static_cast<std::int64_t>(bytes.size());
  allreduce_sum(sizes);
  std::vector<std::vector<std::byte>> all(sizes.size());
  std::vector<std::span<std::byte>> parts;
  for (std::size_t r = 0; r < all.size(); ++r)
    parts.emplace_back(all[r] = std::vector<std::byte>(static_cast<std::size_t>(sizes[r])));
  std::copy(bytes.begin(), bytes.end(), parts[static_cast<std::size_t>(rank_)].begin());
  const Place place = next("all_gather_bytes");
  MessageGather operation(participants(place), std::move(parts));
  run(operation, place, Kind::gather_bytes, 0);
  return all;
}

// --- Messages --------------------------------------------------------------------------------------------------------

RequestPtr MpiCommunicator::start_send(std::span<const std::byte> bytes, int peer, int tag) {
  const Place place{group_, "send", 0, group_.members[static_cast<std::size_t>(peer)]};
  return std::make_unique<Started>(*terms_.job,
                                   std::make_unique<OneMessage<const std::byte>>(bytes, messages_, peer, tag), place);
}

RequestPtr MpiCommunicator::start_receive(std::span<std::byte> bytes, int peer, int tag) {
  return start_receive(bytes, peer, tag, /*patient=*/false);
}

RequestPtr MpiCommunicator::start_patient_receive(std::span<std::byte> bytes, int peer, int tag) {
  return start_receive(bytes, peer, tag, /*patient=*/true);
}

RequestPtr MpiCommunicator::start_receive(std::span<std::byte> bytes, int peer, int tag, bool patient) {
  const Place place{group_, "receive", 0, group_.members[static_cast<std::size_t>(peer)]};
  auto started = std::make_unique<Started>(
      *terms_.job, std::make_unique<OneMessage<std::byte>>(bytes, messages_, peer, tag, patient), place);
  if (terms_.job->arrivals().is_on() && tag != kGatherTag) {
    started->when_done([job = terms_.job, from = place.peer, to = group_.members[static_cast<std::size_t>(rank_)],
                        tag] { job->arrivals().add(from, to, tag); });
  }
  return started;
}

std::vector<std::size_t> MpiCommunicator::wait_any(std::span<Request* const> messages,
                                                   const std::function<bool()>& enough) {
  std::vector<Started*> started;
  for (Request* message : messages) started.push_back(static_cast<Started*>(message));
  return Started::wait_any(started, enough);
}

void MpiCommunicator::watch(std::string_view name, const std::function<bool()>& done) {
  terms_.job->wait(done, {group_, name, 0, Place::kNobody});
}

/// Starts one of the two halves of an allreduce.
template <typename OnNode, typename OnNodes, typename ByMessages>
RequestPtr MpiCommunicator::start_half(std::span<float> values, std::string_view name, Kind kind) {
  if (size() == 1 || values.empty()) return std::make_unique<NothingToDo>();
  const Place place = next(name);
  wait_for_room(place);
  std::uint64_t where = 0;
  std::unique_ptr<Operation> operation;
  if (auto window = board_ ? shared_->find(values) : std::nullopt) {
    where = window->place;
    const std::uint64_t previous = std::exchange(last_in_window_, place.sequence);
    if (topology_.one_node()) {
      operation = std::make_unique<OnNode>(*board_, std::move(*window), place.sequence, previous);
    } else {
      operation = std::make_unique<OnNodes>(*board_, std::move(*window), topology_, participants(place), place.sequence,
                                            previous);
    }
  } else {
    operation = std::make_unique<ByMessages>(participants(place), values);
  }
  arrive(place, kind, values.size(), where);
  return std::make_unique<Started>(*terms_.job, std::move(operation), place, &in_flight_);
}

RequestPtr MpiCommunicator::start_reduce_scatter_sum(std::span<float> values) {
  return start_half<NodeScatter, NodesScatter, MessageScatter>(values, "reduce_scatter_sum", Kind::scatter);
}

void MpiCommunicator::reduce_scatter_in_blocks(std::span<float> values, const Summed& summed) {
  auto window = board_ && topology_.one_node() && size() > 1 ? shared_->find(values) : std::nullopt;
  if (!window) return Communicator::reduce_scatter_in_blocks(values, summed);
  const Place place = next("reduce_scatter_sum");
  wait_for_room(place);
  const std::uint64_t where = window->place, previous = std::exchange(last_in_window_, place.sequence);
  NodeScatterInBlocks operation(*board_, std::move(*window), summed, place.sequence, previous);
  run(operation, place, Kind::scatter, values.size(), where);
}

RequestPtr MpiCommunicator::start_all_gather(std::span<float> values) {
  return start_half<NodeGather, NodesGather, MessageGather>(values, "all_gather", Kind::gather);
}

}  // namespace unisono::comm::mpi
