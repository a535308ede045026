// Folders of temporary files. A process holds a lock on its own, so that others can tell which ones
// were left by processes that were killed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace omni {

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// The lock on a folder of this user; -1 while another process has it.
int lock_folder(const std::filesystem::path& folder);

// Deletes the folders in `parent` whose names begin so and that nobody has locked, but none that
// was changed in the last minute: its owner may not have its lock yet.
void delete_unlocked_folders(const std::filesystem::path& parent, const std::string& prefix);

}  // namespace omni
