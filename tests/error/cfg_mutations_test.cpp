// These tests read every prefix of every shipped net, and replace tokens of every kind by wrong
// ones. The net is read, or refused with file and line, but nothing crashes (CI runs these tests
// with ASan and UBSan).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

std::vector<std::filesystem::path> shipped_nets() {
  std::vector<std::filesystem::path> nets;
  for (const auto& entry : std::filesystem::directory_iterator(OMNI_SOURCE_DIR "/apps/nets"))
    if (entry.path().extension() == ".cfg") nets.push_back(entry.path());
  std::sort(nets.begin(), nets.end());
  return nets;
}

// Returns "" if a user can act upon the error, or what is wrong with the error.
std::string complaint(const Error& error) {
  if (error.kind != ErrorKind::usage) return "kind: " + error.message();
  const std::size_t colon = error.where.rfind(':');
  const std::string line = colon == std::string::npos ? "" : error.where.substr(colon + 1);
  if (!error.where.starts_with("net.cfg:") || line.empty() ||
      line.find_first_not_of("0123456789") != std::string::npos || line == "0")
    return "place: " + error.message();
  if (error.what.empty() || error.hint.empty()) return "no text or no hint: " + error.message();
  return error.message().size() > 1000 ? "too long: " + error.message() : "";
}

std::string parse_complaint(std::string_view text) {
  const log::Capture quiet;
  auto spec = parse_darknet_sections(text, "net.cfg");
  return spec ? "" : complaint(spec.error());
}

std::string build_complaint(std::string_view text) {
  const log::Capture quiet;
  auto spec = parse_darknet_cfg(text, "net.cfg");
  if (!spec) return complaint(spec.error());
  auto net = Net::build(*spec, {});
  return net ? "" : complaint(net.error());
}

struct Token {
  std::size_t start, length;
};

// Returns section names, keys and values. Of equal lines in equal sections, only the first is
// returned, which saves time with deep nets.
std::vector<Token> tokens(std::string_view text) {
  std::vector<Token> found;
  std::set<std::pair<std::string_view, std::string_view>> seen;
  std::string_view section;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    const std::size_t equals = line.find('=');
    if (line.starts_with('[')) section = line;
    const bool is_new = seen.emplace(section, line).second;
    if (is_new && line.starts_with('[')) {
      found.push_back({start + 1, line.size() - 2});
    } else if (is_new && !line.starts_with('#') && equals != line.npos) {
      found.push_back({start, equals});
      found.push_back({start + equals + 1, line.size() - equals - 1});
    }
    start = end + 1;
  }
  return found;
}

class Mutations : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    auto read = read_file(GetParam(), 1 << 20);
    ASSERT_TRUE(read) << read.error().message();
    text_ = std::move(*read);
    ASSERT_EQ(build_complaint(text_), "");
  }
  std::string text_;
};

TEST_P(Mutations, EveryPrefixParsesOrNamesItsLine) {
  for (std::size_t size = 0; size < text_.size(); ++size)
    ASSERT_EQ(parse_complaint(std::string_view(text_).substr(0, size)), "") << size << " bytes";
}

TEST_P(Mutations, EveryPrefixOfWholeLinesBuildsOrNamesItsLine) {
  for (std::size_t end = text_.find('\n'); end != std::string::npos;
       end = text_.find('\n', end + 1))
    ASSERT_EQ(build_complaint(std::string_view(text_).substr(0, end + 1)), "")
        << end + 1 << " bytes";
}

TEST_P(Mutations, EveryKindOfTokenReplacedBuildsOrNamesItsLine) {
  const std::string nasty[]{
      "", "-1", "0", "2147483648", "1e308", "nan", std::string(10'000, 'x'), "%s%n"};
  for (const Token& token : tokens(text_))
    for (const std::string& word : nasty) {
      std::string changed = text_;
      changed.replace(token.start, token.length, word);
      ASSERT_EQ(build_complaint(changed), "")
          << text_.substr(token.start, token.length) << " at byte " << token.start << " became "
          << word.substr(0, 20);
    }
}

std::string net_name(const testing::TestParamInfo<std::filesystem::path>& net) {
  std::string name = net.param.stem();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(ShippedNets, Mutations, testing::ValuesIn(shipped_nets()), net_name);

}  // namespace
}  // namespace omni
