#include "unisono/base/log.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

/// A file of this test alone, removed at its end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name) : path_(std::filesystem::temp_directory_path() / name) { remove(); }
  ~TemporaryFile() { remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return path_.string(); }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  void remove() { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

bool is_line(const std::string& line, const std::string& level, const std::string& text) {
  return std::regex_match(line, std::regex(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d )" + level + ": " + text));
}

TEST_CASE("every line is in the file at once, with its time and level", "[log]") {
  const TemporaryFile file("unisono_log_test_lines.txt");
  Log log(0, false);
  log.add_file(file.path());
  log.info("epoch 1 of 3: {} stay braces");
  REQUIRE(file.lines().size() == 1);
  log.warning("slow disk");
  log.info_to_file("step 7");
  const auto lines = file.lines();
  REQUIRE(lines.size() == 3);
  CHECK(is_line(lines[0], "info", R"(epoch 1 of 3: \{\} stay braces)"));
  CHECK(is_line(lines[1], "warning", "slow disk"));
  CHECK(is_line(lines[2], "info", "step 7"));
}

TEST_CASE("a log goes on behind what its file holds", "[log]") {
  const TemporaryFile file("unisono_log_test_appends.txt");
  for (const std::string text : {"first run", "resumed run"}) {
    Log log(0, false);
    log.add_file(file.path());
    log.info(text);
  }
  REQUIRE(file.lines().size() == 2);
  CHECK(is_line(file.lines()[1], "info", "resumed run"));
}

TEST_CASE("ranks other than 0 write no file", "[log]") {
  const TemporaryFile file("unisono_log_test_rank.txt");
  Log log(1, false);
  log.add_file(file.path());
  log.info("not mine to say");
  log.warning("nor this in the file");
  CHECK_FALSE(std::filesystem::exists(file.path()));
}

TEST_CASE("lines of several threads stay whole", "[log]") {
  const TemporaryFile file("unisono_log_test_threads.txt");
  Log log(0, false);
  log.add_file(file.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 50; ++i) log.info(std::string(200, static_cast<char>('a' + t)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = file.lines();
  REQUIRE(lines.size() == 200);
  for (const std::string& line : lines) CHECK(is_line(line, "info", "(a{200}|b{200}|c{200}|d{200})"));
}

TEST_CASE("a file that cannot be opened or written is an output error that names it", "[log]") {
  Log log(0, false);
  CHECK_THROWS_AS(log.add_file("/proc/no-such-folder/log.txt"), OutputError);
  log.info("the log without a file still works");
  log.add_file("/dev/full");
  try {
    log.info("a full disk");
    FAIL("nothing was thrown");
  } catch (const OutputError& error) {
    CHECK(std::string(error.what()).starts_with("/dev/full: the log cannot be written"));
  }
}

TEST_CASE("a run's log has a file of its own, and its lines go to its parent's, too", "[log]") {
  const TemporaryFile all("unisono_log_test_all.txt"), one("unisono_log_test_one.txt");
  Log first(0, false);
  first.add_file(all.path());
  Log run(first, 0), elsewhere(first, 1);
  run.add_file(one.path());
  elsewhere.add_file(one.path());  // rank 1 of its group: it says warnings alone, and has no file
  run.info("a line");
  elsewhere.info("nobody says this");
  elsewhere.warning("slow disk");
  first.info("of all");
  run.info_to_file("step 7");
  const auto lines_of_all = all.lines(), lines_of_one = one.lines();
  REQUIRE(lines_of_all.size() == 3);
  CHECK(is_line(lines_of_all[0], "info", "a line"));
  CHECK(is_line(lines_of_all[1], "warning", "rank 1: slow disk"));
  CHECK(is_line(lines_of_all[2], "info", "of all"));
  REQUIRE(lines_of_one.size() == 2);
  CHECK(is_line(lines_of_one[0], "info", "a line"));
  CHECK(is_line(lines_of_one[1], "info", "step 7"));
}

TEST_CASE("rank 0 of a run has a file on any rank of the job", "[log]") {
  const TemporaryFile file("unisono_log_test_group.txt");
  Log third(3, false);
  Log run(third, 0);
  run.add_file(file.path());
  run.info("a line");
  CHECK(file.lines().size() == 1);
}

}  // namespace
}  // namespace unisono
