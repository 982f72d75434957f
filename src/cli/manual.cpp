// `unisono manual`: the manual page and the completions of shells, made from the table of all commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.hpp"

namespace unisono::cli {
namespace {

enum class Manual { man, bash, zsh, fish };
constexpr Named<Manual> kManuals[] = {{Manual::man, "man", "the manual page, for man -l"},
                                      {Manual::bash, "bash", "completions for bash"},
                                      {Manual::zsh, "zsh", "completions for zsh"},
                                      {Manual::fish, "fish", "completions for fish"}};

using Table = std::vector<CommandEntry>;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// The options with names, without positional arguments.
std::vector<OptionEntry> named_options(const CommandEntry& command) {
  std::vector<OptionEntry> options = command.options;
  std::erase_if(options, [](const OptionEntry& option) { return option.is_positional; });
  return options;
}

/// All names of the options that have one.
std::vector<std::string> option_names(const CommandEntry& command) {
  std::vector<std::string> names;
  for (const OptionEntry& option : named_options(command)) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// The manual page, in roff.

/// Letters outside of ASCII by their numbers, which every roff reads.
std::string in_ascii(std::string_view text) {
  std::string ascii;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (bytes == 1) {
      ascii += text[i++];
      continue;
    }
    std::uint32_t letter = first & (0xFFU >> (bytes + 1));
    for (std::size_t k = 1; k < bytes; ++k) letter = letter << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    ascii += fmt::format("\\[u{:04X}]", letter);
    i += bytes;
  }
  return ascii;
}

std::string roff(const std::string& text) {
  const std::string escaped = in_ascii(replaced(replaced(text, "\\", "\\e"), "-", "\\-"));
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string man_of(const OptionEntry& option) {
  std::string names = fmt::format("\\fB{}\\fR", roff(fmt::format("{}", fmt::join(option.names, ", "))));
  if (!option.value.empty() && !option.is_positional) names += fmt::format(" \\fI{}\\fR", roff(option.value));
  std::string meaning = option.meaning;
  if (!option.choices.empty()) meaning += fmt::format(": {}", fmt::join(option.choices, ", "));
  return fmt::format(".TP\n{}\n{}\n", names, roff(replaced(meaning, "\n", " ")));
}

std::string man_page(const Table& table) {
  std::string page = fmt::format(
      ".TH UNISONO 1 \"\" \"unisono {}\" \"User commands\"\n.SH NAME\nunisono \\- {}\n.SH SYNOPSIS\n"
      "\\fBunisono\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.br\n"
      "\\fBunisono\\-launch\\fR \\fB\\-n\\fR \\fIRANKS\\fR [\\fB\\-\\-restarts\\fR \\fIN\\fR] "
      "\\fBunisono\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\nA config file says which model is trained on which data and how the ranks work together. "
      "\\fBunisono\\-launch\\fR, \\fBmpirun\\fR or \\fBsrun\\fR start the ranks.\n.SH COMMANDS\n",
      UNISONO_VERSION, roff(table.front().meaning));
  for (const CommandEntry& command : table) {
    std::string title = command.path;
    for (const OptionEntry& option : command.options) {
      if (option.is_positional) title += " " + option.names.front();
    }
    page += fmt::format(".SS {}\n{}\n", roff(title), roff(replaced(command.meaning, "\n", " ")));
    for (const OptionEntry& option : command.options) page += man_of(option);
  }
  page +=
      ".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\nany other error\n.TP\n2\nerror in the command line or the "
      "config\n.TP\n"
      "3\nerror in the data\n.TP\n4\nerror in a checkpoint\n.TP\n5\ncommunication error\n.TP\n6\ndevice error, or "
      "memory "
      "or threads that could not be had\n.TP\n75\ninterrupted by a signal; \\fB\\-\\-resume\\fR goes on\n";
  return page;
}

// Completions. Each shell finds out which command a line is at: the longest path of the table that its words begin
// with. Then it offers the commands below it, its options, the choices of the option before the cursor or of its first
// argument, or files.

/// The commands below a command, or the choices of its first argument.
std::vector<std::string> words_after(const CommandEntry& command) {
  const auto first = std::ranges::find(command.options, true, &OptionEntry::is_positional);
  return first == command.options.end() || !command.commands.empty() ? command.commands : first->choices;
}

/// In single quotes of a shell.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

/// What bash and zsh compare the words of a line with.
struct LinePatterns {
  std::vector<std::string> commands;  ///< 'unisono train', …
  std::vector<std::string> values;    ///< 'unisono train --output', …: options whose values are not known before
  std::vector<std::pair<std::string, std::string>> choices;  ///< 'unisono evaluate --split': "train validation test"
};

LinePatterns patterns_of(const Table& table) {
  LinePatterns patterns;
  for (const CommandEntry& command : table) {
    if (command.path != table.front().path) patterns.commands.push_back(quoted(command.path));
    for (const OptionEntry& option : named_options(command)) {
      for (const std::string& name : option.names) {
        const std::string place = quoted(command.path + " " + name);
        if (!option.choices.empty()) {
          patterns.choices.emplace_back(place, fmt::format("{}", fmt::join(option.choices, " ")));
        } else if (!option.value.empty()) {
          patterns.values.push_back(place);
        }
      }
    }
  }
  return patterns;
}

std::string bash_completion(const Table& table) {
  const LinePatterns patterns = patterns_of(table);
  std::string choices, words;
  for (const auto& [place, offered] : patterns.choices) {
    choices += fmt::format("    {}) offered=\"{}\" ;;\n", place, offered);
  }
  for (const CommandEntry& command : table) {
    words += fmt::format("    {}) commands=\"{}\"; options=\"{}\" ;;\n", quoted(command.path),
                         fmt::join(words_after(command), " "), fmt::join(option_names(command), " "));
  }
  return fmt::format(
      R"(# Completions of unisono for bash: made by 'unisono manual bash'.
_unisono() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local path=unisono word offered= commands= options=
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
      {paths}) path="$path $word" ;;
    esac
  done
  COMPREPLY=()
  case "$path $previous" in
{choices}    {values}) return ;; # a file
  esac
  case $path in
{words}  esac
  if [[ -z $offered ]]; then
    offered=$commands
    [[ $current != -* ]] || offered=$options
  fi
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$current")
}}
complete -o default -F _unisono unisono
)",
      fmt::arg("paths", fmt::join(patterns.commands, " | ")), fmt::arg("choices", choices),
      fmt::arg("values", fmt::join(patterns.values, " | ")), fmt::arg("words", words));
}

