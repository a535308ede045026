#include "runtime/tasks/models/model_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <starpu.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "runtime/checksum.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/own_command.hpp"

namespace omni {
namespace {

constexpr double kMostMicroseconds = 1e15, kMostOfAnything = 1e9, kMostMemories = 64;
constexpr double kRounding = 1e-4;         // relative; numbers are written with seven digits
constexpr std::size_t kLongestLine = 250;  // of a model; StarPU reads a line into 256 bytes

// Lines reads a file as StarPU 1.4 writes it (perfmodel_history.c, perfmodel_bus.c): lines of
// numbers, and comments that begin with #. After an unexpected line the whole file counts as
// damaged.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {
    require(text.ends_with('\n') && std::ranges::all_of(text, [](char c) {
              return c == '\n' || c == '\t' || (c >= ' ' && c <= '~');
            }));
  }

  bool sound() const { return sound_; }
  void require(bool condition) { sound_ = sound_ && condition; }
  std::string_view line() const { return line_; }

  // Returns the numbers on the next line that is no comment; none at the end. `kinds` are 'u'
  // (natural), 'd' (real) and 'x' (eight hexadecimal digits, whose value is not returned). All
  // further numbers have the last kind.
  std::vector<double> numbers(std::string_view kinds) {
    std::vector<double> found;
    do {
      if (!sound_ || left_.empty()) return {};
      line_ = left_.substr(0, left_.find('\n'));
      left_.remove_prefix(line_.size() + 1);
    } while (line_.empty() || line_.front() == '#');
    require(line_.front() != ' ' && line_.front() != '\t');
    for (std::size_t at = 0; (at = line_.find_first_not_of(" \t", at)) != line_.npos;) {
      const std::string_view word = line_.substr(at, line_.find_first_of(" \t", at) - at);
      if (word == "#") break;  // in the config a comment may follow the numbers
      const char kind = kinds[std::min(found.size(), kinds.size() - 1)];
      const std::string_view digits = kind == 'u' ? "0123456789" : "0123456789abcdef";
      double value = 0;
      if (kind != 'x') {
        const auto number = number_in<double>(word);
        require(number.has_value());
        value = number.value_or(0);
      }
      require(kind == 'd' || word.find_first_not_of(digits) == word.npos);
      require(kind != 'x' || word.size() <= 8);
      found.push_back(value);
      at += word.size();
    }
    return found;
  }
  // Returns the numbers of a line that must have exactly one number per kind.
  std::vector<double> all(std::string_view kinds) {
    std::vector<double> found = numbers(kinds);
    require(found.size() == kinds.size() && line_.size() <= kLongestLine &&
            line_.find('#') == line_.npos);
    found.resize(kinds.size());
    return found;
  }
  double count(double least, double most) {
    const double value = all("u")[0];
    require(value >= least && value <= most);
    return sound_ ? value : 0;
  }
  bool ended() { return numbers("d").empty() && sound_; }

 private:
  std::string_view left_, line_;
  bool sound_ = true;
};

void read_implementation(Lines& file) {
  const double entries = file.count(0, kMostOfAnything);
  file.all("dddddduuu");  // the numbers of a regression
  file.all("ddd");        // the numbers of another regression
  file.count(0, 0);       // the number of coefficients, which history-based models do not have
  for (double entry = 0; entry < entries && file.sound(); ++entry) {
    // A line has footprint, bytes, flops (nan: they differed between calls), mean, deviation, sum,
    // sum of squares, and number of samples.
    const std::vector<double> told = file.all("xudddddu");
    file.require(!(told[2] < 0) && told[7] <= 4 * kMostOfAnything);
    for (const std::size_t time : {3u, 4u, 5u})
      file.require(told[time] >= 0 && told[time] <= kMostMicroseconds);
    file.require(told[6] >= 0 && told[6] <= kMostMicroseconds * kMostMicroseconds);
    file.require(std::abs(told[3] * told[7] - told[5]) <= kRounding * told[5]);
  }
}

// Checks a file that says for every device in which order the device prefers the memories of cores.
bool is_sound_affinity(std::string_view text, const std::vector<double>& counts) {
  Lines file(text);
  file.require(text.starts_with("# GPU\tNUMA"));
  for (std::size_t kind = 2; kind < counts.size(); ++kind)
    for (double device = 0; device < counts[kind] && file.sound(); ++device) {
      const std::vector<double> order = file.numbers("u");
      file.require(static_cast<double>(order.size()) == 1 + counts[1] && order[0] == device);
      file.require(std::all_of(order.begin() + file.sound(), order.end(),
                               [&](double each) { return each < counts[1]; }));
    }
  return file.ended();
}

