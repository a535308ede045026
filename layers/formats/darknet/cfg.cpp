// This file reads the grammar of Darknet's cfg files. Blanks mean nothing anywhere in a line, so
// `hue = .1` and `[ net ]` work. Unlike Darknet, it accepts CRLF, a byte order mark and inline
// comments. It refuses a file at the first wrong line, and warns of an option that is set twice.
#include "layers/formats/darknet/darknet.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/lower_case.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// These limits are far beyond any published net. They bound the time and the memory that a wrong
// file costs.
constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxLineBytes = 4096;
constexpr std::size_t kMaxLayers = 10'000;
constexpr std::size_t kMaxOptions = 256;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Returns the line without its blanks and its comment. `#` always begins a comment, but `;` only
// after a blank or first in the line. Any other `;` may be meant as a separator, so it must not cut
// a value short silently.
std::string strip(std::string_view line) {
  std::string text;
  char before = ' ';
  for (char c : line) {
    if (c == '#' || (c == ';' && is_blank(before))) break;
    if (!is_blank(c)) text += c;
    before = c;
  }
  return text;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

bool is_section_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {
    cfg_.name = std::filesystem::path(file_).stem().string();
    cfg_.net.file = file_;
  }

  Status line(std::string_view raw) {
    ++line_;
    if (raw.size() > kMaxLineBytes)
      return refuse(fmt::format("a line of {} bytes", raw.size()),
                    fmt::format("at most {} are read; is this a cfg file?", kMaxLineBytes));
    if (raw.find('\0') != raw.npos)
      return refuse("a NUL byte", "is this a cfg file? Save it as plain UTF-8 text");
    std::string text = strip(raw);
    if (text.empty()) return {};
    if (!is_utf8(text)) return refuse("not UTF-8 text", "save the file as UTF-8");
    if (has_control(text)) return refuse("a control character", "remove it from the line");
    return text.front() == '[' ? section(text) : option(text);
  }

  Result<DarknetCfg> finish() {
    if (!in_section_) {
      line_ = std::max(line_, 1);
      return refuse("no sections", "a cfg starts with [net], then one section per layer");
    }
    if (cfg_.layers.empty()) {
      line_ = cfg_.net.line;
      return refuse("no layers",
                    "add one section per layer after [net]; `omni-run layers` lists them");
    }
    return std::move(cfg_);
  }

 private:
  Error refuse(std::string what, std::string hint) const {
    return {ErrorKind::usage, fmt::format("{}:{}", file_, line_), std::move(what), std::move(hint)};
  }

  Status section(std::string_view text) {
    std::size_t close = text.find(']');
    if (close == text.npos)
      return refuse(fmt::format("section {} has no closing ']'", shown_name(text)),
                    "write [name] on a line of its own");
    if (close + 1 != text.size())
      return refuse(fmt::format("{} after the section name", shown_name(text.substr(close + 1))),
                    "write [name] on a line of its own");
    std::string_view name = text.substr(1, close - 1);
    if (!is_section_name(name))
      return refuse(name.empty() ? "a section without a name"
                                 : fmt::format("{} is not a section name", shown_name(name)),
                    "section names are letters, digits, '_' and '-', as in [convolutional]");

    std::string type = lower_case(name);
    bool is_net = type == "net" || type == "network";
    if (!in_section_) {
      if (!is_net)
        return refuse(fmt::format("the first section is [{}]", type),
                      "a cfg starts with [net]: the input size and the training values");
      cfg_.net.type = std::move(type);
      cfg_.net.line = line_;
      in_section_ = true;
      return {};
    }
    if (is_net)
      return refuse(fmt::format("a second [{}]", type),
                    fmt::format("the first one is in line {}; keep one of them", cfg_.net.line));
    if (cfg_.layers.size() == kMaxLayers)
      return refuse(fmt::format("more than {} layers", kMaxLayers), "is this a cfg file?");
    cfg_.layers.push_back({std::move(type), file_, line_, {}});
    return {};
  }

  Status option(std::string_view text) {
    std::size_t equals = text.find('=');
    if (equals == text.npos)
      return refuse(fmt::format("{} has no '='", shown_name(text)),
                    "write key=value, [section], or # before a comment");
    if (equals == 0)
      return refuse(fmt::format("no key before {}", shown_name(text)), "write key=value");
    std::string_view key = text.substr(0, equals);
    if (!in_section_)
      return refuse(fmt::format("{} comes before any section", shown_name(key)),
                    "a cfg starts with [net]");

    Section& section = cfg_.layers.empty() ? cfg_.net : cfg_.layers.back();
    if (section.options.size() == kMaxOptions)
      return refuse(fmt::format("more than {} options in [{}]", kMaxOptions, section.type),
                    "is a section header missing?");
    if (const Option* earlier = section.find(key))
      log::warn("{}:{}: {} is set again (line {} set it first; the last one counts)", file_, line_,
                shown_name(key), earlier->line);
    section.options.push_back({std::string(key), std::string(text.substr(equals + 1)), line_});
    return {};
  }

  std::string file_;
  DarknetCfg cfg_;
  int line_ = 0;
  bool in_section_ = false;
};

Error too_large(std::string_view file) {
  return {ErrorKind::usage, fmt::format("{}:1", file),
          fmt::format("larger than {} bytes", kMaxBytes), "is this a cfg file?"};
}

}  // namespace

Result<DarknetCfg> parse_darknet_sections(std::string_view text, std::string_view file_name) {
  if (text.size() > kMaxBytes) return too_large(file_name);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return Error{ErrorKind::usage, fmt::format("{}:1", file_name), "UTF-16 text",
                 "save the file as UTF-8"};
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);

  Parser parser(file_name);
  while (!text.empty()) {
    std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    OMNI_CHECK(parser.line(text.substr(0, end)));
    std::size_t terminator = text.substr(end).starts_with("\r\n") ? 2 : 1;
    text.remove_prefix(std::min(end + terminator, text.size()));
  }
  return parser.finish();
}

Result<TrainableNet> parse_darknet_cfg(std::string_view text, std::string_view file_name,
                                       const ReadOptions& how) {
  OMNI_TRY(DarknetCfg cfg, parse_darknet_sections(text, file_name));
  return describe_darknet_net(std::move(cfg), how);
}

Result<TrainableNet> read_darknet_cfg(const std::filesystem::path& path, const ReadOptions& how) {
  auto text = read_file(path, kMaxBytes);
  if (!text) {
    text.error().kind = ErrorKind::usage;  // a net that cannot be read is a wrong command line
    return std::move(text.error());
  }
  return parse_darknet_cfg(*text, path.string(), how);
}

}  // namespace omni
