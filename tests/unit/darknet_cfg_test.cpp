// These tests check which cfg files are read, and as what. The cfg files that are refused are in
// tests/error/cfg_cases.txt.
#include "layers/formats/darknet/darknet.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/log.hpp"

namespace omni {
namespace {

const std::string kTiny = "[net]\nbatch=4\n[softmax]\n";

DarknetCfg parse_cfg(std::string_view text) {
  auto spec = parse_darknet_sections(text, "folder/tiny.cfg");
  EXPECT_TRUE(spec) << spec.error().message();
  return spec ? *spec : DarknetCfg{};
}

std::string refusal(std::string_view text) {
  auto spec = parse_darknet_sections(text, "tiny.cfg");
  EXPECT_FALSE(spec);
  return spec ? "" : spec.error().message();
}

std::string value(const Section& section, std::string_view key) {
  const Option* option = section.find(key);
  return option ? option->value : "(absent)";
}

TEST(DarknetCfg, SectionsOptionsAndTheirPlaces) {
  DarknetCfg spec = parse_cfg("[net]\nbatch=4\n\n[convolutional]\nfilters=8\nsize=3\n[softmax]\n");
  EXPECT_EQ(spec.name, "tiny");
  EXPECT_EQ(spec.net.type, "net");
  EXPECT_EQ(spec.net.where(), "folder/tiny.cfg:1");
  EXPECT_EQ(value(spec.net, "batch"), "4");
  ASSERT_EQ(spec.layers.size(), 2U);
  EXPECT_EQ(spec.layers[0].type, "convolutional");
  EXPECT_EQ(spec.layers[0].where(), "folder/tiny.cfg:4");
  EXPECT_EQ(spec.layers[0].where(*spec.layers[0].find("size")), "folder/tiny.cfg:6");
  EXPECT_TRUE(spec.layers[1].options.empty());
}

TEST(DarknetCfg, BlanksMeanNothing) {
  DarknetCfg spec = parse_cfg(" [ n e t ]\t\n\t hue  = .1 \n steps = 1, 2 ,3\n[soft max]\n");
  EXPECT_EQ(spec.net.type, "net");
  EXPECT_EQ(value(spec.net, "hue"), ".1");
  EXPECT_EQ(value(spec.net, "steps"), "1,2,3");
  EXPECT_EQ(spec.layers[0].type, "softmax");
}

TEST(DarknetCfg, SectionNamesAreLowerCasedAndNetworkIsNet) {
  DarknetCfg spec = parse_cfg("[NetWork]\n[SoftMax]\n");
  EXPECT_EQ(spec.net.type, "network");
  EXPECT_EQ(spec.layers[0].type, "softmax");
}

TEST(DarknetCfg, CommentsOfBothKindsWholeAndInline) {
  DarknetCfg spec = parse_cfg(
      "# first\n  ; second\n[net] # third\nbatch=4# fourth\nheight=8 ; fifth\n#width=9\n"
      "momentum=.9 #;\n[softmax] ; \xFF\xFE bytes in comments do not matter\n");
  EXPECT_EQ(value(spec.net, "batch"), "4");
  EXPECT_EQ(value(spec.net, "height"), "8");
  EXPECT_EQ(value(spec.net, "width"), "(absent)");
  EXPECT_EQ(value(spec.net, "momentum"), ".9");
}

TEST(DarknetCfg, SemicolonWithinAValueIsNotAComment) {
  EXPECT_EQ(value(parse_cfg("[net]\nsteps=1;2\n[softmax]\n").net, "steps"), "1;2");
}

TEST(DarknetCfg, ValuesMayBeEmptyOrHoldEqualsSignsAndUtf8) {
  DarknetCfg spec = parse_cfg("[net]\na=\nb=c=d\ntree=B\xC3\xA4ume/\xE2\x82\xAC\n[softmax]\n");
  EXPECT_EQ(value(spec.net, "a"), "");
  EXPECT_EQ(value(spec.net, "b"), "c=d");
  EXPECT_EQ(value(spec.net, "tree"), "B\xC3\xA4ume/\xE2\x82\xAC");
}

TEST(DarknetCfg, EveryLineEndCountsOnce) {
  for (std::string_view end : {"\n", "\r\n", "\r"}) {
    std::string text = fmt::format("[net]{0}batch=4{0}{0}[softmax]{0}", end);
    DarknetCfg spec = parse_cfg(text);
    EXPECT_EQ(value(spec.net, "batch"), "4");
    EXPECT_EQ(spec.layers[0].line, 4);
  }
}

TEST(DarknetCfg, LastLineNeedsNoEnd) { EXPECT_EQ(parse_cfg("[net]\n[softmax]").layers.size(), 1U); }

TEST(DarknetCfg, ByteOrderMarkIsSkipped) {
  EXPECT_EQ(value(parse_cfg("\xEF\xBB\xBF" + kTiny).net, "batch"), "4");
}

TEST(DarknetCfg, RepeatedKeyWarnsAndTheLastOneCounts) {
  log::Capture said;
  DarknetCfg spec = parse_cfg("[net]\nbatch=4\nheight=8\nbatch=5\n[softmax]\n");
  EXPECT_EQ(value(spec.net, "batch"), "5");
  EXPECT_NE(said.text().find("folder/tiny.cfg:4: 'batch' is set again (line 2"), std::string::npos)
      << said.text();
}

TEST(DarknetCfg, SameKeyInTwoSectionsIsNoRepetition) {
  log::Capture said;
  parse_cfg("[net]\nlearning_rate=1\n[softmax]\nlearning_rate=2\n");
  EXPECT_EQ(said.text(), "");
}

TEST(DarknetCfg, RefusesNothingAtAll) {
  EXPECT_EQ(refusal(""),
            "tiny.cfg:1: no sections (a cfg starts with [net], then one section per layer)");
}

TEST(DarknetCfg, RefusesALongLine) {
  const std::string fits = "#" + std::string(4095, 'x'), too_long = fits + "x";
  parse_cfg(kTiny + fits);
  EXPECT_EQ(refusal(kTiny + too_long),
            "tiny.cfg:4: a line of 4097 bytes (at most 4096 are read; is this a cfg file?)");
}

TEST(DarknetCfg, RefusesALargeFile) {
  const std::string blank(std::size_t{1} << 20, '\n');
  EXPECT_EQ(refusal(blank + "\n"), "tiny.cfg:1: larger than 1048576 bytes (is this a cfg file?)");
  EXPECT_NE(refusal(blank).find("no sections"), std::string::npos);
}

TEST(DarknetCfg, RefusesTooManyLayers) {
  std::string text = "[net]\n";
  for (int i = 0; i < 10'000; ++i) text += "[softmax]\n";
  EXPECT_EQ(parse_cfg(text).layers.size(), 10'000U);
  EXPECT_EQ(refusal(text + "[softmax]\n"),
            "tiny.cfg:10002: more than 10000 layers (is this a cfg file?)");
}

TEST(DarknetCfg, RefusesTooManyOptions) {
  std::string text = "[net]\n";
  for (int i = 0; i < 256; ++i) text += fmt::format("k{}=\n", i);
  EXPECT_EQ(parse_cfg(text + "[softmax]\n").net.options.size(), 256U);
  EXPECT_EQ(refusal(text + "k=\n"),
            "tiny.cfg:258: more than 256 options in [net] (is a section header missing?)");
}

TEST(DarknetCfg, MessagesShowNoRawBytes) {
  const std::string message = refusal("[net]\nB\xC3\xA4ume" + std::string(200, 'x') + "\n");
  EXPECT_EQ(message, "tiny.cfg:2: 'B\xc3\xa4ume" + std::string(94, 'x') +
                         "'... has no '=' (write key=value, [section], or # before a comment)");
}

TEST(DarknetCfg, UnreadableFilesAreUsageErrors) {
  for (const char* path : {"/nonexistent/net.cfg", "/tmp", "/dev/zero"}) {
    auto spec = read_darknet_cfg(path);
    ASSERT_FALSE(spec) << path;
    EXPECT_EQ(spec.error().kind, ErrorKind::usage);
    EXPECT_TRUE(spec.error().message().starts_with(path)) << spec.error().message();
  }
}

TEST(DarknetCfg, ShippedNetsParseWithoutAWarning) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(OMNI_SOURCE_DIR) / "apps/nets")) {
    if (entry.path().extension() != ".cfg") continue;
    log::Capture said;
    auto spec = read_darknet_cfg(entry.path());
    ASSERT_TRUE(spec) << spec.error().message();
    EXPECT_EQ(said.text(), "");
    EXPECT_EQ(spec->name, entry.path().stem());
    EXPECT_EQ(spec->layers.back().type, "softmax") << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 13);
}

}  // namespace
}  // namespace omni
