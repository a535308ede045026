// These tests try every section and key of Darknet's classification nets, pjreddie's and
// AlexeyAB's. Each key is accepted, accepted with a warning that it has no effect, or refused with
// a reason. None is unknown.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/net.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

// Each line has a section and its settings. A * marks a setting without effect, a ! a setting that
// is refused. Further settings that it needs follow after a semicolon.
constexpr const char* kTable = R"(
net: batch=8 subdivisions=2;batch=4 !time_steps=2 *notruth=1 channels=3 inputs=192 !inputs=191 !inputs=0
net: learning_rate=.01 momentum=.5 decay=.1 adam=1 *B1=.8 *B2=.99 *eps=1 *clip=1
net: B1=.9;adam=1 B2=.9;adam=1 eps=1;adam=1 momentum=.9;adam=1 *momentum=.8;adam=1 momentum=.8;adam=1;B1=.8 !B1=1;adam=1 !B2=1;adam=1 !eps=0;adam=1
net: policy=constant policy=step policy=exp policy=sigmoid policy=random policy=sgdr;sgdr_cycle=5 policy=poly;max_batches=9 !policy=steps
net: !policy=cosine burn_in=3 power=2 step=2 scale=.1 steps=1,2;scales=.1,.1;policy=steps gamma=.9 max_batches=9
net: max_crop=9;min_crop=8 min_crop=8 *max_ratio=2 *min_ratio=1 center=1 angle=7 aspect=.75 saturation=.75
net: exposure=.75 hue=.1 *random=1 learning_rate_min=.001 sgdr_cycle=5 sgdr_mult=3
net: *sequential_subdivisions=2 *augment_speed=3 *try_fix_nan=1 *letter_box=1 flip=1 *blur=1
net: *gaussian_noise=1 *mixup=1 *cutmix=1 *mosaic=1 *mosaic_bound=1 label_smooth_eps=.1
net: *ema_alpha=.9 *resize_step=16 *max_chart_loss=5 *loss_scale=128 *use_cuda_graph=1
net: *dynamic_minibatch=1 *optimized_memory=1 *workspace_size_limit_MB=8 *contrastive=1
net: *contrastive_jit_flip=1 *contrastive_color=1 *unsupervised=1 *attention=1 *adversarial_lr=.1
net: *badlabels_reject_percentage=.1 *badlabels_rejection_percentage=.1 *weights_reject_freq=5
net: mixup=0 angle=0 saturation=1 exposure=1.0 loss_scale=1 time_steps=1 B1=.9 notruth=0
net: *equidistant_point=5 *num_sigmas_reject_badlabels=3 *track=1 *seq_scales=1 *show_receptive_field=1
convolutional: filters=4 size=3 stride=2 pad=1 padding=1 groups=3;filters=3 activation=relu batch_normalize=1
convolutional: !binary=1 !xnor=1 !flipped=1 *dot=1 dilation=1 stride_x=2 stride_y=2 binary=0
convolutional: !antialiasing=1 !share_index=-1 antialiasing=0
conv: activation=logistic activation=loggy activation=elu activation=selu activation=relie
conv: activation=ramp activation=linear activation=tanh activation=plse activation=leaky
conv: activation=stair activation=hardtan activation=lhtan activation=swish activation=mish
conv: activation=hard_mish activation=gelu !activation=normalize_channels
conv: !activation=normalize_channels_softmax !activation=normalize_channels_softmax_maxval
conv: *truth=1 *onlyforward=1 stopbackward=1 *dontsave=1 dontload=1 *numload=1 *dontloadscales=1
conv: learning_rate=2 *smooth=1 *dont_update=1 *clip=1 *stream=1 *wait_stream=1 activation=relu6
conv: !cbn=1 !sway=1 !rotate=1 !stretch=1 !stretch_sway=1 !coordconv=1 *assisted_excitation=1
conv: *bin_output=1 *grad_centr=1 *reverse=.1
maxpool: stride=2 size=2 padding=1;size=2 stride_x=2 stride_y=2 !maxpool_depth=1 *out_channels=4
max: !antialiasing=1 !maxpool_zero_nonmax=1
avgpool: stopbackward=1
avg: stopbackward=1
connected: output=3 activation=mish batch_normalize=1
conn: output=3
dropout: probability=.2 !dropblock=1 *dropblock_size_rel=.1 *dropblock_size_abs=3
softmax: groups=2 temperature=2 !tree=9k.tree spatial=1 !noloss=1
soft: groups=2
cost: type=sse type=smooth type=L1 !type=masked !type=seg !type=wgan scale=2 *ratio=.5 *noobj=.5
cost: *thresh=.5
crop: crop_height=4;crop_width=4
crop;crop_height=4;crop_width=4: flip=1 *angle=5 *saturation=2 *exposure=2 noadjust=1 *shift=.1
shortcut: from=-1 from=1
shortcut;from=-1: activation=mish alpha=2 beta=2 !weights_type=per_channel !weights_normalization=relu
route: layers=-1,-2
route;layers=-1: !groups=2 !group_id=1
normalization: alpha=.1 beta=.5 kappa=2 size=3
lrn: size=3
batchnorm: stopbackward=1
activation: activation=gelu
logistic: stopbackward=0
l2norm: stopbackward=1
upsample: stride=2 scale=2
reorg: stride=2 reverse=0 !flatten=1 !extra=1
local: filters=2 size=3 stride=2 pad=1 activation=mish
deconvolutional: filters=2 size=2 stride=2 pad=1 padding=0 batch_normalize=1 activation=mish
)";

