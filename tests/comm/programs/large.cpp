// More than 2³¹ bytes through every collective and every message. Needs some 7 GB of memory on two ranks.
#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "expect.hpp"
#include "unisono/comm/mpi.hpp"

using namespace unisono::comm;

namespace {

constexpr std::size_t kBytes = (std::size_t{1} << 31) + 4096;

template <typename T>
std::span<T> as(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// values[i] = (i mod 16 + 1) · factor: exact in every type, and another at every place where a count could have
/// wrapped.
template <typename T>
void fill(std::span<T> values, int factor) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i % 16 + 1) * factor);
}

template <typename T>
bool holds(std::span<const T> values, int factor, std::size_t first = 0) {
  bool equal = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    equal &= values[i] == static_cast<T>(static_cast<int>((first + i) % 16 + 1) * factor);
  }
  return equal;
}

template <typename T>
bool holds(std::span<T> values, int factor) {
  return holds(std::span<const T>(values), factor);
}

struct Large {
  unisono::comm::Communicator& communicator;
  std::span<std::byte> bytes;
  int mine = communicator.rank() + 1;
  int sum = communicator.size() * (communicator.size() + 1) / 2;

  template <typename T>
  std::span<T> filled() const {
    fill(as<T>(bytes), mine);
    return as<T>(bytes);
  }

  void sums_of_floats() const {
    communicator.allreduce_sum(filled<float>());
    EXPECT(holds(as<float>(bytes), sum));
    const unisono::comm::RequestPtr request = communicator.start_allreduce_sum(filled<float>());
    request->wait();
    EXPECT(holds(as<float>(bytes), sum));
  }

  void slices() const {
    const std::span<float> values = filled<float>();
    communicator.reduce_scatter_sum(values);
    const unisono::comm::Slice slice =
        unisono::comm::line_slice_of(std::ssize(values), communicator.rank(), communicator.size());
    const auto first = static_cast<std::size_t>(slice.first), last = static_cast<std::size_t>(slice.last);
    EXPECT(holds<float>(std::span<const float>(values.subspan(first, last - first)), sum, first));
    communicator.all_gather(values);
    EXPECT(holds(values, sum));
  }

  void other_types() const {
    communicator.allreduce_sum(filled<double>());
    EXPECT(holds(as<double>(bytes), sum));
    communicator.allreduce_sum(filled<std::int64_t>());
    EXPECT(holds(as<std::int64_t>(bytes), sum));
    communicator.allreduce_max(filled<std::int64_t>());
    EXPECT(holds(as<std::int64_t>(bytes), communicator.size()));
    communicator.allreduce_max(filled<double>());
    EXPECT(holds(as<double>(bytes), communicator.size()));
  }

  void messages() const {
    const std::span<float> values = filled<float>();
    communicator.broadcast(bytes, 1);
    EXPECT(holds(values, 2));
    fill(values, mine);
    if (communicator.rank() == 0) communicator.send(bytes, 1, 0);
    if (communicator.rank() == 1) communicator.receive(bytes, 0, 0);
    EXPECT(holds(values, 1));
  }

  void gathered_bytes() const {
    const std::span<float> values = filled<float>();
    const auto all = communicator.all_gather_bytes(communicator.rank() == 0 ? bytes : bytes.first(4));
    EXPECT(all[0].size() == bytes.size() && all[1].size() == 4);
    EXPECT(holds(std::span<const float>(reinterpret_cast<const float*>(all[0].data()), values.size()), 1));
  }
};

}  // namespace

int main(int argc, char** argv) {
  unisono::comm::MpiSession session(argc, argv);
  try {
    {
      const auto communicator = session.world({});
      constexpr unisono::Index kFloats = kBytes / sizeof(float);
      {
        unisono::Buffer plain(kFloats);
        const Large large{*communicator, std::as_writable_bytes(plain.view())};
        large.sums_of_floats();
        large.slices();
        large.other_types();
        large.messages();
        large.gathered_bytes();
      }
      unisono::Buffer shared(kFloats, communicator->shared_allocator());
      const Large large{*communicator, std::as_writable_bytes(shared.view())};
      large.sums_of_floats();
      large.slices();
    }
    return session.finish(0);
  } catch (const std::exception& error) {
    return session.fail(error, [&] { fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what()); });
  }
}