// Checks a file with a matrix from every memory to every other. The matrix has nan beyond the
// existing memories, and 0 on the diagonal.
bool is_sound_matrix(std::string_view text, double memories, bool may_be_zero) {
  Lines file(text);
  std::size_t rows = 0, columns = 0;
  for (auto row = file.numbers("d"); !row.empty(); row = file.numbers("d"), ++rows) {
    if (rows == 0) columns = row.size();
    file.require(row.size() == columns &&
                 file.line().find_first_of(" #") == std::string_view::npos &&
                 file.line().find("\t\t") == std::string_view::npos);
    for (std::size_t column = 0; column < row.size(); ++column) {
      const bool used = static_cast<double>(std::max(rows, column)) < memories;
      const bool positive = used && rows != column && !may_be_zero;
      file.require(std::isnan(row[column]) ? !used : positive ? row[column] > 0 : row[column] >= 0);
    }
  }
  return file.sound() && rows == columns && static_cast<double>(rows) >= memories;
}

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = 64 << 20;  // bytes of a file
constexpr off_t kRoom = 1 << 20;  // bytes for what StarPU writes at its start, or at its end
constexpr const char* kVersionOfModels = "45";  // StarPU 1.4 keeps them in a folder of that name
constexpr std::size_t kLongestPath = 100;       // StarPU has 256 bytes for the path of a file

// Returns the host's name as StarPU has it in names of bus files.
std::string host_name() {
  const std::string name = environment("STARPU_HOSTNAME"), machine = own_host();
  return name.empty() ? machine.substr(0, machine.find('.')) : name.substr(0, 64);
}

// Returns the folders in which StarPU looks for files that the first folder lacks.
std::vector<fs::path> other_folders() {
  std::string home;
  for (const char* variable : {"HOME", "STARPU_HOME", "XDG_CACHE_HOME"})
    if (const std::string text = environment(variable); !text.empty()) home = text;
  std::vector<fs::path> folders{fs::path(home) / ".starpu/sampling"};
  std::istringstream path(environment("STARPU_PERF_MODEL_PATH"));
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  return folders;
}

// Returns the files that StarPU may read in this process, as paths within the folder: models of our
// codelets, and this host's bus files.
std::vector<fs::path> models_in(const fs::path& folder) {
  std::vector<fs::path> names;
  for (const fs::path& version : entries_of(folder / "codelets"))
    for (const fs::path& file : entries_of(version))
      if (file.filename().string().starts_with("omni_")) names.push_back(file);
  const std::string host = folder / "bus" / host_name();
  std::error_code none;
  for (const char* kind :
       {".config", ".affinity", ".latency", ".bandwidth", ".platform.xml", ".platform.v4.xml"})
    if (fs::exists(host + kind, none)) names.emplace_back(host + kind);
  for (fs::path& name : names) name = name.lexically_relative(folder);
  return names;
}

// Checks a file's contents. `copy` is the folder that has the host's config, unless the file is
// that.
bool is_sound(const fs::path& copy, const fs::path& name, const std::string& text) {
  if (*name.begin() == "codelets")
    return is_sound_codelet_model(text, name.parent_path().filename().string());
  const std::string kind = name.filename().string().substr(host_name().size());
  const auto config = kind == ".config"
                          ? Result(text)
                          : read_file(copy / "bus" / (host_name() + ".config"), kMostBytes);
  return config && is_sound_bus_file(kind, text, *config);
}

// Makes sure that the folder has room for 2 * kRoom bytes. A file "room" keeps half of that
// reserved until prepare_last_write(). Returns 0, or the error's code.
int take_room(const fs::path& folder) {
  const fs::path file = folder / "room";
  const Descriptor descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  int code = descriptor < 0 ? errno : ::posix_fallocate(descriptor, 0, 2 * kRoom);
  if (code == 0 && ::ftruncate(descriptor, kRoom) != 0) code = errno;
  return code;
}

}  // namespace

bool is_sound_codelet_model(std::string_view text, std::string_view version) {
  Lines file(text);
  file.count(0, kMostOfAnything);
  file.require(file.line() == version);
  const double combinations = file.count(0, kMostOfAnything);
  for (double combination = 0; combination < combinations && file.sound(); ++combination) {
    constexpr double kMostDevices = 16, kMostImplementations = 64;
    const double devices = file.count(1, kMostDevices);
    for (double device = 0; device < devices; ++device) {
      constexpr double kNoKind = 3;  // the number of a kind of worker that StarPU does not use
      file.require(file.count(0, STARPU_NARCH - 1) != kNoKind);
      file.count(0, kMostOfAnything);  // the device's number
      file.count(0, kMostOfAnything);  // the device's cores
    }
    const double implementations = file.count(1, kMostImplementations);
    for (double i = 0; i < implementations && file.sound(); ++i) read_implementation(file);
  }
  return file.ended();
}

