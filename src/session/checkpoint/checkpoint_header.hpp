#pragma once

#include <string>

#include "unisono/data/preprocessing.hpp"
#include "unisono/session/checkpoint.hpp"

namespace unisono::session {

/// The header as JSON, without the config's text.
std::string to_json(const CheckpointHeader& header);
/// \throws CheckpointError for another format or version
CheckpointHeader header_from_json(const std::string& json);

/// The difference between two preprocessings that give features and classes of the same number: "the scaling", "the
/// categories of column 'colour'", …; empty if there is none. Settings that matter only for new data (unknown
/// categories), and rounding, do not count.
std::string other_form(const data::Preprocessing& before, const data::Preprocessing& now);

/// The first feature whose name in `now` differs from that in `before`: "feature 2 is 'b', but 'a' there"; empty if
/// there is none.
std::string other_feature(const data::Preprocessing& before, const data::Preprocessing& now);

}  // namespace unisono::session
