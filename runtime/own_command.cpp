#include "runtime/own_command.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <string_view>
#include <utility>

#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// Quotes a word with control characters as bash reads it. Otherwise log.hpp would escape them in a
// way that bash does not read.
std::string ansi_quoted(const std::string& word) {
  std::string text = "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c == '\\' || c == '\'' ? std::string("\\") + c : std::string(1, c);
  }
  return text + '\'';
}

// Appends to `word` the word that ansi_quoted() has written; `at` is the place after the opening
// quote. Returns the place of the closing quote.
std::size_t append_ansi(std::string_view line, std::size_t at, std::string& word) {
  for (; at < line.size() && line[at] != '\''; ++at) {
    const bool escaped = line[at] == '\\';
    if (escaped && ++at == line.size()) break;
    unsigned byte = 0;
    const bool coded = escaped && line[at] == 'x' && at + 2 < line.size();
    if (coded && std::from_chars(&line[at + 1], &line[at + 3], byte, 16).ptr == &line[at + 3]) {
      word += static_cast<char>(byte);
      at += 2;
    } else {
      word += line[at];
    }
  }
  return at;
}

std::string quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("%+,-./:=@_").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  if (one_line(word) != word) return ansi_quoted(word);
  std::string text = "'";
  for (const char c : word)
    if (c == '\'')
      text += R"('\'')";
    else
      text += c;
  text += '\'';
  return text;
}

}  // namespace

std::string own_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::vector<std::string> words_without(const std::vector<std::string>& options,
                                       const std::vector<std::string>& words) {
  std::vector<std::string> left;
  bool value_follows = false;
  for (const std::string& word : words) {
    if (std::exchange(value_follows, false)) continue;
    const std::size_t name = word.find('=');
    const bool named = std::ranges::count(options, word.substr(0, name)) > 0;
    value_follows = named && name == std::string::npos;
    if (!named) left.push_back(word);
  }
  return left;
}

std::string for_shell(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += quoted(word);
  }
  return line;
}

std::vector<std::string> from_shell(std::string_view line) {
  std::vector<std::string> words;
  bool within = false, inside_quotes = false;  // within: a word
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!inside_quotes && line[i] == ' ') {
      within = false;
      continue;
    }
    if (!std::exchange(within, true)) words.emplace_back();
    if (!inside_quotes && line.substr(i).starts_with("$'"))
      i = append_ansi(line, i + 2, words.back());
    else if (line[i] == '\'')
      inside_quotes = !inside_quotes;
    else if (!inside_quotes && line[i] == '\\' && i + 1 < line.size())
      words.back() += line[++i];
    else
      words.back() += line[i];
  }
  return words;
}

std::optional<std::string> value_of(std::string_view option,
                                    const std::vector<std::string>& words) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == option && i + 1 < words.size()) value = words[i + 1];
    if (word.starts_with(option) && word.substr(option.size()).starts_with('='))
      value = word.substr(option.size() + 1);
  }
  return value;
}

}  // namespace omni
