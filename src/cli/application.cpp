#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "command.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/denormals.hpp"
#include "unisono/cli/application.hpp"

namespace unisono::cli {
namespace {

void print(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return print(
        DeviceError("out of memory: the data set or the model does not fit; use fewer columns, words or layers, a "
                    "smaller train.batch_size, or more ranks"));
  }
  const auto* known = dynamic_cast<const Error*>(&error);
  print_error(fmt::format("unisono: {}: {}", known == nullptr ? "error" : known->kind(), error.what()));
}

int code_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return static_cast<int>(ExitCode::device);
  const auto* known = dynamic_cast<const Error*>(&error);
  return static_cast<int>(known == nullptr ? ExitCode::other : known->code());
}

/// What was printed has arrived.
void require_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw OutputError("standard output cannot be written");
}

/// Does work that prints to standard output. \throws OutputError where that cannot be written; all that `work` throws
template <typename Work>
auto with_output(const Work& work) {
  try {
    const auto result = work();
    require_output();
    return result;
  } catch (const std::system_error&) {  // fmt's, where standard output is full
    require_output();
    throw;
  }
}

/// A standard stream that is closed would give its number to the next file that is opened, and what is printed would be
/// written there. Errors are lost instead; standard output cannot be written.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) == -1) {
      [[maybe_unused]] const int opened = open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

/// For work that needs no MPI: the first process does it, the others have nothing to do.
int run_alone(const std::function<void()>& work) {
  if (!comm::is_first_of_launch()) return 0;
  try {
    return with_output([&] {
      work();
      return 0;
    });
  } catch (const std::exception& error) {
    print(error);
    return code_of(error);
  }
}

int run_together(int& argc, char**& argv, const Chosen& chosen) {
  try {
    comm::MpiSession session(argc, argv);
    try {
      Log log(session.rank());
      const ExitCode code = with_output([&] { return chosen.together(session, log); });
      return session.finish(static_cast<int>(code));
    } catch (const std::exception& error) {
      return session.fail(error, [&] { print(error); });
    }
  } catch (const std::exception& error) {
    if (comm::is_first_of_launch()) print(error);
    return code_of(error);
  }
}

/// Only the first process prints the message and returns the exit code: if another one failed first, the launcher would
/// kill it before it could print.
int usage_error(const std::string& what) {
  if (!comm::is_first_of_launch()) return 0;
  print_error(fmt::format("unisono: usage error: {}; see 'unisono --help' and 'unisono COMMAND --help'", what));
  return static_cast<int>(ExitCode::config);
}

/// "there is no command 'trian'; did you mean 'train'?", or nothing.
std::string unknown_command(const std::vector<std::string>& names, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return "";
  const std::string nearest = nearest_name(argv[1], names);
  return fmt::format("there is no command '{}'", argv[1]) +
         (nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

/// The version, and the libraries that not every build has.
std::string version_text() {
  std::string text = UNISONO_VERSION;
  if (constexpr std::string_view with = UNISONO_WITH; !with.empty()) text += fmt::format("\nwith {}", with);
  if (constexpr std::string_view without = UNISONO_WITHOUT; !without.empty())
    text += fmt::format("\nwithout {}", without);
  return text;
}

/// The folder with bin/unisono and share/unisono; where they are not installed, those of the sources and the build.
std::string prefix_text() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path prefix = program.parent_path().parent_path();
  if (std::filesystem::is_directory(prefix / "share/unisono", error)) return prefix.string();
  throw OutputError(
      fmt::format("{} is not installed: 'cmake --install BUILD_FOLDER --prefix DIR' installs it", program.string()));
}

}  // namespace

int run(int argc, char** argv, const models::ModelKinds& models) {
  const FlushDenormals flush;
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit becomes an ordinary error, like a full disk
  // Large buffers go back to the system when they are freed; glibc raises its threshold with the first one freed.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  Program program("Trains machine-learning models in parallel on one or more MPI ranks, from one config file.",
                  "unisono", version_text(), prefix_text);
  Chosen chosen{.models = models, .program = program};
  for (const auto add :
       {add_train,    add_search,  add_cross_validate, add_study,  add_find_rate, add_report,  add_watch, add_replay,
        add_evaluate, add_predict, add_generate,       add_export, add_neighbors, add_compare, add_runs,  add_info,
        add_bench,    add_plan,    add_simulate,       add_data,   add_config,    add_manual}) {
    add(program.commands(), chosen);
  }
  if (const std::string problem = unknown_command(program.names(), argc, argv); !problem.empty())
    return usage_error(problem);
  Parsed parsed;
  try {
    parsed = program.parse(argc, argv);
  } catch (const Error& error) {  // of --prefix
    return run_alone([&] { throw; });
  }
  if (parsed.kind == Parsed::Kind::error) return usage_error(parsed.text);
  if (parsed.kind == Parsed::Kind::answer) return run_alone([&] { fmt::print("{}", parsed.text); });
  return chosen.alone ? run_alone(chosen.alone) : run_together(argc, argv, chosen);
}

}  // namespace unisono::cli