struct Row {
  std::string section, setting;
  char verdict = ' ';  // or * or !
};

std::vector<Row> rows() {
  std::vector<Row> all;
  std::istringstream table(kTable);
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string section, word;
    if (!(words >> section)) continue;
    section.pop_back();
    while (words >> word) {
      const bool marked = word[0] == '*' || word[0] == '!';
      all.push_back({section, word.substr(marked ? 1 : 0), marked ? word[0] : ' '});
    }
  }
  return all;
}

std::string lines(std::string text) {
  std::replace(text.begin(), text.end(), ';', '\n');
  return text + "\n";
}

// Returns a valid net with the row's setting in the row's section.
std::string net_with(const Row& row) {
  const std::string name = row.section.substr(0, row.section.find(';'));
  const std::string own =
      "[" + name + "]" + lines(row.section.substr(name.size())) + lines(row.setting);
  const std::string net = name == "net" ? own : "[net]\n";
  const bool first = name == "net",
             last = std::set<std::string>{"softmax", "soft", "cost", "logistic"}.contains(name);
  return net + "height=8\nwidth=8\n[conv]\nfilters=3\n[conv]\nfilters=3\n" +
         (first || last ? "" : own) + "[connected]\noutput=4\n" + (last ? own : "[softmax]\n");
}

TEST(DarknetKeys, NoneIsUnknown) {
  const std::vector<Row> all = rows();
  ASSERT_GT(all.size(), 150u);
  for (const Row& row : all) {
    SCOPED_TRACE("[" + row.section + "] " + row.setting);
    const std::string text = net_with(row);
    const log::Capture said;
    const auto spec = parse_darknet_cfg(text, "a.cfg");
    const auto net = spec ? Net::build(*spec, {}) : spec.error();
    const std::string warnings = said.text();
    EXPECT_EQ(warnings.find("unknown"), std::string::npos) << warnings;
    EXPECT_EQ(warnings.find("has no effect") != std::string::npos, row.verdict == '*') << warnings;
    EXPECT_EQ(net.operator bool(), row.verdict != '!')
        << (net ? "built" : net.error().message()) << "\n"
        << text;
    if (net) continue;
    EXPECT_FALSE(net.error().hint.empty());
    EXPECT_EQ(net.error().what.find("unknown key"), std::string::npos) << net.error().message();
  }
}

TEST(DarknetKeys, SectionsOfOtherTradesAreRefusedByName) {
  for (const std::string section :
       {"crnn", "rnn", "gru", "lstm", "region", "yolo", "detection", "iseg", "scale_channels",
        "sam", "Gaussian_yolo", "conv_lstm", "history", "local_avgpool", "reorg3d", "contrastive",
        "empty", "silence", "implicit"}) {
    const auto spec =
        parse_darknet_cfg("[net]\nheight=8\nwidth=8\n[" + section + "]\n[softmax]\n", "a.cfg");
    const auto net = spec ? Net::build(*spec, {}) : spec.error();
    ASSERT_FALSE(net) << section;
    EXPECT_NE(net.error().what.find("] is not supported"), std::string::npos)
        << net.error().message();
  }
}

TEST(DarknetKeys, SoftmaxWithoutLossStillPredicts) {
  const auto spec = parse_darknet_cfg(
      "[net]\nheight=2\nwidth=2\n[connected]\noutput=4\n[softmax]\nnoloss=1\n", "a.cfg");
  const auto net = Net::build(*spec, {.training = false});
  ASSERT_TRUE(net) << net.error().message();
  EXPECT_FALSE((*net)->layers().back()->is_loss());
}

TEST(DarknetKeys, SpatialSoftmaxNeedsALabelPerPixel) {
  const auto spec =
      parse_darknet_cfg("[net]\nheight=8\nwidth=8\n[conv]\n[softmax]\nspatial=1\n", "a.cfg");
  const auto net = Net::build(*spec, {});
  ASSERT_FALSE(net);
  EXPECT_EQ(net.error().where, "a.cfg:6");
  EXPECT_NE(net.error().what.find("8x8 pixels"), std::string::npos) << net.error().message();
}

}  // namespace
}  // namespace omni
