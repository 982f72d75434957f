#include <memory>

#include "command.hpp"
#include "unisono/data/import.hpp"

namespace unisono::cli {
namespace {

/// What the commands have in common. \param what stands for the value of an option: "FILE", "NAME"
void add_array_options(Command command, data::ArrayOptions& options, const char* what) {
  const auto add = [&](const char* name, std::vector<std::string>& value, const char* meaning) {
    command.add_option(name, value, meaning).one_at_a_time().type_name(what);
  };
  add("--labels", options.labels, "array with the class of each example: whole numbers");
  add("--targets", options.targets, "array with the number to predict (regression), instead of --labels");
  add("--test-features", options.test_features, "array whose rows become the test group");
  add("--test-labels", options.test_labels, "array with the classes of the test group");
  add("--test-targets", options.test_targets, "array with the numbers to predict of the test group");
  command.add_choice("--task", options.task, data::kTasks, "what the array of --labels holds");
  command.add_choice("--layout", options.layout, data::kImageLayouts, "order of the axes of images with channels");
  command.add_choice("--split", options.split, data::kTableSplits,
                     "how examples are chosen for the validation and test groups: auto, random or class");
  add_shares(command, options, "examples");
}

void add_npy(Command import, Chosen& chosen) {
  Command command =
      import.add_subcommand("npy", "import arrays of NumPy, one in each file, with an example in each row");
  const auto options = std::make_shared<data::ArrayOptions>();
  command.add_option("files", options->features, "features: [examples, …]; further files add examples")
      .required()
      .type_name("FILE.npy");
  const auto output = add_output(command);
  add_array_options(command, *options, "FILE.npy");
  command.callback([=, &chosen] { chosen.alone = [=] { say(data::import_npy(*options, *output)); }; });
}

/// `import npz` and `import hdf5`, whose files hold several arrays.
template <typename Import>
void add_archive(Command import, Chosen& chosen, const char* name, const char* meaning, Import make) {
  Command command = import.add_subcommand(name, meaning);
  const auto paths = std::make_shared<std::vector<std::string>>();
  command.add_option("files", *paths, "files with arrays of these names; further files add examples")
      .required()
      .type_name("FILE");
  const auto output = add_output(command);
  const auto options = std::make_shared<data::ArrayOptions>();
  command.add_option("--features", options->features, "array with an example in each row")
      .required()
      .one_at_a_time()
      .type_name("NAME");
  add_array_options(command, *options, "NAME");
  command.callback([=, &chosen] { chosen.alone = [=] { say(make(*paths, *options, *output)); }; });
}

}  // namespace

void add_array_imports(Command import, Chosen& chosen) {
  add_npy(import, chosen);
  add_archive(import, chosen, "npz", "import arrays that numpy.savez or savez_compressed has stored", data::import_npz);
  add_archive(import, chosen, "hdf5", "import datasets of HDF5 files of any layout", data::import_hdf5);
}

}  // namespace unisono::cli
