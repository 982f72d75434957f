#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "mutations.hpp"
#include "unisono/base/random.hpp"

namespace unisono::test {
namespace {

using Bytes = std::vector<char>;

constexpr unsigned kSeconds = 10;                   // of one mutation
constexpr rlim_t kMemory = std::uint64_t{1} << 30;  // of one mutation: files here have some KiB

std::vector<Seed> read_seeds(int folders, char** names) {
  std::vector<Seed> seeds;
  for (int i = 0; i < folders; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(names[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      seeds.push_back(
          {entry.path().filename().string(), entry.path().string(), {std::istreambuf_iterator<char>(file), {}}});
    }
  }
  std::sort(seeds.begin(), seeds.end(), [](const Seed& a, const Seed& b) { return a.name < b.name; });
  return seeds;
}

/// A number that programs stumble over.
std::uint64_t odd_number(RandomStream& random, std::uint64_t size) {
  const std::uint64_t numbers[] = {0,          1,          size,       size - 1,   size + 1,
                                   0x7FFF,     0xFFFF,     0x7FFFFFFF, 0xFFFFFFFF, 1ULL << 32,
                                   1ULL << 40, 1ULL << 60, INT64_MAX,  1ULL << 63, UINT64_MAX};
  return numbers[random.below(std::size(numbers))];
}

void mutate(Bytes& bytes, RandomStream& random) {
  const auto place = [&] { return static_cast<std::size_t>(random.below(bytes.size())); };
  const auto run = [&](std::size_t at, std::size_t most) {
    return std::min<std::size_t>(1 + random.below(most), bytes.size() - at);
  };
  const std::size_t at = place();
  switch (random.below(8)) {
    case 0:
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
      return;
    case 2:
      bytes[at] = static_cast<char>(random.below(256));
      return;
    case 3: {
      const std::uint64_t number = odd_number(random, bytes.size());
      const std::size_t width = std::size_t{1} << random.below(4), from = at / width * width;
      std::memcpy(bytes.data() + from, &number, std::min(width, bytes.size() - from));
      return;
    }
    case 4:
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), run(at, 512), random.below(2) == 0 ? '\0' : '\xFF');
      return;
    case 5: {
      const std::size_t other = place(), count = std::min(run(at, 512), bytes.size() - other);
      const Bytes moved(bytes.begin() + static_cast<std::ptrdiff_t>(other),
                        bytes.begin() + static_cast<std::ptrdiff_t>(other + count));
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count,
                  bytes.begin() + static_cast<std::ptrdiff_t>(other));
      std::copy(moved.begin(), moved.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
    case 6:
      bytes.resize(at + 1);
      return;
    default:
      for (int i = 0; i < 8; ++i) bytes[place()] = static_cast<char>(random.below(256));
  }
}

// Exit codes. A sanitizer ends a process with 1.
constexpr int kRead = 40, kRefused = 41, kOtherwise = 42;

// The address sanitizer needs more address space than kMemory. Only clang has __has_feature.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

void limit_memory() {
  const rlimit memory{kMemory, kMemory};
  if (!kSanitized) setrlimit(RLIMIT_AS, &memory);
}

[[noreturn]] void use_and_exit(const Use& use, const std::string& path, const Seed& seed) {
  limit_memory();
  alarm(kSeconds);
  try {
    _exit(use(path, seed) == Outcome::read ? kRead : kRefused);
  } catch (const std::exception& error) {
    std::printf("%s: %s\n", path.c_str(), error.what());
    _exit(kOtherwise);
  }
}

struct Tally {
  std::uint64_t read = 0, refused = 0, other_errors = 0, crashes = 0, hangs = 0;
  /// \return whether it ended as it should
  bool add(int status) {
    if (WIFSIGNALED(status)) {
      ++(WTERMSIG(status) == SIGALRM ? hangs : crashes);
      return false;
    }
    const int code = WEXITSTATUS(status);
    ++(code == kRead ? read : code == kRefused ? refused : other_errors);
    return code == kRead || code == kRefused;
  }
};

std::string kept_name(std::uint64_t number, const std::string& ending) {
  return "mutation-" + std::to_string(number) + ending;
}

}  // namespace

int use_mutations(int argc, char** argv, const Use& use) {
  if (argc < 4) {
    std::fprintf(stderr, "%s COUNT SEED FOLDER...\n", argv[0]);
    return 2;
  }
  const std::uint64_t count = std::strtoull(argv[1], nullptr, 10), seed = std::strtoull(argv[2], nullptr, 10);
  const std::vector<Seed> seeds = read_seeds(argc - 3, argv + 3);
  const std::string beginning = "/dev/shm/unisono-mutation-" + std::to_string(getpid());
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // processes that are forked have nothing of it
  Tally tally;
  for (std::uint64_t i = 0; i < count; ++i) {
    RandomStream random(seed, Purpose::test, i);
    const Seed& original = seeds[i % seeds.size()];
    const std::string ending = std::filesystem::path(original.name).extension().string(), path = beginning + ending;
    Bytes bytes = original.bytes;
    for (std::uint64_t times = 1 + (random.below(4) == 0 ? random.below(4) : 0); times > 0; --times)
      mutate(bytes, random);
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const pid_t child = fork();
    if (child == 0) use_and_exit(use, path, original);
    int status = 0;
    waitpid(child, &status, 0);
    const bool right = tally.add(status);
    if (!right) {
      std::filesystem::copy_file(path, kept_name(i, ending), std::filesystem::copy_options::overwrite_existing);
    }
    std::filesystem::remove(path);
    if (right) continue;
    std::printf("%s of %s: %s %d\n", kept_name(i, ending).c_str(), original.name.c_str(),
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  std::printf("%llu mutations of %zu files: %llu read, %llu refused, %llu other errors, %llu crashes, %llu hangs\n",
              static_cast<unsigned long long>(count), seeds.size(), static_cast<unsigned long long>(tally.read),
              static_cast<unsigned long long>(tally.refused), static_cast<unsigned long long>(tally.other_errors),
              static_cast<unsigned long long>(tally.crashes), static_cast<unsigned long long>(tally.hangs));
  return tally.other_errors + tally.crashes + tally.hangs == 0 ? 0 : 1;
}

}  // namespace unisono::test
