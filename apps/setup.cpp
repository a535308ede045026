#include "apps/setup.hpp"

#include <fmt/format.h>

#include "runtime/log.hpp"

namespace omni {

Result<Session> start_session(const MachineArguments& arguments) {
  SessionOptions options = arguments.session;
  options.models = arguments.models;
  OMNI_TRY(Session session, Session::start(options));
  log::info("{} worker{}, scheduler {}{}", session.workers().size(),
            session.workers().size() == 1 ? "" : "s", session.scheduler(),
            options.deterministic ? ", deterministic" : "");
  return session;
}

Result<DatasetPair> open_data(const DataArguments& arguments, const Net& net) {
  const std::string source = arguments.source.empty() ? "synthetic" : arguments.source;
  OMNI_TRY(DatasetPair data, open_dataset({.source = source,
                                           .net_input = net.options().input,
                                           .classes = net.classes(),
                                           .seed = arguments.seed}));
  log::info("data: {}", data.train->description());
  if (data.train->classes() > net.classes())
    return Error{
        ErrorKind::usage, source,
        fmt::format("has {} classes, the net has {} outputs", data.train->classes(), net.classes()),
        "change the last layer, or use other data"};
  if (!can_convert_channels(data.train->extent().c, net.options().input.c))
    return Error{ErrorKind::usage, source,
                 fmt::format("has {} channels, the net reads {}", data.train->extent().c,
                             net.options().input.c),
                 "change channels in [net]"};
  return data;
}

FeedOptions feed_options(const Net& net, std::uint64_t seed, bool training, int slots) {
  return {.training = training,
          .seed = seed,
          .augment = net.options().augment,
          .net_input = net.options().input,
          .slices = net.slices(),
          .slots = slots};
}

}  // namespace omni
