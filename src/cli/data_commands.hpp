#pragma once

#include <memory>

#include "commands.hpp"
#include "unisono/data/import.hpp"

namespace unisono::cli {

/// Adds --output and the related options of commands that make a data set.
std::shared_ptr<data::ImportOutput> add_output(Command command);

/// Prints the last line of a command that made a set of features.
void say(const data::ImportSummary& made);

// Each adds its subcommands to `data` or to `data import`.
void add_import(Command data, Chosen& chosen);
void add_sparse_imports(Command import, Chosen& chosen);
void add_cooccurrences(Command data, Chosen& chosen);

}  // namespace unisono::cli
