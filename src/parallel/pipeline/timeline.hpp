#pragma once

#include <string>

#include "pipeline/program.hpp"

namespace unisono::parallel {

/// A picture of a simulated program in plain text: a line for each stage, then the legend. A column shows what the
/// stage does in the middle of the column's time: for a forward pass the last digit of its micro-batch (letters in
/// other chunks), for backward passes a mark of their kind.
/// \param columns the width of the lines of stages, at least 20
std::string timeline_text(const Program& program, const Simulation& simulation, int columns);

/// A simulated program as a drawing in SVG: a block for each operation, coloured by kind and shaded by chunk, with its
/// micro-batch inside and its times as a title; an axis of seconds; a legend. The colours are those of Okabe and Ito,
/// which people with any kind of colour vision can tell apart.
std::string timeline_svg(const Program& program, const Simulation& simulation);

}  // namespace unisono::parallel
