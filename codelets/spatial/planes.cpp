#include "codelets/spatial/planes.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {

Codelet<PlanesArgs> planes({
    .name = "planes",
    .color = 0x7f7f7f,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(planes)},
    .cost = [](const PlanesArgs& args) -> Cost {
      return {.bytes = 8.0 * args.n * args.pixels * args.c};
    },
    .footprint = footprint_by<&PlanesArgs::n, &PlanesArgs::pixels, &PlanesArgs::c>,
});

}  // namespace omni