/// 'name:meaning' for zsh, where a colon in the name would end it.
std::string described(const std::string& name, const std::string& meaning) {
  return quoted(replaced(name, ":", "\\:") + ":" + replaced(meaning, "\n", " "));
}

std::string meaning_of(const Table& table, const std::string& path) {
  const auto found = std::ranges::find(table, path, &CommandEntry::path);
  return found == table.end() ? "" : found->meaning;
}

std::string zsh_completion(const Table& table) {
  const LinePatterns patterns = patterns_of(table);
  std::string choices, words;
  for (const auto& [place, offered] : patterns.choices) {
    choices += fmt::format("    {}) compadd -- {}; return ;;\n", place, offered);
  }
  for (const CommandEntry& command : table) {
    std::string commands, options;
    for (const std::string& name : words_after(command)) {
      commands += " " + described(name, meaning_of(table, command.path + " " + name));
    }
    for (const OptionEntry& option : named_options(command)) {
      for (const std::string& name : option.names) options += " " + described(name, option.meaning);
    }
    words +=
        fmt::format("    {})\n      commands=({})\n      options=({}) ;;\n", quoted(command.path), commands, options);
  }
  return fmt::format(
      R"(#compdef unisono
# Completions of unisono for zsh: made by 'unisono manual zsh'.
_unisono() {{
  local at=unisono word
  local -a commands options
  for word in ${{words[2,CURRENT-1]}}; do
    case "$at $word" in
      {paths}) at="$at $word" ;;
    esac
  done
  case "$at ${{words[CURRENT-1]}}" in
{choices}    {values}) _files; return ;;
  esac
  case $at in
{words}  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option options
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}}
compdef _unisono unisono
)",
      fmt::arg("paths", fmt::join(patterns.commands, " | ")), fmt::arg("choices", choices),
      fmt::arg("values", fmt::join(patterns.values, " | ")), fmt::arg("words", words));
}

std::string fish_completion(const Table& table) {
  std::string paths, lines;
  for (const CommandEntry& command : table) {
    if (command.path != table.front().path) paths += " " + quoted(command.path);
    const std::string begin = fmt::format("complete -c unisono -n {}", quoted("__unisono_at " + quoted(command.path)));
    for (const std::string& name : words_after(command)) {
      lines += fmt::format("{} -f -a {} -d {}\n", begin, name, quoted(meaning_of(table, command.path + " " + name)));
    }
    for (const OptionEntry& option : named_options(command)) {
      std::string names;
      for (const std::string& name : option.names) {
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      const std::string value = option.value.empty()     ? ""
                                : option.choices.empty() ? " -r"
                                                         : fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      lines += fmt::format("{}{}{} -d {}\n", begin, names, value, quoted(replaced(option.meaning, "\n", " ")));
    }
  }
  return fmt::format(
      R"(# Completions of unisono for fish: made by 'unisono manual fish'.
function __unisono_at
    set -l path unisono
    for word in (commandline -opc)[2..-1]
        contains -- "$path $word"{paths}
        and set path "$path $word"
    end
    test "$path" = "$argv[1]"
end
{lines})",
      fmt::arg("paths", paths), fmt::arg("lines", lines));
}

std::string manual_text(Manual manual, const Table& table) {
  switch (manual) {
    case Manual::man:
      return man_page(table);
    case Manual::bash:
      return bash_completion(table);
    case Manual::zsh:
      return zsh_completion(table);
    case Manual::fish:
      return fish_completion(table);
  }
  return "";
}

}  // namespace

void add_manual(Command app, Chosen& chosen) {
  Command command = app.add_subcommand("manual", "print the manual page, or the completions of a shell");
  const auto manual = std::make_shared<Manual>(Manual::man);
  command.add_choice("what", *manual, NamesOf<Manual>(kManuals), "man, bash, zsh or fish");
  command.callback([manual, &chosen] {
    chosen.alone = [manual, &chosen] { fmt::print("{}", manual_text(*manual, chosen.program.table())); };
  });
}

}  // namespace unisono::cli
