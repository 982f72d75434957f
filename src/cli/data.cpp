#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/data/advice.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/import.hpp"

namespace unisono::cli {
namespace {

void add_digits(Command data, Chosen& chosen) {
  Command command =
      data.add_subcommand("digits", "generate a data set of images that look like handwritten digits, 28×28 pixels");
  const auto output = add_output(command);
  const auto options = std::make_shared<data::DigitsOptions>();
  command.add_option("--train", options->train, "number of training examples").capture_default_str().positive();
  command.add_option("--validation", options->validation, "number of validation examples")
      .capture_default_str()
      .not_negative();
  command.add_option("--test", options->test, "number of test examples").capture_default_str().not_negative();
  command.add_option("--seed", options->seed, "seed of the random numbers").no_sign().capture_default_str();
  command.callback([=, &chosen] { chosen.alone = [=] { say(data::make_digits(*options, *output)); }; });
}

}  // namespace

void add_data(Command app, Chosen& chosen) {
  Command data = app.add_subcommand("data", "import, generate and describe data sets");
  data.require_subcommand();
  add_digits(data, chosen);
  add_import(data, chosen);
  add_cooccurrences(data, chosen);
  Command describe =
      data.add_subcommand("describe", "show what a data set contains: shapes, types, classes, ranges, some images");
  const auto path = std::make_shared<std::string>();
  describe.add_option("file", *path, "HDF5 data set").required().type_name("FILE.h5");
  const auto external = std::make_shared<bool>(false);
  describe.add_flag("--external-files", *external, "the set may refer to values in other files");
  const auto advise = std::make_shared<bool>(false);
  describe.add_flag("--advise", *advise,
                    "say how the set is stored, how fast it is read, and what to change about that");
  describe.callback([=, &chosen] {
    chosen.alone = [=] {
      fmt::print("{}",
                 printable(*advise ? data::advise_on_set(*path, *external) : data::describe_set(*path, *external)));
    };
  });
}

}  // namespace unisono::cli
