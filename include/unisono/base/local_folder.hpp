#pragma once

#include <string>
#include <string_view>

namespace unisono {

/// The user's own folder on a local disk, `<disk>/unisono-<uid>`. It is made where it is missing. Nobody else may write
/// to it: what is in it is believed. \param key the config's key that names the disk, for messages \throws ConfigError
/// where it cannot be used
std::string folder_of_user(std::string_view key, const std::string& disk);

/// \throws ConfigError that the folder on a local disk cannot be used, and what to do \param key as above
[[noreturn]] void refuse_local_folder(std::string_view key, const std::string& disk, const std::string& why);

/// "… cannot be written: No space left on device". \param error the error number
std::string not_writable(const std::string& path, int error);

}  // namespace unisono
