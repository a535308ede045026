// One record, one line of JSON, appended to a buffer: docs/internals/trace-format.md shows them.
#pragma once

#include <fmt/format.h>

#include "runtime/trace/records.hpp"

namespace omni::trace {

using Buffer = fmt::memory_buffer;

void append(Buffer& buffer, const Header& header);
void append(Buffer& buffer, const Worker& worker);
void append(Buffer& buffer, const Codelet& codelet);
void append(Buffer& buffer, const Layer& layer);
void append(Buffer& buffer, const Data& data);
void append(Buffer& buffer, const Peak& peak);
void append(Buffer& buffer, const Eligible& eligible);
void append(Buffer& buffer, const Task& task);
void append(Buffer& buffer, const IterationStart& iteration);
void append(Buffer& buffer, const Wait& wait);
void append(Buffer& buffer, const Transfer& transfer);
void append(Buffer& buffer, const Exchange& exchange);
void append(Buffer& buffer, const Meeting& meeting);
void append(Buffer& buffer, const Counter& counter);
void append(Buffer& buffer, const End& end);

}  // namespace omni::trace
