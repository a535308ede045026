// One record, one line of JSON, appended to a buffer:
//   {"omnivore_trace":1,"rank":0,"started":1.7e9,"host":"n1","command":"omni-run ...",
//    "starpu":"1.4.10","scheduler":"dmdas","net":"lenet","batch":64}
//   {"worker":0,"name":"CPU 0","kind":"CPU","node":0}
//   {"codelet":2,"name":"conv_forward","color":2062260,"implementations":["onednn","lowering"]}
//   {"layer":0,"type":"convolutional","detail":"20 5x5/1"}
//   {"data":7,"name":"0.output[1]","bytes":36864}
//   {"peak":"gemm","kind":"CPU","per_worker":1.1e11,"together":2.1e11}
//   {"task":5,"codelet":2,"impl":0,"worker":1,"layer":0,"slice":1,"group":0,"iteration":3,
//    "times":[submitted,ready,pop_start,popped,fetch_start,fetch_end,start,end,released],
//    "predicted":81000,"flops":5.1e7,"bytes":90112,
//    "reads":[3,4],"writes":[7],"updates":[8],"adds":[9]}   "predicted" may be null; empty lists
//    and
//                                                           layer, slice, iteration of -1 are left
//                                                           out
//   {"iteration":3,"at":1200}
//   {"wait":"all","from":5000,"to":9000}                   or "data"
//   {"transfer":4096,"count":1,"from_node":0,"to_node":1,"from":5000,"to":5400}
//   {"exchange":3,"group":0,"staleness":1,"at":5000}
//   {"counter":"memory.resident","at":5000,"value":1.2e8}
//   {"end":90000,"tasks":812}
// The first key of a line says what it is. Unknown lines and keys are for later versions.
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