bool is_sound_bus_file(std::string_view kind, std::string_view text, std::string_view config) {
  Lines lines(config);
  std::vector<double> counts;  // the number of cores, then of NUMA nodes, then of devices by kind
  for (auto found = lines.numbers("u"); !found.empty(); found = lines.numbers("u"))
    counts.push_back(found.size() == 1 ? found[0] : kMostOfAnything);
  double memories = 0;
  for (std::size_t each = 1; each < counts.size(); ++each) memories += counts[each];
  if (!lines.sound() || counts.size() < 2 || memories > kMostMemories) return false;
  if (kind == ".affinity") return is_sound_affinity(text, counts);
  if (kind == ".latency" || kind == ".bandwidth")
    return is_sound_matrix(text, memories, kind == ".latency");
  if (kind == ".config") return counts[0] <= kMostOfAnything;
  return text.starts_with("<?xml") && text.ends_with("</platform>\n");  // only SimGrid reads it
}

Result<std::shared_ptr<ModelFolder>> ModelFolder::open(const fs::path& shared) {
  // The name has a checksum of the host's name, because paths must be short for StarPU.
  const std::string prefix =
      fmt::format("omnivore-{}-{:.8}-", ::geteuid(), checksum_of(own_host()));
  std::error_code none;
  int code = ENAMETOOLONG;
  for (const fs::path& parent : {fs::temp_directory_path(none), shared}) {
    delete_unlocked_folders(parent, prefix);
    std::string made = (parent / (prefix + "XXXXXX")).string();
    if (parent.empty() || made.size() > kLongestPath) continue;
    code = ::mkdtemp(made.data()) == nullptr ? errno : 0;
    if (code != 0) continue;
    std::shared_ptr<ModelFolder> folder(new ModelFolder(shared, made, lock_folder(made)));
    code = take_room(made);
    bool copied = code == 0 && folder->copy_from(shared);
    for (const fs::path& other : other_folders()) copied = copied && folder->copy_from(other);
    if (copied) return folder;
    if (code == 0) code = ENOSPC;
  }
  return Error{ErrorKind::failed, shared.string(),
               fmt::format("no room for a copy of the performance models, there or where temporary "
                           "files go: {}",
                           std::strerror(code)),
               "free 2 MiB, or set TMPDIR"};
}

ModelFolder::~ModelFolder() {
  std::error_code none;
  fs::remove_all(path_, none);
}

void ModelFolder::prepare_last_write() const {
  std::error_code none;
  fs::remove(path_ / "room", none);
  fs::create_directories(path_ / "codelets" / kVersionOfModels, none);
}

bool ModelFolder::copy_from(const fs::path& folder) {
  std::string damaged;
  std::error_code none, failure;
  bool full = false, moved = folder == shared_;  // in another folder files stay
  const fs::path config = "bus/" + host_name() + ".config";
  const bool has_bus = checksums_.contains(config);
  for (const fs::path& name : models_in(folder)) {
    const bool needs_config = *name.begin() == "bus" && name != config;
    if (checksums_.contains(name) || (needs_config && checksums_.contains(config) == has_bus))
      continue;
    const Result<std::string> text = read_file(folder / name, kMostBytes);
    if (!text)
      continue;  // an error of permissions or of the disk, which says nothing about the contents
    if (is_sound(path_, name, *text)) {
      fs::create_directories((path_ / name).parent_path(), none);
      full = !(std::ofstream(path_ / name, std::ios::binary) << *text << std::flush);
      if (full) break;
      checksums_[name] = checksum_of(*text);
      continue;
    }
    damaged += fmt::format("{}{}", damaged.empty() ? "" : ", ", name.string());
    if (!moved) continue;
    fs::create_directories(folder / "damaged", none);
    fs::rename(folder / name, folder / "damaged" / name.filename(), failure);
    moved = !failure;
  }
  if (!damaged.empty())
    log::warn("{}: damaged performance models ({}) are {}, and measured anew", folder.string(),
              damaged, moved ? "moved to " + (folder / "damaged").string() : "passed over");
  return !full;
}

void ModelFolder::publish() const {
  std::error_code none;
  for (const fs::path& name : models_in(path_)) {
    const Result<std::string> text = read_file(path_ / name, kMostBytes);
    const auto given = checksums_.find(name);
    if (text && given != checksums_.end() && given->second == checksum_of(*text)) continue;
    Status kept = text && is_sound(path_, name, *text) ? Status()
                                                       : Error{ErrorKind::failed, path_.string(),
                                                               "StarPU could not write there", ""};
    fs::create_directories((shared_ / name).parent_path(), none);
    if (kept) kept = write_file_atomically(shared_ / name, *text);
    if (kept) continue;
    log::warn("{}; not all measurements of this run are kept, and the next run measures again",
              kept.error().message());
    return;
  }
}

}  // namespace omni
